package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/bench/compare"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/pgprogram"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// benchCompareIn runs a comparison whose processes live in temp, and which
// reports to out.
func benchCompareIn(t *testing.T, temp, out string, args ...string) *e2e.Process {
	t.Helper()
	if pgtest.Chosen() {
		t.Skip("a comparison has stores of its own, and is made where SQLite is chosen")
	}
	return benchIn(t, temp, append([]string{"compare", "--out", out}, args...)...)
}

// benchFolder is one that PostgreSQL's own user may enter, too.
func benchFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "coax-compare-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o711); err != nil {
		t.Fatal(err)
	}
	return folder
}

// benchCompared reads the one report in a folder.
func benchCompared(t *testing.T, out string) compare.Report {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the reports are %q (%v); want one", files, err)
	}
	var report compare.Report
	if err := json.Unmarshal([]byte(e2e.Read(t, files[0])), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// benchNeedsPostgres skips where PostgreSQL is not installed, except where it has
// to be.
func benchNeedsPostgres(t *testing.T) {
	t.Helper()
	if _, err := pgprogram.Find("postgres"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("%v: `make tools-present` installs it", err)
	}
}

func TestBenchCompareMeasuresEverythingAndProvesTheBooks(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	benchNeedsPostgres(t)
	temp, out := benchFolder(t), t.TempDir()
	p := benchCompareIn(t, temp, out, "--quick", "--only", "reads,sqlite,postgres,calls")
	if code := p.Wait(); code != e2e.ExitDone {
		t.Fatalf("it ended with %d; want 0\n%s%s", code, p.Out, p.Err)
	}
	benchEmpty(t, temp)
	e2e.Mentions(t, "the table", p.Out.String(), "p50 ms", "p95 ms", "p99 ms", "generator", "service", "simulator", "database",
		"balance ÷ bare TLS handler, 16 clients", "renewals on SQLite, 16 clients ÷ rows alone", "renewals on PostgreSQL ÷ pgbench TPC-B, 1 client",
		"renewals on PostgreSQL ÷ pgbench TPC-B, 16 clients",
		"three nodes ÷ one node on PostgreSQL", "p99 of renewals on SQLite beside audits ÷ alone", "p99 of renewals on SQLite beside reviews ÷ alone",
		"p99 of renewals on PostgreSQL beside a bulk job ÷ alone", "p99 of renewals on PostgreSQL beside a vacuum ÷ alone", "renewals on SQLite, calls kept ÷ not kept",
		"balance on PostgreSQL, calls kept ÷ not kept", "SQLite, idle", "its figures mean nothing", "The report is in "+out)
	e2e.Mentions(t, "the progress", p.Err.String(), "preparing 32 operators and 640 subscribers", "starting PostgreSQL", "holding the books against the answers")
	report := benchCompared(t, out)
	if !report.Quick || len(report.Figures) != 35 || len(report.Ratios) != 19 || len(report.Sizes) != 4 {
		t.Errorf("%d figures, %d ratios, %d sizes; want 35, 19 and 4", len(report.Figures), len(report.Ratios), len(report.Sizes))
	}
	benchSound(t, report, "sqlite", "postgres", "calls_kept_SQLite", "calls_forgotten_SQLite", "calls_kept_PostgreSQL", "calls_forgotten_PostgreSQL")
	for _, books := range report.Books {
		if books.Verified == 0 && !strings.HasPrefix(books.Store, "calls_") {
			t.Errorf("%s: nothing was left in doubt beside the load and verified", books.Store)
		}
	}
}

func TestBenchCompareLoadsStoresThatHaveGrown(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	benchNeedsPostgres(t)
	temp, out := benchFolder(t), benchFolder(t)
	p := benchCompareIn(t, temp, out, "--quick", "--only", "growth")
	if code := p.Wait(); code != e2e.ExitDone {
		t.Fatalf("it ended with %d; want 0\n%s%s", code, p.Out, p.Err)
	}
	benchEmpty(t, temp)
	e2e.Mentions(t, "the report", p.Out.String(), "thousand operations ÷ of 100", "the store that has grown on SQLite had 20", "the store that has grown on PostgreSQL had 20")
	report := benchCompared(t, out)
	if len(report.Figures) != 4 || len(report.Ratios) != 2 || len(report.Sizes) != 2 {
		t.Errorf("%d figures, %d ratios, %d sizes; want 4, 2 and 2", len(report.Figures), len(report.Ratios), len(report.Sizes))
	}
	// What was filled stays in the cache, and its books are only counted.
	benchSound(t, report, "sqlite-small", "", "postgres-small", "")
	for _, kind := range []string{"sqlite", "postgres"} {
		if kept, err := filepath.Glob(filepath.Join(out, "filled-"+kind+"-20000-*", "filled.json")); err != nil || len(kept) != 1 {
			t.Errorf("in the cache of %s is %q (%v); want one store", kind, kept, err)
		}
	}
}

// benchSound demands that nothing went wrong, that something was measured, and
// that every store's ledger has a line for every 200. Those that are named were
// audited.
func benchSound(t *testing.T, report compare.Report, audited ...string) {
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

// benchRunning are the command lines of this machine that name a folder.
func benchRunning(t *testing.T, folder string) (lines []string) {
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

func TestBenchCompareRefusesWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--only", "writes"}, "reads, sqlite, postgres"},
		{[]string{"--config", "coax.toml"}, "--config"},
		{[]string{"--set", "log.level=warn"}, "--set"},
		{[]string{"twice"}, "twice"},
	} {
		got := e2e.Run(t, append([]string{"bench", "compare", "--quick", "--out", t.TempDir()}, test.args...)...)
		if got.Code != e2e.ExitUsage || !strings.Contains(got.Err, test.want) {
			t.Errorf("%q: %s; want a refusal with %q", test.args, got, test.want)
		}
	}
}
