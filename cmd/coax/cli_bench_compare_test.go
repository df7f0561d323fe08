package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/bench/compare"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// benchCompareIn runs a comparison whose processes live in temp, and which
// reports to out.
func benchCompareIn(t *testing.T, temp, out string, args ...string) *cliProcess {
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
	if err := json.Unmarshal([]byte(cliRead(t, files[0])), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestBenchCompareMeasuresEverythingAndProvesTheBooks(t *testing.T) {
	t.Parallel()
	// The programs of PostgreSQL are looked for as the tests do.
	if _, err := pgtest.Bin(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("%v: `make tools-present` installs it", err)
	}
	temp, out := benchFolder(t), t.TempDir()
	p := benchCompareIn(t, temp, out, "--quick")
	if code := p.Wait(); code != exitDone {
		t.Fatalf("it ended with %d; want 0\n%s%s", code, p.out, p.err)
	}
	benchEmpty(t, temp)
	cliSays(t, "the table", p.out.String(), "p50 ms", "p95 ms", "p99 ms", "generator", "service", "simulator", "database",
		"balance ÷ bare TLS handler, 16 clients", "renewals on SQLite, 16 clients ÷ rows alone", "renewals on PostgreSQL ÷ pgbench TPC-B, 16 clients",
		"three nodes ÷ one node on PostgreSQL", "SQLite, idle", "its figures mean nothing", "The report is in "+out)
	cliSays(t, "the progress", p.err.String(), "preparing 32 operators and 640 subscribers", "starting PostgreSQL", "holding the books against the answers")

	report := benchCompared(t, out)
	if len(report.Problems) > 0 || !report.Quick || len(report.Ratios) != 6 || len(report.Sizes) != 4 {
		t.Errorf("%d ratios, %d sizes, problems %q; want 6, 4 and none", len(report.Ratios), len(report.Sizes), report.Problems)
	}
	for _, figure := range report.Figures {
		if len(figure.Runs) != 1 {
			t.Errorf("%s has %d runs; want one", figure.Name, len(figure.Runs))
		}
	}
	if len(report.Books) != 2 {
		t.Fatalf("%d stores were held against the answers; want 2", len(report.Books))
	}
	for _, books := range report.Books {
		if books.Answered == 0 || books.Ledger != books.Answered || books.Audited == "" {
			t.Errorf("%+v; want a line in the ledger for every 200, and an audit", books)
		}
	}
}

func TestBenchCompareLeavesProfilesBesideItsReport(t *testing.T) {
	t.Parallel()
	temp, out := benchFolder(t), t.TempDir()
	p := benchCompareIn(t, temp, out, "--quick", "--only", "reads", "--profile")
	if code := p.Wait(); code != exitDone {
		t.Fatalf("it ended with %d; want 0\n%s%s", code, p.out, p.err)
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
	t.Parallel()
	temp, out := benchFolder(t), t.TempDir()
	p := benchCompareIn(t, temp, out, "--quick", "--only", "reads")
	if !p.err.until("bare TLS handler, 1 clients: ", p.ended) {
		t.Fatalf("it did not begin:\n%s", p.err)
	}
	if code := p.Terminate(); code != exitRefused || !strings.Contains(p.err.String(), "\ncoax: interrupted") {
		t.Errorf("it ended with %d; want 1, saying that it was interrupted\n%s", code, p.err)
	}
	benchEmpty(t, temp)
	benchEmpty(t, out)
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
		got := cliRun(t, append([]string{"bench", "compare", "--quick", "--out", t.TempDir()}, test.args...)...)
		if got.code != exitUsage || !strings.Contains(got.err, test.want) {
			t.Errorf("%q: %s; want a refusal with %q", test.args, got, test.want)
		}
	}
}
