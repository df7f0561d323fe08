package audit_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// BenchmarkAudit audits a store of many operations: COAX_AUDIT_OPERATIONS of
// them, by rote, or ten thousand.
func BenchmarkAudit(b *testing.B) {
	count := 10_000
	if text := os.Getenv("COAX_AUDIT_OPERATIONS"); text != "" {
		count, _ = strconv.Atoi(text)
	}
	if pgtest.Chosen() {
		b.Skip("it fills a file of SQLite's")
	}
	path := filepath.Join(b.TempDir(), "coax.db")
	now := manyOperations(b, path, count)
	b.ResetTimer()
	rows := int64(0)
	for b.Loop() {
		report, err := audited(b, path, now)
		if err != nil || !report.OK || report.Counts.Operations.Success != int64(count) {
			b.Fatalf("%v %v %+v", report.Violations[:min(3, len(report.Violations))], err, report.Counts)
		}
		rows += rowsOf(report.Counts)
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "operations/s")
}

func rowsOf(c audit.Counts) int64 {
	return c.Operators + c.Wallets + c.WalletEntries + c.LedgerLines + c.Operations.Total + c.Commissions + c.Events +
		c.ProviderCalls + c.Exceptions + c.Subscribers + c.Cycles + c.PlanVersions + c.Keys + c.Acts
}

// manyOperations fills a store faster than the product would: four successful
// operations for each subscriber, in the order of time over all of them.
func manyOperations(b *testing.B, path string, count int) (now time.Time) {
	b.Helper()
	s := openShop(b, path)
	s.furnish()
	s.topUp(1, strconv.Itoa(count*199), "for all of them")
	s.topUp(2, strconv.Itoa(count*199), "for all of them")
	s.ok(s.store.Close())

	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(0)&_pragma=foreign_keys(0)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	statement := func(query string) func(args ...any) {
		prepared, err := tx.Prepare(query)
		if err != nil {
			b.Fatalf("%s: %v", query, err)
		}
		return func(args ...any) {
			if _, err := prepared.Exec(args...); err != nil {
				b.Fatalf("%s %v: %v", query, args, err)
			}
		}
	}
	insertOperation := statement(`INSERT INTO operations (id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
		subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main, amount_paise, commission_bps, wallet_before_paise,
		expiry_previous, expiry_planned, cycle_starts_at, status, epoch, node, provider, provider_transaction_id, created_at, completed_at)
		SELECT ?1, ?2, ?1, zeroblob(32), 1, ?3, 'api', 'api:key 1', ?4, 'Somebody of Some Town', ?5, 'BASIC-1', 1, 'Plan BASIC-1', 1, 'TV', 19900,
		       commission_bps, ?6, ?7, ?8, ?9, 'success', 1, 'node-1', 'test', 'P-' || ?1, ?10, ?10 FROM operators WHERE id = ?2`)
	insertEntry := statement(`INSERT INTO wallet_entries SELECT operator_id, entries, 'reserve', -19900, balance_paise, ?2, NULL, 'api:key 1', ?3 FROM wallets WHERE operator_id = ?1`)
	insertLine := statement(`INSERT INTO ledger SELECT NULL, operator_id, ledger_lines, 'debit', 19900, ledger_paise, 'Renewal, Plan BASIC-1 [API]', ?2, ?3 FROM wallets WHERE operator_id = ?1`)
	insertCommission := statement(`INSERT INTO commissions SELECT ?2, id, (19900 * commission_bps + 5000) / 10000, commission_bps, ?3 FROM operators WHERE id = ?1`)
	insertEvent := statement(`INSERT INTO operation_events VALUES (?1, ?2, ?3, ?4, 1, 'node-1', '', 'by rote', ?5)`)
	insertCall := statement(`INSERT INTO provider_calls (operation_id, reference, kind, outcome, node, asked_at) VALUES (?1, ?1, ?2, 'confirmed', 'node-1', ?3)`)
	insertSubscriber := statement(`INSERT INTO subscribers (id, operator_id, mobile, name, connection_type, activated_at, created_at) VALUES (?1, ?2, ?3, 'x', 'x', ?4, ?4)`)
	insertCycle := statement(`INSERT INTO cycles VALUES (?1, ?2, ?3, 'BASIC-1', ?4, ?5, ?4)`)
	updateWallet := statement(`UPDATE wallets SET balance_paise = balance_paise - 19900, ledger_paise = ledger_paise - 19900,
		entries = entries + 1, ledger_lines = ledger_lines + 1 WHERE operator_id = ?1`)
	updateSubscriber := statement(`UPDATE subscribers SET expires_at = ?2, renewed_at = ?3 WHERE id = ?1`)

	balances := map[int64]int64{}
	for operator := range int64(2) {
		var balance int64
		if err := tx.QueryRow(`SELECT balance_paise FROM wallets WHERE operator_id = ?`, operator+1).Scan(&balance); err != nil {
			b.Fatal(err)
		}
		balances[operator+1] = balance
	}
	month := int64(30 * 24 * time.Hour / time.Millisecond)
	subscribers := count / 4
	for i := range count {
		round, customer := i/subscribers, i%subscribers
		operator := int64(customer%2) + 1
		created := s.now.UnixMilli() + int64(round)*10*60*1000 + int64(i)
		id, subscriber := fmt.Sprintf("CX%026d", i), fmt.Sprintf("%09d", (customer*7919)%subscribers)
		mobile := "9" + subscriber
		kind, previous := operation.Renew, any(s.now.UnixMilli()+int64(customer)+int64(round)*month)
		if round == 0 {
			kind, previous = operation.Activate, nil
			insertSubscriber(subscriber, operator, mobile, created)
		}
		expires := s.now.UnixMilli() + int64(customer) + int64(round+1)*month
		insertOperation(id, operator, kind, subscriber, mobile, balances[operator], previous, expires, created, created)
		balances[operator] -= 19900
		updateWallet(operator)
		insertEntry(operator, id, created)
		insertLine(operator, id, created)
		insertCommission(operator, id, created)
		insertEvent(id, 1, nil, "processing", created)
		insertEvent(id, 2, "processing", "success", created)
		insertCall(id, kind, created)
		insertCycle(subscriber, round+1, id, created, expires)
		var renewed any
		if round > 0 {
			renewed = created
		}
		updateSubscriber(subscriber, expires, renewed)
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	return s.now.Add(time.Hour)
}
