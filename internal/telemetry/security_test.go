package telemetry

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// newSecurityFile is a security log in a file of its own.
func newSecurityFile(t *testing.T) (*Security, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "security.log")
	security, err := NewSecurity(slog.New(slog.NewTextHandler(io.Discard, nil)), nil, func() (*os.File, error) {
		return os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = security.Close() })
	return security, path
}

// subjects counts the whole lines of a file by their subject, and the others.
func subjects(t *testing.T, path string, count map[string]int) (broken int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e struct{ Subject string }
		if json.Unmarshal([]byte(line), &e) != nil || !strings.HasSuffix(line, "\n") {
			broken++
			continue
		}
		count[e.Subject]++
	}
	return broken
}

func TestSecurity_ReopenLosesAndTearsNoLine(t *testing.T) {
	t.Parallel()
	const writers, lines, reopenings = 4, 50, 10
	security, path := newSecurityFile(t)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := range lines {
				security.Log(SecurityEvent{Event: "signed_in", Outcome: SecurityDone, Subject: fmt.Sprint(w, " ", n), Path: strings.Repeat("p", 500)})
			}
		})
	}
	files := []string{path}
	group.Go(func() {
		for n := range reopenings {
			renamed := fmt.Sprint(path, ".", n)
			if err := os.Rename(path, renamed); err != nil {
				t.Error(err)
				return
			}
			files = append(files, renamed)
			if err := security.Reopen(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	group.Wait()
	count := map[string]int{}
	for _, file := range files {
		if broken := subjects(t, file, count); broken != 0 {
			t.Errorf("%s has %d lines that are not whole", file, broken)
		}
	}
	for w := range writers {
		for n := range lines {
			if got := count[fmt.Sprint(w, " ", n)]; got != 1 {
				t.Errorf("line %d of writer %d is there %d times; want once", n, w, got)
			}
		}
	}
}

// The disk was full, or the process was killed, within a line.
func TestSecurity_LineAfterABrokenOneIsWhole(t *testing.T) {
	t.Parallel()
	security, path := newSecurityFile(t)
	security.Log(SecurityEvent{Event: "signed_in", Outcome: SecurityDone, Subject: "before"})
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"time":"2026-11-18T`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	// SIGHUP for a new certificate opens the same file again.
	for range 2 {
		if err := security.Reopen(); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{"after", "later"} {
		security.Log(SecurityEvent{Event: "signed_in", Outcome: SecurityDone, Subject: subject})
	}
	count := map[string]int{}
	if broken := subjects(t, path, count); broken != 1 || count["before"] != 1 || count["after"] != 1 || count["later"] != 1 {
		t.Errorf("%d lines are broken, and the whole ones are %v; want 1 and each once", broken, count)
	}
}
