//go:build long

package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestBenchCompareLeavesProfilesBesideItsReport(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	temp, out := benchFolder(t), t.TempDir()
	p := benchCompareIn(t, temp, out, "--quick", "--only", "reads", "--profile")
	if code := p.Wait(); code != e2e.ExitDone {
		t.Fatalf("it ended with %d; want 0\n%s%s", code, p.Out, p.Err)
	}
	top, err := exec.Command("go", "tool", "pprof", "-raw", filepath.Join(out, "reads.cpu.pprof")).CombinedOutput()
	if err != nil || !strings.Contains(string(top), "httpapi") {
		t.Errorf("the profile does not show the service at work: %v\n%.2000s", err, top)
	}
	if report := benchCompared(t, out); len(report.Ratios) != 3 || len(report.Figures) != 7 {
		t.Errorf("%d figures and %d ratios; want those of reads alone, 7 and 3", len(report.Figures), len(report.Ratios))
	}
}

func TestBenchCompareThatIsStoppedLeavesNothingBehind(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	temp, out := benchFolder(t), t.TempDir()
	p := benchCompareIn(t, temp, out, "--quick", "--only", "reads,sqlite")
	if !p.Err.Until("bare TLS handler, 1 client: ", p.Ended) {
		t.Fatalf("it did not begin:\n%s", p.Err)
	}
	if code := p.Terminate(); code != e2e.ExitRefused || !strings.Contains(p.Err.String(), "\ncoax: interrupted") {
		t.Errorf("it ended with %d; want 1, saying that it was interrupted\n%s", code, p.Err)
	}
	benchEmpty(t, temp)
	benchEmpty(t, out)
}

func TestBenchCompareThatIsKilledTakesItsProcessesAlong(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent, and shows what runs")
	}
	temp := benchFolder(t)
	p := benchCompareIn(t, temp, t.TempDir(), "--quick", "--only", "reads,sqlite")
	if !p.Err.Until("bare TLS handler, 1 client: ", p.Ended) {
		t.Fatalf("it did not begin:\n%s", p.Err)
	}
	if running := benchRunning(t, temp); len(running) < 2 {
		t.Errorf("%q run from its folder; want a node and a bare handler", running)
	}
	p.Kill()
	for end := time.Now().Add(e2e.Timeout); len(benchRunning(t, temp)) > 0; {
		if time.Now().After(end) {
			t.Fatalf("still running: %q", benchRunning(t, temp))
		}
	}
}
