package api

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/server"
)

// docsRows returns the rows of the tables below a heading of a page, split into cells,
// without the table headers.
func docsRows(t *testing.T, page, heading string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/%s has no heading %q", page, heading)
	}
	below, _, _ = strings.Cut(below, "\n## ")
	var rows [][]string
	for line := range strings.SplitSeq(below, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if strings.HasPrefix(line, "|") {
			rows = append(rows, cells)
		}
	}
	return slices.DeleteFunc(rows, func(row []string) bool {
		return row[0] == "---" || row[0] == "key" || row[0] == "metric" || row[0] == "S"
	})
}

func TestDocs_EverySetting(t *testing.T) {
	var want []string
	for _, s := range server.Settings {
		standard := ""
		if s.Default != "" {
			standard = "`" + s.Default + "`"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", s.Key, standard, s.Doc))
	}
	var got []string
	for _, row := range docsRows(t, "operating.md", "Every setting") {
		got = append(got, "| "+strings.Join(row, " | ")+" |")
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table of docs/operating.md is not that of settings.go; it should be\n%s\nand is\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

func TestDocs_StaffPermissions(t *testing.T) {
	want := []string{"action | support | finance | administrator"}
	for _, action := range admin.Actions() {
		row := "`" + string(action) + "`"
		for _, role := range []admin.Role{admin.Support, admin.Finance, admin.Administrator} {
			row += map[bool]string{true: " | yes", false: " | "}[admin.May(role, action)]
		}
		want = append(want, row)
	}
	var got []string
	for _, row := range docsRows(t, "operating.md", "Staff and what they may do") {
		got = append(got, strings.Join(row, " | "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table of docs/operating.md is not that of internal/admin; it should be\n%s\nand is\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

func TestDocs_StepUpExceptions(t *testing.T) {
	var want, got []string
	for _, action := range admin.Actions() {
		if admin.StepUpFor(action) != admin.StepUpAlways {
			want = append(want, "`"+string(action)+"`")
		}
	}
	for _, row := range docsRows(t, "operating.md", "The password again")[1:] {
		got = append(got, row[0])
		action := admin.Action(strings.Trim(row[0], "`"))
		if depends := row[2] != ""; depends != (admin.StepUpFor(action) == admin.StepUpIfWidening) {
			t.Errorf("docs/operating.md says of %s that it needs the password for %q", row[0], row[2])
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("docs/operating.md lists %v as done without the password; want %v", got, want)
	}
}

func TestDocs_EveryMetric(t *testing.T) {
	w := e2e.NewEnv(t, "audit.every=1ms")
	// Some metrics appear only after the first event.
	w.Expect("a look-up", e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}, fault.OK)
	w.WaitUntil("an audit has run", func() bool { return w.Metric(`coax_audit_runs_total{result="clean"}`) > 0 })
	response, err := http.Get(w.Demo.InternalURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`coax_[a-z_]+`)
	shown := map[string]bool{}
	for _, row := range docsRows(t, "operating.md", "Watching it") {
		for _, name := range names.FindAllString(row[0], -1) {
			shown[name] = true
		}
	}
	if len(shown) == 0 {
		t.Fatal("docs/operating.md has no table of metrics")
	}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (coax_[a-z_]+) `).FindAllSubmatch(text, -1) {
		if name := string(found[1]); !shown[name] {
			t.Errorf("docs/operating.md does not have %s", name)
		}
	}
	var source strings.Builder
	for _, file := range []string{"metrics.go", "audits.go", "head.go"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "telemetry", file))
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for name := range shown {
		if !strings.Contains(source.String(), `"`+name+`"`) {
			t.Errorf("docs/operating.md has %s, which does not exist", name)
		}
	}
}

// The ten test numbers behave as docs/integrating.md says, from the first answer to the
// final state.
func TestDocs_TenTestNumbers(t *testing.T) {
	t.Parallel()
	rows := docsRows(t, "integrating.md", "Trying it: ten numbers")
	if len(rows) != 10 {
		t.Fatalf("docs/integrating.md has %d numbers; want 10", len(rows))
	}
	var silent, answering [][]string
	for _, row := range rows {
		if strings.Contains(row[3], "after 20 s") {
			silent = append(silent, row)
		} else {
			answering = append(answering, row)
		}
	}
	// The slow number needs a long provider timeout on a busy machine; the silent ones
	// would each wait for all of it.
	t.Run("answering", func(t *testing.T) {
		t.Parallel()
		numbersBehave(t, answering, "provider.timeout=20s")
	})
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		numbersBehave(t, silent, "provider.timeout=3s")
	})
}

// numbersBehave checks rows of the page's table in a new environment.
func numbersBehave(t *testing.T, rows [][]string, timeout string) {
	t.Helper()
	w := e2e.NewEnv(t, timeout, "review.first_check=10s", "review.refund_after=2m")
	me := w.NewFundedOperator("me", "100000")
	firsts := make([]e2e.Answer, len(rows))
	var group sync.WaitGroup
	for i, row := range rows {
		group.Go(func() {
			plan := "BASIC-1"
			if strings.Contains(row[2], "combo") {
				plan = "COMBO-1"
			}
			firsts[i] = w.Operate(me, "activate", "number-"+row[0], e2e.Order{"full_name": "Asha", "mobile": strings.Trim(row[1], "`"), "plan_id": plan})
		})
	}
	group.Wait()
	for i, row := range rows {
		warned := strings.Contains(string(firsts[i].Raw), "COMBO_SECONDARY_FAILED")
		if got := fmt.Sprint(firsts[i].Status); !strings.HasPrefix(row[3], got) || warned != strings.Contains(row[3], "warning") {
			t.Errorf("%s is answered first with %s; the page says %s", row[1], firsts[i].Raw, row[3])
		}
	}
	// Successes settle at the first check, failures after review.refund_after.
	w.Advance(11 * time.Second)
	for _, row := range rows {
		if want := row[4]; strings.HasPrefix(want, "success") {
			if got := w.AwaitSettled(me, "number-"+row[0]); got.Text("status") != "success" {
				t.Errorf("%s ends as %s; the page says %s", row[1], got.Text("status"), want)
			}
		}
	}
	w.Advance(3 * time.Minute)
	for _, row := range rows {
		switch want := row[4]; {
		case strings.HasPrefix(want, "failed"):
			if got := w.AwaitSettled(me, "number-"+row[0]); got.Text("status") != "failed" || got.Text("wallet.refunded") != "true" {
				t.Errorf("%s ends as %s; the page says %s", row[1], got.Raw, want)
			}
		case strings.HasPrefix(want, "stays in review"):
			w.WaitUntil(row[1]+" waits for staff", func() bool {
				waiting, err := w.Admin.InReview(t.Context())
				return err == nil && len(waiting) == 1 && waiting[0].NeedsPerson
			})
		case !strings.HasPrefix(want, "success"):
			t.Errorf("%s: the page says %q, which this test does not check", row[1], want)
		}
	}
}

// A backup made under load, as docs/operating.md says, passes the audit, has everything
// answered before, and can be served.
func TestBackup_UnderLoadIsCompleteAndServable(t *testing.T) {
	e2e.OnlySQLite(t, "its file is copied")
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs python3 to run docs/examples/backup.py: %v", err)
		}
		t.Skipf("python3 is not installed, so docs/examples/backup.py cannot be run: %v", err)
	}
	w := e2e.NewEnv(t, "log.level=error")
	me := w.NewFundedOperator("me", "10000000")
	l := w.StartActivations(me)
	restored := t.TempDir()
	// backup makes a copy and checks that it has everything answered before.
	backup := func(name string) (before map[string]string) {
		t.Helper()
		before = l.Answered()
		copied := filepath.Join(restored, name)
		script := filepath.Join("..", "..", "..", "docs", "examples", "backup.py")
		if out, err := exec.CommandContext(t.Context(), python, script, filepath.Join(w.Folder, "data", "coax.db"), copied).CombinedOutput(); err != nil {
			t.Fatalf("backup.py: %v\n%s", err, out)
		}
		in := map[string]bool{}
		for _, key := range e2e.QueryRows(t, e2e.OpenReadOnly(t, server.StoreConfig{Kind: "sqlite", Path: copied}), `SELECT idempotency_key FROM operations`) {
			in[key] = true
		}
		for key := range before {
			if !in[key] {
				t.Fatalf("%s: %s was answered before the backup and is missing in it", name, key)
			}
		}
		// At the service's time: at a later one, running operations would look stuck.
		snapshot, end, err := server.OpenSnapshot(t.Context(), server.StoreConfig{Kind: "sqlite", Path: copied})
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		report, err := audit.Run(t.Context(), snapshot, w.Now(), nil)
		if err != nil || !report.OK {
			t.Fatalf("the audit of %s: %v, %v", name, err, report.Violations)
		}
		return before
	}
	var before map[string]string
	for round := range 3 {
		l.Await(60)
		before = backup(fmt.Sprintf("busy-%d.db", round))
	}
	l.Await(50)
	l.Stop()
	// Without load too: the last writes are still in SQLite's write-ahead log.
	backup("quiet.db")

	if err := os.Mkdir(filepath.Join(restored, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	e2e.CopyDir(t, filepath.Join(restored, "busy-2.db"), filepath.Join(restored, "data", "coax.db"))
	for _, name := range []string{"coax.toml", "master.key", "demo.json"} {
		e2e.CopyDir(t, filepath.Join(w.Folder, name), filepath.Join(restored, name))
	}
	again := &e2e.Env{TB: t, Folder: restored, Log: &e2e.LogBuffer{}}
	again.Time.Store(w.Time.Load())
	again.Start()
	t.Cleanup(func() { again.Stop() })
	for key, id := range before {
		got := again.Operate(me, "activate", key, e2e.Activation(strings.TrimPrefix(key, "load-")))
		if got.Text("transaction_id") != id || got.Header.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("%s was answered with %s before the backup; the copy answers %s", key, id, got.Raw)
		}
	}
	if again.ProviderOrders() != 0 {
		t.Errorf("the copy sent %d orders to the provider; want none", again.ProviderOrders())
	}
	again.CheckAudit()
}
