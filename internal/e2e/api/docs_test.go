package api

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/backup"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
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
	for _, row := range docsRows(t, "settings.md", "Every setting") {
		got = append(got, "| "+strings.Join(row, " | ")+" |")
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table of docs/settings.md is not that of settings.go; it should be\n%s\nand is\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
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
	for _, row := range docsRows(t, "staff.md", "Staff and what they may do") {
		got = append(got, strings.Join(row, " | "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table of docs/staff.md is not that of internal/admin; it should be\n%s\nand is\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

func TestDocs_StepUpExceptions(t *testing.T) {
	var want, got []string
	for _, action := range admin.Actions() {
		if admin.StepUpFor(action) != admin.StepUpAlways {
			want = append(want, "`"+string(action)+"`")
		}
	}
	for _, row := range docsRows(t, "staff.md", "The password again")[1:] {
		got = append(got, row[0])
		action := admin.Action(strings.Trim(row[0], "`"))
		if depends := row[2] != ""; depends != (admin.StepUpFor(action) == admin.StepUpIfWidening) {
			t.Errorf("docs/staff.md says of %s that it needs the password for %q", row[0], row[2])
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("docs/staff.md lists %v as done without the password; want %v", got, want)
	}
}

// metricsOf returns the names of the metrics that a page has a value of, and the labels of each.
func metricsOf(t *testing.T, page string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	label := regexp.MustCompile(`([a-z_]+)="`)
	for _, sample := range regexp.MustCompile(`(?m)^(coax_[a-z_]+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`).FindAllStringSubmatch(page, -1) {
		for _, l := range append(label.FindAllStringSubmatch(sample[2], -1), []string{"", ""}) {
			if !slices.Contains(found[sample[1]], l[1]) && l[1] != "le" {
				found[sample[1]] = append(found[sample[1]], l[1])
			}
		}
	}
	return found
}

// alertCodes returns the codes and statuses that alerts select by name.
func alertCodes(t *testing.T) (codes []string) {
	t.Helper()
	text := e2e.ReadFile(t, filepath.Join("..", "..", "..", "docs", "examples", "alerts.yml"))
	for _, selected := range regexp.MustCompile(`\bcode=~?"([A-Z0-9_|]+)"`).FindAllStringSubmatch(text, -1) {
		codes = append(codes, strings.Split(selected[1], "|")...)
	}
	if len(codes) < 3 {
		t.Fatalf("the alerts select %v: the search looks for something else", codes)
	}
	return codes
}

// The table of metrics has what a node shows before its first request, and nothing else, with
// and without the settings that some metrics take.
func TestDocs_EveryMetric(t *testing.T) {
	for _, tt := range []struct {
		name string
		sets []string
		with []string // what the last column of the table may name
	}{
		{"a node with its defaults", nil, nil},
		{"a node with everything", []string{"audit.every=1h", "backup.folder=" + t.TempDir(), "store.replica=file://" + t.TempDir(), "trace.endpoint=http://127.0.0.1:9"}, []string{"`audit.every`", "`backup.folder`", "`store.replica`", "`trace.endpoint`"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			with := append(tt.with, "")
			if runtime.GOOS == "linux" {
				with = append(with, "Linux")
			}
			if pgtest.Chosen() {
				with = append(slices.DeleteFunc(with, func(s string) bool { return s == "`store.replica`" }), "PostgreSQL")
				tt.sets = slices.DeleteFunc(tt.sets, func(s string) bool { return strings.HasPrefix(s, "store.replica") })
			}
			w := e2e.NewEnv(t, tt.sets...)
			_, page := e2e.HTTPGet(t, w.Demo.InternalURL+"/metrics")
			shown := metricsOf(t, page)
			documented := map[string]bool{}
			for _, row := range docsRows(t, "monitoring.md", "Watching it") {
				for _, name := range regexp.MustCompile(`coax_[a-z_]+`).FindAllString(row[0], -1) {
					documented[name] = true
					labels, present := shown[name]
					if expected := slices.Contains(with, row[2]); present != expected {
						t.Errorf("docs/monitoring.md has %s, only with %q; the node shows it: %v", name, row[2], present)
					}
					for _, label := range labels {
						if label != "" && !strings.Contains(row[1], label) {
							t.Errorf("docs/monitoring.md does not say that %s has the label %s", name, label)
						}
					}
				}
			}
			for name := range shown {
				if !documented[name] {
					t.Errorf("docs/monitoring.md does not have %s", name)
				}
			}
			for _, code := range alertCodes(t) {
				if !regexp.MustCompile(`coax_http_requests_total\{code="` + code + `",endpoint="[^"]+"\} 0\n`).MatchString(page) {
					t.Errorf("an alert looks for the code %s, which is not counted before the first answer", code)
				}
			}
			if len(documented) < 40 {
				t.Errorf("docs/monitoring.md has %d metrics: the table was not found", len(documented))
			}
		})
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

// A backup made under load passes the audit, has everything answered before, and can be
// served.
func TestBackup_UnderLoadIsCompleteAndServable(t *testing.T) {
	e2e.OnlySQLite(t, "it is served from a folder; internal/e2e/cli has both stores")
	w := e2e.NewEnv(t, "log.level=error")
	me := w.NewFundedOperator("me", "10000000")
	l := w.StartActivations(me)
	restored := t.TempDir()
	config := server.Config{Store: server.StoreConfig{Kind: "sqlite", Path: filepath.Join(w.Folder, "data", "coax.db")}}
	// makeBackup makes a backup and checks that it has everything answered before.
	makeBackup := func(name string) (before map[string]string) {
		t.Helper()
		before = l.Answered()
		copied := filepath.Join(restored, name)
		made, err := server.BackUp(t.Context(), config, copied+backup.Extension, server.BackupOptions{Progress: func(string, int64, int64) {}})
		if err != nil {
			t.Fatal(err)
		}
		unpack(t, made.Path, copied)
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
		before = makeBackup(fmt.Sprintf("busy-%d.db", round))
	}
	l.Await(50)
	l.Stop()
	// Without load too: the last writes are still in SQLite's write-ahead log.
	makeBackup("quiet.db")

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

// unpack writes the SQLite file of a backup.
func unpack(t *testing.T, from, to string) {
	t.Helper()
	file, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if _, err := backup.Read(t.Context(), file, nil, content); err != nil {
		t.Fatal(err)
	}
}
