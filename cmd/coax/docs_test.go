package main

import (
	"fmt"
	"io"
	"maps"
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
	"github.com/coaxhq/coax/internal/fault"
)

// docsRows reads the tables below a heading of a page: their rows, cut into cells,
// without the head.
func docsRows(t *testing.T, page, heading string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
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

func TestThePageForOperatorsHasEverySettingAsItIs(t *testing.T) {
	var want []string
	for _, s := range settings {
		standard := ""
		if s.standard != "" {
			standard = "`" + s.standard + "`"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", s.key, standard, s.doc))
	}
	var got []string
	for _, row := range docsRows(t, "operating.md", "Every setting") {
		got = append(got, "| "+strings.Join(row, " | ")+" |")
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table of docs/operating.md is not that of settings.go; it should be\n%s\nand is\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

func TestThePageForOperatorsSaysWhoMayDoWhat(t *testing.T) {
	want := []string{"act | support | finance | administrator"}
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

func TestThePageForOperatorsHasEveryMetric(t *testing.T) {
	w := newWorld(t, "audit.every=1ms")
	// Some have no lines before something of the kind has happened.
	w.expect("a look-up", call{as: w.demoCaller(), path: balance}, fault.OK)
	w.until("something was audited", func() bool { return w.metric(`coax_audit_runs_total{result="clean"}`) > 0 })
	response, err := http.Get(w.line.InternalURL + "/metrics")
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
	for _, file := range []string{"metrics.go", "audits.go"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "internal", "telemetry", file))
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for name := range shown {
		if !strings.Contains(source.String(), `"`+name+`"`) {
			t.Errorf("docs/operating.md has %s, which there is not", name)
		}
	}
}

// The ten numbers are what integrators test against. Each does what the page for
// them says, from the first answer to the end.
func TestTheTenNumbersBehaveAsThePageSays(t *testing.T) {
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
	// The slow number has all the time it wants, however busy the machine is; nobody
	// likes to wait that long for one that will not answer.
	t.Run("those that answer", func(t *testing.T) {
		t.Parallel()
		numbersBehave(t, answering, "provider.timeout=20s")
	})
	t.Run("those that stay silent", func(t *testing.T) {
		t.Parallel()
		numbersBehave(t, silent, "provider.timeout=3s")
	})
}

// numbersBehave does what some rows of the page's table say, in a world of their own.
func numbersBehave(t *testing.T, rows [][]string, timeout string) {
	t.Helper()
	w := newWorld(t, timeout, "review.first_check=10s", "review.refund_after=2m")
	me := w.rich("me", "100000")
	firsts := make([]answer, len(rows))
	var group sync.WaitGroup
	for i, row := range rows {
		group.Go(func() {
			plan := "BASIC-1"
			if strings.Contains(row[2], "combo") {
				plan = "COMBO-1"
			}
			firsts[i] = w.operate(me, "activate", "number-"+row[0], order{"full_name": "Asha", "mobile": strings.Trim(row[1], "`"), "plan_id": plan})
		})
	}
	group.Wait()
	for i, row := range rows {
		warned := strings.Contains(string(firsts[i].raw), "COMBO_SECONDARY_FAILED")
		if got := fmt.Sprint(firsts[i].status); !strings.HasPrefix(row[3], got) || warned != strings.Contains(row[3], "warning") {
			t.Errorf("%s is answered first with %s; the page says %s", row[1], firsts[i].raw, row[3])
		}
	}
	// Now, and when the provider has long enough not known what it was asked.
	w.pass(11 * time.Second)
	for _, row := range rows {
		if want := row[4]; strings.HasPrefix(want, "success") {
			if got := w.settled(me, "number-"+row[0]); got.text("status") != "success" {
				t.Errorf("%s ends as %s; the page says %s", row[1], got.text("status"), want)
			}
		}
	}
	w.pass(3 * time.Minute)
	for _, row := range rows {
		switch want := row[4]; {
		case strings.HasPrefix(want, "failed"):
			if got := w.settled(me, "number-"+row[0]); got.text("status") != "failed" || got.text("wallet.refunded") != "true" {
				t.Errorf("%s ends as %s; the page says %s", row[1], got.raw, want)
			}
		case strings.HasPrefix(want, "stays in review"):
			w.until("a person is wanted for "+row[1], func() bool {
				waiting, err := w.desk.InReview(t.Context())
				return err == nil && len(waiting) == 1 && waiting[0].NeedsPerson
			})
		case !strings.HasPrefix(want, "success"):
			t.Errorf("%s: the page says %q, which nobody checks", row[1], want)
		}
	}
}

// The page for operators says how to make a backup while the service runs. Here
// it runs under load, and each copy is whole: the books agree, everything that was
// answered before is in it, and it can be served.
func TestABackupTakenUnderLoadIsWholeAndCanBeServed(t *testing.T) {
	aboutSQLite(t, "its file is copied")
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs python3 to run docs/examples/backup.py: %v", err)
		}
		t.Skipf("python3 is not installed, so docs/examples/backup.py cannot be run: %v", err)
	}
	w := newWorld(t, "log.level=error")
	me := w.rich("me", "10000000")
	l := w.sell(me)
	restored := t.TempDir()
	// backup makes a copy, and demands in it what was answered before.
	backup := func(name string) (before map[string]string) {
		t.Helper()
		before = l.answered()
		copied := filepath.Join(restored, name)
		script := filepath.Join("..", "..", "docs", "examples", "backup.py")
		if out, err := exec.CommandContext(t.Context(), python, script, filepath.Join(w.folder, "data", "coax.db"), copied).CombinedOutput(); err != nil {
			t.Fatalf("backup.py: %v\n%s", err, out)
		}
		in := map[string]bool{}
		for _, key := range cliRows(t, peekStore(t, storeConfig{Kind: "sqlite", Path: copied}), `SELECT idempotency_key FROM operations`) {
			in[key] = true
		}
		for key := range before {
			if !in[key] {
				t.Fatalf("%s: %s was answered before the backup and is not in it", name, key)
			}
		}
		// At the world's time: to a later one, what was under way would look stuck.
		snapshot, end, err := openSnapshot(t.Context(), storeConfig{Kind: "sqlite", Path: copied})
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		report, err := audit.Run(t.Context(), snapshot, w.now(), nil)
		if err != nil || !report.OK {
			t.Fatalf("the audit of %s: %v, %v", name, err, report.Violations)
		}
		return before
	}
	var before map[string]string
	for round := range 3 {
		l.await(60)
		before = backup(fmt.Sprintf("busy-%d.db", round))
	}
	l.await(50)
	l.stop()
	// At rest too: the last answers are in the log that SQLite keeps beside its file.
	backup("quiet.db")

	if err := os.Mkdir(filepath.Join(restored, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	cliCopy(t, filepath.Join(restored, "busy-2.db"), filepath.Join(restored, "data", "coax.db"))
	for _, name := range []string{"coax.toml", "master.key", "demo.json"} {
		cliCopy(t, filepath.Join(w.folder, name), filepath.Join(restored, name))
	}
	again := &world{t: t, folder: restored, logged: &synchronised{}}
	again.time.Store(w.time.Load())
	again.start()
	t.Cleanup(func() { again.stop() })
	for key, id := range before {
		got := again.operate(me, "activate", key, loadOrder(strings.TrimPrefix(key, "load-")))
		if got.text("transaction_id") != id || got.header.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("%s was answered with %s before the backup; the copy answers %s", key, id, got.raw)
		}
	}
	if again.orders() != 0 {
		t.Errorf("the copy ordered %d things anew", again.orders())
	}
	again.audited()
}

// sales is a load of activations, one after the other at each of eight tills.
type sales struct {
	w    *world
	mu   sync.Mutex
	done map[string]string // transactions by their keys
	stop func()
}

func (w *world) sell(as caller) *sales {
	l := &sales{w: w, done: map[string]string{}}
	end := make(chan struct{})
	var group sync.WaitGroup
	for till := range 8 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				default:
				}
				mobile := fmt.Sprintf("98%02d%06d", till, i)
				got := w.operate(as, "activate", "load-"+mobile, loadOrder(mobile))
				l.mu.Lock()
				l.done["load-"+mobile] = got.text("transaction_id")
				l.mu.Unlock()
			}
		})
	}
	l.stop = sync.OnceFunc(func() { close(end); group.Wait() })
	w.t.Cleanup(l.stop)
	return l
}

// answered is what has been answered by now.
func (l *sales) answered() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.done)
}

// await waits for so many more answers.
func (l *sales) await(more int) {
	l.w.t.Helper()
	before := len(l.answered())
	l.w.until("more was sold", func() bool { return len(l.answered()) >= before+more })
}

func loadOrder(mobile string) order {
	return order{"full_name": "Asha", "mobile": mobile, "plan_id": "BASIC-1"}
}
