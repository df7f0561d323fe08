package docstest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// copyTree copies the files that a clone would have.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		switch {
		case base == ".git" || base == ".demo" || base == ".bench" || base == ".cover" || base == ".openapi" || base == ".shots" || base == "bin" || base == "dist" || base == "__pycache__":
			if entry.IsDir() {
				return fs.SkipDir
			}
		case entry.Type().IsRegular() && !strings.HasSuffix(base, ".test"):
			copyFile(t, name, filepath.Join(to, name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, info.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
}

// copyProgram copies a program in a process of its own. If this process wrote the file, another
// test's command that is started meanwhile would hold it open for writing until its exec, and
// the program could not be run ("text file busy").
func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v\n%s", from, err, out)
	}
}
