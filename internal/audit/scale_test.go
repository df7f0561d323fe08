//go:build long

package audit_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// peak is the most that an audit kept at any of its own reports of progress.
// Only what cannot be collected counts, so that the figure is the same on any
// machine and under any load.
type peak struct {
	base, live uint64
	rows       int64
}

func (p *peak) look(_ string, rows int64) {
	p.rows = rows
	p.live = max(p.live, liveHeap())
}

func (p *peak) kept() int64 { return int64(p.live) - int64(p.base) }

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// measurement is what an audit in a process of its own took.
type measurement struct {
	Operations, Rows int64
	Seconds          float64
	Kept             int64 // bytes that could not be collected
	Process          int64 // bytes of memory that the process had at its largest; 0 if unknown
}

// TestAudit_MemoryIsBounded audits a store, and another one four
// times as large. With COAX_TEST_AUDIT_OPERATIONS the larger one has that many
// operations.
func TestAudit_MemoryIsBounded(t *testing.T) {
	operations := bulkOperations(t, 4_000)
	batch := min(operations/16, 5_000) // small enough for either
	small, large := measured(t, operations/4, batch), measured(t, operations, batch)
	// A row that is kept takes far more than two bytes.
	more := large.Rows - small.Rows
	if grown, most := large.Kept-small.Kept, max(256<<10, 2*more); grown > most {
		t.Errorf("%d more rows made it keep %d bytes more; want %d at most", more, grown, most)
	}
	// What SQLite keeps is not the collector's.
	if grown, most := large.Process-small.Process, max(32<<20, 2*more); grown > most {
		t.Errorf("%d more rows made the process %d bytes larger; want %d at most", more, grown, most)
	}
}

// measured fills a store and audits it in another process, whose size nothing
// but the audit has to do with.
func measured(t *testing.T, operations, batch int) (m measurement) {
	t.Helper()
	place := newStorePath(t)
	began := time.Now()
	count, now := fillBulk(t, place, operations)
	filled := time.Since(began)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "-test.run=^TestAudit_InOwnProcess$")
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s", placeVariable, now.UnixMilli(), batch, place))
	output, err := command.CombinedOutput()
	_, line, found := strings.Cut(string(output), measuredMark)
	if err == nil && found {
		err = json.NewDecoder(strings.NewReader(line)).Decode(&m)
	}
	if err != nil || !found || m.Operations != int64(count) {
		t.Fatalf("%v, %+v of %d operations:\n%s", err, m, count, output)
	}
	t.Logf("%d operations, filled in %.0f s: %d rows read in %.1f s (%.0f a second); kept at most %d KiB, the process was %d MiB at its largest",
		count, filled.Seconds(), m.Rows, m.Seconds, float64(m.Rows)/m.Seconds, m.Kept>>10, m.Process>>20)
	return m
}

const (
	placeVariable = "COAX_TEST_AUDIT_PLACE"
	measuredMark  = "measured: "
)

