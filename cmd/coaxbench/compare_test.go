package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// compareIn runs a comparison whose processes live in temp, and which
// reports to out.
func compareIn(t *testing.T, temp, out string, args ...string) *e2e.Process {
	t.Helper()
	if pgtest.Chosen() {
		t.Skip("a comparison has stores of its own, and is made where SQLite is chosen")
	}
	return launch(t, temp, append([]string{"compare", "--out", out}, args...)...)
}

// sharedFolder is one that PostgreSQL's own user may enter, too.
func sharedFolder(t *testing.T) string {
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

// readReport reads the one report in a folder.
func readReport(t *testing.T, out string) compare.Report {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the reports are %q (%v); want one", files, err)
	}
	var report compare.Report
	if err := json.Unmarshal([]byte(e2e.ReadFile(t, files[0])), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestCompare_Reads(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	temp, out := sharedFolder(t), t.TempDir()
	p := compareIn(t, temp, out, "--quick", "--only", "reads")
	if code := p.Wait(); code != e2e.ExitDone {
		t.Fatalf("it ended with %d; want 0\n%s%s", code, p.Out, p.Err)
	}
	checkEmpty(t, temp)
	e2e.CheckMentions(t, "the table", p.Out.String(), "p50 ms", "p99 ms", "generator", "balance on SQLite, 1 client ÷ bare TLS handler", "subscription on SQLite, 16 clients ÷ bare TLS handler",
		"transaction on SQLite, 16 clients ÷ bare TLS handler", "plans on SQLite, 16 clients ÷ bare TLS handler", "p99 ÷ p50 of subscription on SQLite at half load")
	if report := readReport(t, out); len(report.Problems) > 0 || len(report.Ratios) != 10 || len(report.Figures) != 13 {
		t.Errorf("problems %q, %d figures and %d ratios; want none, and 13 and 10 as of reads alone", report.Problems, len(report.Figures), len(report.Ratios))
	}
}

func TestCompare_Usage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--only", "writes"}, "reads, sqlite, postgres"},
		{[]string{"twice"}, "twice"},
	} {
		got := run(t, append([]string{"compare", "--quick", "--out", t.TempDir()}, test.args...)...)
		if got.Code != e2e.ExitUsage || !strings.Contains(got.Err, test.want) {
			t.Errorf("%q: %s; want a refusal with %q", test.args, got, test.want)
		}
	}
}
