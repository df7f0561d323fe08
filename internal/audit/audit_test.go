package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/subscription"
)

func TestAudit_HealthyStoreIsClean(t *testing.T) {
	s := healthyStore(t)
	before := content(t, s.path)
	report, err := audited(t, s.path, s.now)
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK || report.ActionsHead == "" {
		t.Errorf("ok %v, head %q", report.OK, report.ActionsHead)
	}
	for _, violation := range report.Violations {
		t.Error(violation)
	}
	if content(t, s.path) != before {
		t.Error("the audit changed the store")
	}

	c := report.Counts
	db := openReadOnly(t, s.path)
	for query, got := range map[string]int64{
		"count(*) FROM operators":                                                 c.Operators,
		"count(*) FROM wallets":                                                   c.Wallets,
		"count(*) FROM wallet_entries":                                            c.WalletEntries,
		"count(*) FROM ledger":                                                    c.LedgerLines,
		"count(*) FROM operations":                                                c.Operations.Total,
		"count(*) FROM operations WHERE status = 'success'":                       c.Operations.Success,
		"count(*) FROM operations WHERE status = 'failed'":                        c.Operations.Failed,
		"count(*) FROM operations WHERE status = 'processing'":                    c.Operations.Processing,
		"count(*) FROM operations WHERE status = 'needs_review'":                  c.Operations.NeedsReview,
		"count(*) FROM commissions":                                               c.Commissions,
		"count(*) FROM operation_events":                                          c.Events,
		"count(*) FROM provider_calls":                                            c.ProviderCalls,
		"count(*) FROM exceptions":                                                c.Exceptions,
		"count(*) FROM subscribers":                                               c.Subscribers,
		"count(*) FROM cycles":                                                    c.Cycles,
		"count(*) FROM plans":                                                     c.Plans,
		"count(*) FROM plan_history":                                              c.PlanVersions,
		"count(*) FROM credentials":                                               c.Keys,
		"count(*) FROM whitelist":                                                 c.Whitelist,
		"count(*) FROM staff_acts":                                                c.Actions,
		"count(*) FROM logins":                                                    c.Logins,
		"count(*) FROM proposals":                                                 c.Proposals,
		"count(*) FROM commission_periods":                                        c.Periods,
		"count(*) FROM nonces":                                                    c.Nonces,
		"count(*) FROM rate_counters":                                             c.Minutes,
		"sum(balance_paise) FROM wallets":                                         c.Sums.Balance.Paise(),
		"sum(ledger_paise) FROM wallets":                                          c.Sums.Ledger.Paise(),
		"sum(ledger_paise) - sum(balance_paise) FROM wallets":                     c.Sums.Held.Paise(),
		"sum(amount_paise) FROM ledger WHERE operation_id <> ''":                  c.Sums.Charged.Paise(),
		"sum(amount_paise) FROM commissions":                                      c.Sums.Commission.Paise(),
		"sum(amount_paise) FROM wallet_entries WHERE kind IN ('topup', 'adjust')": c.Sums.Credited.Paise(),
	} {
		var want int64
		if err := db.QueryRow("SELECT " + query).Scan(&want); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: %d; want %d", query, got, want)
		}
	}
	if c.Operations.Processing == 0 || c.Operations.NeedsReview == 0 || c.Operations.Failed == 0 || c.Operations.Total < 36 {
		t.Errorf("the fixture does not have operations of every kind: %+v", c.Operations)
	}
}