// TestAudit_InOwnProcess is what measured starts. It is a test because
// what it needs wants one; started by anybody else, it has nothing to do.
func TestAudit_InOwnProcess(t *testing.T) {
	given := os.Getenv(placeVariable)
	if given == "" {
		return
	}
	var now int64
	var batch int
	var place string
	if _, err := fmt.Sscan(given, &now, &batch, &place); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, openReadOnly(t, place))
	var asked []string
	var reading audit.Snapshot = listener{tx, &asked}
	if pgtest.Chosen() {
		reading = audit.PostgresInBatches(reading, batch)
	}
	p := peak{base: liveHeap()}
	began := time.Now()
	report, err := audit.Run(t.Context(), reading, time.UnixMilli(now), p.look)
	if err != nil || !report.OK {
		t.Fatalf("%v %v %+v", report.Violations[:min(3, len(report.Violations))], err, report.Counts)
	}
	took := time.Since(began).Seconds()
	noLargeTableIsSorted(t, tx, asked)
	text, err := json.Marshal(measurement{
		Operations: report.Counts.Operations.Total, Rows: p.rows, Seconds: took, Kept: p.kept(), Process: largest(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s%s\n", measuredMark, text)
}

// largest is how much memory this process had at its largest. Linux tells it in
// two ways; the other one counts the process that started this one, too.
func largest(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, line, _ := strings.Cut(string(text), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(line, &kilobytes); err != nil || kilobytes == 0 {
		t.Fatalf("the process's status does not say how large it was: %v", err)
	}
	return kilobytes << 10
}

// A broken measure would look like an audit that stores nothing.
func TestPeak_MeasuresKeptMemory(t *testing.T) {
	s := healthyStore(t)
	keeping := func(bytes int) (kept int64, times int) {
		var hoard [][]byte
		var p peak
		_, err := audit.Run(t.Context(), snapshot(t, openReadOnly(t, s.path)), s.now, func(what string, rows int64) {
			hoard = append(hoard, make([]byte, bytes))
			p.look(what, rows)
		})
		if err != nil {
			t.Fatal(err)
		}
		runtime.KeepAlive(hoard)
		return p.kept(), len(hoard)
	}
	keeping(0) // whatever is kept for good is kept now
	without, _ := keeping(0)
	with, times := keeping(64 << 10)
	if hidden := int64(times * 64 << 10); with-without < hidden*9/10 {
		t.Errorf("%d bytes more were noticed; want nearly %d", with-without, hidden)
	}
}

// listener records the audit's queries.
type listener struct {
	audit.Snapshot
	asked *[]string
}

func (l listener) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if !strings.HasPrefix(query, "FETCH") {
		*l.asked = append(*l.asked, query)
	}
	return l.Snapshot.QueryContext(ctx, query, args...)
}

var (
	readsFrom = regexp.MustCompile(`FROM (\w+)`)
	// An incremental sort keeps only what an index leaves in no order; SQLite sorts the LAST TERM.
	sorts = regexp.MustCompile(`TEMP B-TREE FOR (ORDER|GROUP|DISTINCT|count)|(?m)^\s*(->\s+)?Sort +\(`)
	// What people sell, do, pay in and have to decide, and one row for each removal of old rows.
	smallTables = []string{"plans", "plan_history", "staff_acts", "exceptions", "whitelist", "proposals", "commission_periods", "logins", "login_recovery_codes", "login_grants",
		"login_passkeys", "staff_chain_start", "adjustment_references", "payment_announcements", "reversals", "retention_closings"}
	// These have no rows here, and PostgreSQL would rather sort none than open an index:
	// whether one has the order shows where sorting is the last resort.
	emptyTables = []string{"ledger_digests"}
	// On SQLite a day's nonces and the counters of the last minutes stand in the
	// order of time: to have them in that of their keys would cost each request more
	// than sorting costs an audit.
	sortedOnSQLite = []string{"nonces", "rate_counters"}
)

// noLargeTableIsSorted requires that large tables are read in the order of an index. Sorting
// would first write all rows to temporary files.
func noLargeTableIsSorted(t *testing.T, tx *sql.Tx, asked []string) {
	t.Helper()
	explained := 0
	for _, query := range asked {
		table := readsFrom.FindStringSubmatch(query)
		if table == nil || slices.Contains(smallTables, table[1]) || !pgtest.Chosen() && slices.Contains(sortedOnSQLite, table[1]) {
			continue
		}
		explained++
		if pgtest.Chosen() {
			sorting := fmt.Sprintf("SET LOCAL enable_sort = %t", !slices.Contains(emptyTables, table[1]))
			if _, err := tx.ExecContext(t.Context(), sorting); err != nil {
				t.Fatal(err)
			}
		}
		if plan := explain(t, tx, strings.Replace(query, "DECLARE audit_", "DECLARE explained_", 1)); sorts.MatchString(plan) {
			t.Errorf("%s\nis sorted:\n%s", query, plan)
		}
	}
	if explained < 15 {
		t.Errorf("only %d queries were explained", explained)
	}
}

func explain(t *testing.T, tx *sql.Tx, query string) string {
	t.Helper()
	verb := "EXPLAIN QUERY PLAN "
	if pgtest.Chosen() {
		verb = "EXPLAIN "
	}
	rows, err := tx.QueryContext(t.Context(), verb+query)
	if err != nil {
		t.Fatalf("explain %s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		switch detail := (*values[len(values)-1].(*any)).(type) {
		case string:
			plan.WriteString(detail + "\n")
		default:
			t.Fatalf("a plan of %T", detail)
		}
	}
	if err := rows.Err(); err != nil || plan.Len() == 0 {
		t.Fatalf("explain %s: %v", query, err)
	}
	return plan.String()
}
