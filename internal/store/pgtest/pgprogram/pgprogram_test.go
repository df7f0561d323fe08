package pgprogram

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// installed returns the folder of the server, or skips the test.
func installed(t *testing.T) string {
	t.Helper()
	path, err := Find("postgres")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}

func TestCommand_RunsUnprivileged(t *testing.T) {
	installed(t)
	// t.TempDir is only for the test's user.
	folder, err := os.MkdirTemp("", "coax-pgprogram-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := HandOver(folder); err != nil {
		t.Fatal(err)
	}
	command, err := Command(folder, "initdb", "--pgdata", filepath.Join(folder, "data"), "--no-sync", "--locale", "C")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if _, err := os.Stat(filepath.Join(folder, "data", "PG_VERSION")); err != nil {
		t.Error(err)
	}
}

func TestFind_FollowsLinksInPath(t *testing.T) {
	server, err := filepath.EvalSymlinks(installed(t))
	if err != nil {
		t.Fatal(err)
	}
	links := t.TempDir()
	if err := os.Symlink(server, filepath.Join(links, "postgres")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", links)
	if got, err := Find("initdb"); err != nil || filepath.Dir(got) != filepath.Dir(server) {
		t.Errorf("initdb is %s, %v; want it in %s", got, err, filepath.Dir(server))
	}
}

func TestFind_ProgramsOfOneRelease(t *testing.T) {
	chosen := t.TempDir()
	if err := os.WriteFile(filepath.Join(chosen, "postgres"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", chosen)
	if got, err := Find("initdb"); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), chosen) {
		t.Errorf("initdb is %s, %v; want an error that names the folder", got, err)
	}
}