// content is all that is in a place: the bytes of a file, or the rows of a
// database, whose files are its own business.
func content(t testing.TB, path string) string {
	t.Helper()
	if !pgtest.Chosen() {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var text string
	err := openReadOnly(t, path).QueryRow(`
		SELECT string_agg(query_to_xml('SELECT * FROM ' || quote_ident(tablename) || ' ORDER BY 1, 2', true, false, '')::text, '' ORDER BY tablename)
		  FROM pg_tables WHERE schemaname = 'public'`).Scan(&text)
	if err != nil || !strings.Contains(text, "lco create") {
		t.Fatalf("the rows of %s: %v", path, err)
	}
	return text
}

func TestReport_JSON(t *testing.T) {
	s := healthyStore(t)
	damage{sql: `DELETE FROM wallets WHERE operator_id = 4`}.plant(t, s)
	report, err := audited(t, s.path, s.now)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"ok":false,"counts":{"operators":5,"wallets":4,`, `"operations":{"total":39,"processing":2,`, `"sums":{"credited":`,
		`"violations":[{"invariant":"O2","subject":"lco 4","detail":"it has 0 wallets; expected 1"}]}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s\nis not in\n%s", want, text)
		}
	}
}

func TestAudit_EmptyStoreIsClean(t *testing.T) {
	path := newStorePath(t)
	if err := openEnv(t, path).store.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := audited(t, path, opening)
	if err != nil || !report.OK || report.Counts != (audit.Counts{}) || report.ActionsHead != "" {
		t.Errorf("%+v, %v; want it clean, and nothing counted", report, err)
	}
}

func TestAudit_RefusesOtherFiles(t *testing.T) {
	if pgtest.Chosen() {
		empty, other := pgtest.NewDatabase(t), pgtest.NewDatabase(t)
		if _, err := openReadOnly(t, other).Exec(`CREATE TABLE operators (name text)`); err != nil {
			t.Fatal(err)
		}
		for name, path := range map[string]string{"nothing": empty, "another program's": other} {
			if _, err := audited(t, path, opening); err == nil || !strings.Contains(err.Error(), "no store of Coax") {
				t.Errorf("%s: %v; want it refused", name, err)
			}
		}
		return
	}
	files := map[string]string{"text": strings.Repeat("This is no database. ", 500), "nothing": ""}
	for name, content := range files {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := audited(t, path, opening); err == nil || !strings.Contains(err.Error(), "no store of Coax") {
			t.Errorf("%s: %v; want it refused", name, err)
		}
	}
}

func TestAudit_RefusesUnreadableStore(t *testing.T) {
	for _, row := range []struct{ name, sql, want string }{
		{"a newer release's", `UPDATE schema_tolerance SET oldest_generation = 9000`, "newer release"},
		{"half migrated", `DELETE FROM schema_tolerance`, "migration"},
		{"a table gone", `DROP TABLE ledger`, "ledger"},
		{"a text where a number belongs", `UPDATE loosened SET amount_paise = 'much'`, "commissions"},
	} {
		s := healthyStore(t)
		d := damage{sql: row.sql}
		if strings.Contains(row.sql, "loosened") {
			d = damage{loosen: []string{"commissions"}, sql: strings.Replace(row.sql, "loosened", "commissions", 1)}
			if pgtest.Chosen() {
				d.sql = `ALTER TABLE commissions ALTER amount_paise TYPE text USING 'much'`
			}
		}
		d.plant(t, s)
		report, err := audited(t, s.path, s.now)
		if err == nil || !strings.Contains(err.Error(), row.want) || report.OK {
			t.Errorf("%s: %v, %v; want it refused, with %q", row.name, report.OK, err, row.want)
		}
	}
}

func TestAudit_StuckAfterLease(t *testing.T) {
	s := healthyStore(t)
	db := openReadOnly(t, s.path)
	var lease int64
	if err := db.QueryRow(`SELECT min(lease_until) FROM operations WHERE status = 'processing'`).Scan(&lease); err != nil {
		t.Fatal(err)
	}
	edge := time.UnixMilli(lease).Add(30 * time.Second)
	for now, want := range map[time.Time]int{edge: 0, edge.Add(time.Millisecond): 1, edge.Add(time.Hour): 2} {
		report, err := audited(t, s.path, now)
		if err != nil || len(report.Violations) != want {
			t.Errorf("%s after the lease: %v, %v; want %d stuck", now.Sub(time.UnixMilli(lease)), report.Violations, err, want)
		}
	}
}

func TestAudit_BesideRunningNodeIsClean(t *testing.T) {
	path := newStorePath(t)
	s := openEnv(t, path)
	defer s.store.Close()
	s.setUp()
	s.topUp(1, "900000", "a lot")
	s.topUp(2, "900000", "a lot more")
	s.tick = time.Millisecond
	s.outcome = func(order operation.Order) operation.Outcome {
		return []operation.Outcome{operation.Confirmed, operation.Confirmed, operation.Rejected, operation.Unknown}[order.Reference[len(order.Reference)-1]%4]
	}

	const workers, rounds = 8, 16
	var group sync.WaitGroup
	closed := make(chan struct{})
	for worker := range workers {
		group.Go(func() {
			operator := int64(worker%2) + 1
			for round := range rounds {
				customer := fmt.Sprintf("%d%05d", worker+1, round)
				for _, wish := range []struct {
					kind operation.Kind
					plan string
				}{{operation.Activate, "COMBO-1"}, {operation.Renew, "BASIC-1"}, {operation.AdvanceRenew, "FAMILY-3"}} {
					// Some are refused: the customer was not activated, or is in review.
					_, _ = s.processor.Process(t.Context(), request(operation.API, operator, wish.kind, customer+"-"+string(wish.kind), wish.plan, customer))
				}
				if round%5 == 0 {
					_, _, err := s.service.TopUp(t.Context(), admin.TopUp{OperatorID: operator, Amount: rupees("5"), Reference: customer})
					s.ok(err)
					_, err = s.service.ChangeOperator(t.Context(), operator, admin.OperatorChange{CommissionBPS: new(100 + round)})
					s.ok(err)
					_, err = s.service.SetPlan(t.Context(), subscription.Plan{
						ID: "BASIC-1", Name: "Basic", Price: rupees(fmt.Sprintf("%d", 100+round)), Months: 1, Type: subscription.Standard, Main: "TV",
					})
					s.ok(err)
				}
			}
		})
	}
	go func() {
		group.Wait()
		close(closed)
	}()

	audits, last := 0, int64(0)
	for working := true; working; audits++ {
		select {
		case <-closed:
			working = false // once more, over the whole
		default:
		}
		report, err := audited(t, path, s.clock())
		if err != nil {
			t.Fatal(err)
		}
		for _, violation := range report.Violations {
			t.Errorf("audit %d: %s", audits, violation)
		}
		if t.Failed() {
			<-closed
			return
		}
		last = report.Counts.Operations.Total
	}
	if last < workers*rounds || audits < 2 {
		t.Errorf("%d operations and %d audits; want more of both", last, audits)
	}
	t.Logf("%d audits beside %d operations", audits, last)
}

func TestAudit_Cancelled(t *testing.T) {
	s := healthyStore(t)
	db := openReadOnly(t, s.path)
	tx := snapshot(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if report, err := audit.Run(ctx, tx, s.now, nil); !errors.Is(err, context.Canceled) || report.OK {
		t.Errorf("%v, %v; want it cancelled, and not called clean", report.OK, err)
	}
}

func TestAudit_LongestWaitOfReview(t *testing.T) {
	s := healthyStore(t)
	var next int64
	if err := openReadOnly(t, s.path).QueryRow(`SELECT max(next_check_at) FROM operations WHERE status = 'needs_review'`).Scan(&next); err != nil {
		t.Fatal(err)
	}
	wait := time.UnixMilli(next).Sub(s.now)
	for _, row := range []struct {
		name    string
		longest time.Duration
		ago     time.Duration // how long before the closing time the audit looks
		want    int
	}{
		{"at the edge", time.Hour, time.Hour + 30*time.Second - wait, 0},
		{"beyond it", time.Hour, time.Hour + 30*time.Second - wait + time.Millisecond, 1},
		{"where the settings are not known", 0, 23 * time.Hour, 0},
		{"beyond whatever can be set", 0, 24*time.Hour + time.Minute - wait, 1},
	} {
		db := openReadOnly(t, s.path)
		report, err := audit.Settings{LongestWait: row.longest}.Run(t.Context(), snapshot(t, db), s.now.Add(-row.ago), nil)
		if err != nil {
			t.Fatal(err)
		}
		stuck := 0
		for _, violation := range report.Violations {
			if violation.Invariant == "S4" && strings.Contains(violation.Detail, "in review and looked at next") {
				stuck++
			}
		}
		if stuck != row.want {
			t.Errorf("%s: %d are called stuck; want %d: %v", row.name, stuck, row.want, report.Violations)
		}
	}
}

func TestAudit_RestChangesNothing(t *testing.T) {
	t.Parallel()
	s := healthyStore(t)
	want, err := audit.Run(t.Context(), snapshot(t, openReadOnly(t, s.path)), s.now, nil)
	if err != nil {
		t.Fatal(err)
	}
	rests := int64(0)
	settings := audit.Settings{Rest: func(context.Context) { rests++ }}
	got, err := settings.Run(t.Context(), snapshot(t, openReadOnly(t, s.path)), s.now, nil)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v (%v); want what an audit without rest finds, %+v", got, err, want)
	}
	// Some tables are read more than once.
	if rows := rowsOf(want.Counts); rests < rows/audit.RestEvery || rests > 4*rows/audit.RestEvery {
		t.Errorf("it could rest %d times in %d rows; want that after every %d", rests, rows, audit.RestEvery)
	}
}
