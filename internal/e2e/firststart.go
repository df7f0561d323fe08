package e2e

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// firstStart is the result of a demo's first start: its folder and, on PostgreSQL, its
// database.
type firstStart struct {
	folder   string
	database string
	at       time.Time
}

// firstStartTemplate makes a first start for tests to copy: creating schema, certificate,
// catalogue and logins takes longer than most tests.
var firstStartTemplate = sync.OnceValues(func() (made firstStart, err error) {
	made.at = startTime()
	if made.folder, err = os.MkdirTemp("", "coax-first-start-"); err != nil {
		return made, err
	}
	firstStartFolder = made.folder
	in := demo.Folder{Path: made.folder}
	if pgtest.Chosen() {
		if made.database, err = pgtest.KeptDatabase(); err != nil {
			return made, err
		}
		in.Sets = []string{"store.url=" + made.database}
	}
	provider, err := demo.StartSimulator("127.0.0.1:0", filepath.Join(made.folder, "simulator.json"))
	if err != nil {
		return made, err
	}
	defer provider.Stop()
	config, err := demo.Prepare(in, "127.0.0.1:0", provider.URL)
	if err != nil {
		return made, err
	}
	n, err := server.Open(context.Background(), config, nil, slog.New(slog.DiscardHandler), func() time.Time { return made.at })
	if err != nil {
		return made, err
	}
	_, err = demo.Setup(context.Background(), n, filepath.Join(made.folder, "demo.json"))
	return made, errors.Join(err, n.Close())
})

// startTime is the initial time of an Env's clock, ten seconds into the current minute.
func startTime() time.Time { return time.Now().Truncate(time.Minute).Add(10 * time.Second) }

// copyFirstStart copies the template and returns the folder and the settings of its store.
// An Env whose clock is before the template's gets an empty folder instead.
func copyFirstStart(t testing.TB, at time.Time) (folder string, sets []string) {
	t.Helper()
	folder = t.TempDir()
	made, err := firstStartTemplate()
	if err != nil {
		t.Fatal(err)
	}
	if at.Before(made.at) {
		return folder, NewStoreSettings(t)
	}
	if err := os.CopyFS(folder, os.DirFS(made.folder)); err != nil {
		t.Fatal(err)
	}
	// The product refuses files that others can read.
	if err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	}); err != nil {
		t.Fatal(err)
	}
	if made.database != "" {
		sets = append(sets, "store.url="+pgtest.CopyDatabase(t, made.database))
	}
	return folder, sets
}

// firstStartFolder is the template's folder; empty if no test used it.
var firstStartFolder string

// removeFirstStart removes the template at the end of a run.
func removeFirstStart() {
	if firstStartFolder != "" {
		_ = os.RemoveAll(firstStartFolder)
	}
}
