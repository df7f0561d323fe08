//go:build long

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/store/pgtest/pgprogram"
)

// needsPostgres skips where PostgreSQL is not installed, except where it has
// to be.
func needsPostgres(t *testing.T) {
	t.Helper()
	if _, err := pgprogram.Find("postgres"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("%v: `make tools-present` installs it", err)
	}
}

func TestCompare_BothStores(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	needsPostgres(t)
	temp, out := sharedFolder(t), t.TempDir()
	p := compareIn(t, temp, out, "--quick", "--only", "reads,sqlite,postgres,calls")
	if code := p.Wait(); code != e2e.ExitDone {
		t.Fatalf("it ended with %d; want 0\n%s%s", code, p.Out, p.Err)
	}
	checkEmpty(t, temp)
	e2e.CheckMentions(t, "the table", p.Out.String(), "p50 ms", "p95 ms", "p99 ms", "generator", "service", "simulator", "database",
		"balance on SQLite, 16 clients ÷ bare TLS handler", "plans on PostgreSQL, 16 clients ÷ bare TLS handler", "the same by rate", "activations ÷ renewals on SQLite", "activations ÷ renewals on PostgreSQL",
		"ms of one client's renewal on SQLite, without the simulator's", "ms of one client's renewal on PostgreSQL, without the simulator's", "renewals on SQLite, 16 clients ÷ rows alone", "renewals on PostgreSQL ÷ pgbench TPC-B, 1 client",
		"renewals on PostgreSQL ÷ pgbench TPC-B, 16 clients",
		"three nodes ÷ one node on PostgreSQL", "p99 of renewals on SQLite beside audits ÷ alone", "p99 of renewals on SQLite beside reviews ÷ alone",
		"p99 of renewals on PostgreSQL beside a bulk job ÷ alone", "p99 of renewals on PostgreSQL beside a vacuum ÷ alone", "renewals on SQLite, calls kept ÷ not kept",
		"balance on PostgreSQL, calls kept ÷ not kept", "SQLite, idle", "its figures mean nothing", "The report is in "+out)
	e2e.CheckMentions(t, "the progress", p.Err.String(), "preparing 32 operators and 640 subscribers", "starting PostgreSQL", "comparing the books with the answers")
	report := readReport(t, out)
	if !report.Quick || len(report.Figures) != 56 || len(report.Ratios) != 41 || len(report.Sizes) != 4 {
		t.Errorf("%d figures, %d ratios, %d sizes; want 56, 41 and 4", len(report.Figures), len(report.Ratios), len(report.Sizes))
	}
	checkSound(t, report, "sqlite", "postgres", "calls_kept_SQLite", "calls_forgotten_SQLite", "calls_kept_PostgreSQL", "calls_forgotten_PostgreSQL")
	for _, books := range report.Books {
		if books.Verified == 0 && !strings.HasPrefix(books.Store, "calls_") {
			t.Errorf("%s: nothing was left unknown beside the load and verified", books.Store)
		}
	}
}

func TestCompare_Growth(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	needsPostgres(t)
	temp, out := sharedFolder(t), sharedFolder(t)
	p := compareIn(t, temp, out, "--quick", "--only", "growth")
	if code := p.Wait(); code != e2e.ExitDone {
		t.Fatalf("it ended with %d; want 0\n%s%s", code, p.Out, p.Err)
	}
	checkEmpty(t, temp)
	e2e.CheckMentions(t, "the report", p.Out.String(), "thousand operations ÷ of 100", "the store that has grown on SQLite had 20", "the store that has grown on PostgreSQL had 20")
	report := readReport(t, out)
	if len(report.Figures) != 4 || len(report.Ratios) != 2 || len(report.Sizes) != 2 {
		t.Errorf("%d figures, %d ratios, %d sizes; want 4, 2 and 2", len(report.Figures), len(report.Ratios), len(report.Sizes))
	}
	// What was filled stays in the cache, and its books are only counted.
	checkSound(t, report, "sqlite-small", "", "postgres-small", "")
	for _, kind := range []string{"sqlite", "postgres"} {
		if kept, err := filepath.Glob(filepath.Join(out, "filled-"+kind+"-20000-*", "filled.json")); err != nil || len(kept) != 1 {
			t.Errorf("in the cache of %s is %q (%v); want one store", kind, kept, err)
		}
	}
}

// checkSound demands that nothing went wrong, that something was measured, and
// that every store's ledger has a line for every 200. Those that are named were
// audited.
func checkSound(t *testing.T, report compare.Report, audited ...string) {
	t.Helper()
	if len(report.Problems) > 0 {
		t.Errorf("it found problems: %q", report.Problems)
	}
	for _, figure := range report.Figures {
		if len(figure.Runs) != 1 {
			t.Errorf("%s has %d runs; want one", figure.Name, len(figure.Runs))
		}
	}
	if len(report.Books) != len(audited) {
		t.Fatalf("%d stores were held against the answers; want %d", len(report.Books), len(audited))
	}
	for i, books := range report.Books {
		if books.Answered == 0 || books.Ledger != books.Answered+books.Verified || (books.Audited != "") != (audited[i] != "") || audited[i] != "" && books.Store != audited[i] {
			t.Errorf("%+v; want a line in the ledger for every 200, and an audit of %q", books, audited[i])
		}
	}
}

// processesIn are the command lines of this machine that name a folder.
func processesIn(t *testing.T, folder string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), folder) {
			lines = append(lines, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return lines
}

func TestCompare_Profile(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	temp, out := sharedFolder(t), t.TempDir()
	p := compareIn(t, temp, out, "--quick", "--only", "reads", "--profile")
	if code := p.Wait(); code != e2e.ExitDone {
		t.Fatalf("it ended with %d; want 0\n%s%s", code, p.Out, p.Err)
	}
	top, err := exec.Command("go", "tool", "pprof", "-raw", filepath.Join(out, "subscription-sqlite.cpu.pprof")).CombinedOutput()
	if err != nil || !strings.Contains(string(top), "httpapi") {
		t.Errorf("the profile does not show the service at work: %v\n%.2000s", err, top)
	}
}

func TestCompare_StoppedLeavesNothing(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	temp, out := sharedFolder(t), t.TempDir()
	p := compareIn(t, temp, out, "--quick", "--only", "reads,sqlite")
	if !p.Err.WaitFor("bare TLS handler beside SQLite, 1 client: ", p.Ended) {
		t.Fatalf("it did not begin:\n%s", p.Err)
	}
	if code := p.Terminate(); code != e2e.ExitRefused || !strings.Contains(p.Err.String(), "\ncoaxbench: interrupted") {
		t.Errorf("it ended with %d; want 1, saying that it was interrupted\n%s", code, p.Err)
	}
	checkEmpty(t, temp)
	checkEmpty(t, out)
}

func TestCompare_KilledEndsItsProcesses(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent, and shows what runs")
	}
	temp := sharedFolder(t)
	p := compareIn(t, temp, t.TempDir(), "--quick", "--only", "reads,sqlite")
	if !p.Err.WaitFor("bare TLS handler beside SQLite, 1 client: ", p.Ended) {
		t.Fatalf("it did not begin:\n%s", p.Err)
	}
	if running := processesIn(t, temp); len(running) < 2 {
		t.Errorf("%q run from its folder; want a node and a bare handler", running)
	}
	p.Kill()
	for end := time.Now().Add(e2e.Timeout); len(processesIn(t, temp)) > 0; {
		if time.Now().After(end) {
			t.Fatalf("still running: %q", processesIn(t, temp))
		}
	}
}
