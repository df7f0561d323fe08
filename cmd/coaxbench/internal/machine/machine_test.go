package machine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestUsage_ParsesProc(t *testing.T) {
	for _, test := range []struct {
		line   string
		parent int
		cpu    time.Duration
	}{
		{"12 (coax) S 7 12 12 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 9 0 1 1 1", 7, 2 * time.Second},
		{"12 (a) b) (c) R 1 12 12 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 9 0 1 1 1", 1, 100 * time.Millisecond},
	} {
		got, err := parseStat(test.line)
		if err != nil || got.parent != test.parent || got.cpu != test.cpu {
			t.Errorf("%q is read as %+v (%v); want %d and %s", test.line, got, err, test.parent, test.cpu)
		}
	}
	for _, line := range []string{"", "12 (coax) S 7", "12 (coax) S x 12 12 0 -1 4194560 1 0 0 0 150 50 0 0"} {
		if got, err := parseStat(line); err == nil {
			t.Errorf("%q is read as %+v; want an error", line, got)
		}
	}

	got, err := parseStatus("Name:\tcoax\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n")
	if want := (Memory{Resident: 1 << 20, Peak: 2 << 20}); err != nil || got != want {
		t.Errorf("%+v (%v); want %+v", got, err, want)
	}
	for _, text := range []string{"", "VmHWM:\t2048 MB\nVmRSS:\t1 kB\n", "VmRSS:\t1024 kB\n"} {
		if got, err := parseStatus(text); err == nil {
			t.Errorf("%q is read as %+v; want an error", text, got)
		}
	}
}

func TestStolen_ParsesProcStat(t *testing.T) {
	stolen, all := parseStolen("cpu  10 20 30 400 50 6 7 77 5 5\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
	if stolen != 77 || all != 600 {
		t.Errorf("%d of %d; want 77 of 600", stolen, all)
	}
	for _, text := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8 9", "cpu 1 2 3 4 5 6 7 x"} {
		if stolen, all := parseStolen(text); stolen != 0 || all != 0 {
			t.Errorf("%q is read as %d of %d; want nothing", text, stolen, all)
		}
	}
	for _, part := range []float64{WatchStolen()(), ProbeStolen()} {
		if part < 0 || part > 1 {
			t.Errorf("the host took %g of the machine", part)
		}
	}
}

func TestUsage_GrowsWithWork(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// Busy until the system has noticed: that is what is asked.
	for end := time.Now().Add(time.Minute); ; {
		after, err := CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after > before {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a minute of work was not counted")
		}
	}
	m, err := MemoryOf(os.Getpid())
	if err != nil || m.Resident < 1<<20 || m.Peak < m.Resident/2 {
		t.Errorf("this process has %+v (%v); want some megabytes", m, err)
	}
}

func TestProcess_Ready(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := Start(t.Context(), "shell", exec.Command("sh", "-c", `echo one; echo ready at nine; exec sleep 60`), log,
		func(line string) bool { return strings.HasPrefix(line, "ready") })
	if err != nil {
		t.Fatal(err)
	}
	if p.Said != "ready at nine\n" {
		t.Errorf("it was ready when it had said %q", p.Said)
	}
	// The signal that ends it is not how it was to end.
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("%v; want word of how it ended", err)
	}
}

func TestProcess_FailedStartShowsOutput(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	_, err := Start(t.Context(), "shell", exec.Command("sh", "-c", `echo no room >&2; exit 3`), log, func(string) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("%v; want its last words", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Start(ctx, "shell", exec.Command("sleep", "60"), log, func(string) bool { return false })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want that nobody waits any longer", err)
	}
}
