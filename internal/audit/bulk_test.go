package audit_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/subscription"
)

// A bulk store has as many operations as one likes and is made by SQL alone, so
// fast that millions can be audited. Every row is a function of its number: four
// operations for each subscriber, an activation and three renewals, in the order
// of time over all subscribers of all operators.

const (
	bulkOperators = 50
	bulkRounds    = 4
	bulkPrice     = 199_00
	bulkRate      = 250
	// bulkStep is what the number of operations is a multiple of.
	bulkStep = bulkOperators * bulkRounds
)

// fillBulk makes a healthy store of about so many operations, and says how many
// and when it is to be audited.
func fillBulk(t testing.TB, place string, operations int) (count int, now time.Time) {
	t.Helper()
	count = max(1, operations/bulkStep) * bulkStep
	s := openShop(t, place)
	s.furnishBulk(count)
	base := s.clock().Add(time.Hour)
	s.ok(s.store.Close())

	db := openUnruled(t, place)
	defer db.Close()
	if !pgtest.Chosen() {
		execute(t, db, `PRAGMA synchronous = 0; PRAGMA cache_size = -262144`)
	}
	mend := withoutIndexes(t, db)
	text := strings.NewReplacer(
		"{count}", fmt.Sprint(count), "{customers}", fmt.Sprint(count/bulkRounds), "{operators}", fmt.Sprint(bulkOperators),
		"{base}", fmt.Sprint(base.UnixMilli()), "{month}", fmt.Sprint((30 * 24 * time.Hour).Milliseconds()), "{price}", fmt.Sprint(bulkPrice),
		"{rate}", fmt.Sprint(bulkRate), "{commission}", fmt.Sprint((bulkPrice*bulkRate+5000)/10000),
		"{credit}", fmt.Sprint(bulkCredit(count)),
	).Replace(inBulkDialect(bulkRows))
	for statement := range strings.SplitSeq(text, ";") {
		execute(t, db, statement)
	}
	for _, statement := range mend {
		execute(t, db, statement)
	}
	if pgtest.Chosen() {
		execute(t, db, `ANALYZE`)
	}
	return count, base.Add(time.Duration(count)*time.Millisecond + 2*time.Hour)
}

// bulkCredit is what each operator has paid in: enough for all its operations.
func bulkCredit(count int) int64 { return int64(count/bulkOperators+1) * bulkPrice }

func (s *shop) furnishBulk(count int) {
	ctx := s.Context()
	s.ok(s.store.RecordComparison(ctx, catalogue.Comparison{Provider: "test", At: opening, Components: []catalogue.Component{
		{Code: "TV", Name: "TV", Role: catalogue.Main},
	}}))
	must[subscription.Plan](s)(s.desk.SetPlan(ctx, subscription.Plan{
		ID: "BASIC-1", Name: "Basic", Price: money.Paise(bulkPrice), Months: 1, Type: subscription.Standard, Main: "TV",
	}))
	for i := range bulkOperators {
		operator := must[subscription.Operator](s)(s.desk.CreateOperator(ctx, fmt.Sprintf("Operator %d", i+1), admin.OperatorChange{CommissionBPS: new(bulkRate)}))
		_, _, err := s.desk.TopUp(ctx, admin.TopUp{OperatorID: operator.ID, Amount: money.Paise(bulkCredit(count)), Reference: "all at once"})
		s.ok(err)
		must[admin.IssuedKey](s)(s.desk.IssueKey(ctx, operator.ID, access.AllPermissions))
	}
}

// bulkRows are the statements that fill a store. The rows of numbers have: i the
// operation, c the customer, r the round, o the operator, k how many operations
// that operator had before, id, who, at, and until when it is paid for.
const bulkRows = `
	CREATE TABLE bulk AS
	WITH RECURSIVE numbers (i) AS ({series})
	SELECT i, i / {customers} AS r, i % {customers} AS c, (i % {customers}) % {operators} + 1 AS o,
	       i / {customers} * ({customers} / {operators}) + (i % {customers}) / {operators} AS k,
	       {id} AS id, {who} AS who,
	       {base} + i + i / {customers} * 600000 AS at, {base} + i % {customers} + i / {customers} * {month} AS previous
	  FROM numbers;
	INSERT INTO subscribers (id, operator_id, mobile, name, connection_type, expires_at, activated_at, renewed_at, last_provider_transaction, created_at)
	SELECT who, o, '9' || who, 'Somebody of Some Town', 'tv', {base} + c + 4 * {month}, {base} + c,
	       at, 'P-' || id, {base} + c
	  FROM bulk WHERE r = 3;
	INSERT INTO operations (id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor, subscriber_id, customer_name, mobile,
	       plan_id, plan_version, plan_name, plan_months, main, amount_paise, commission_bps, wallet_before_paise, expiry_previous, expiry_planned,
	       cycle_starts_at, status, epoch, node, provider, provider_transaction_id, created_at, completed_at)
	SELECT id, o, id, {fingerprint}, 1, CASE r WHEN 0 THEN 'activate' ELSE 'renew' END, 'api', 'api:key 1', who, 'Somebody of Some Town', '9' || who,
	       'BASIC-1', 1, 'Basic', 1, 'TV', {price}, {rate}, {credit} - k * {price}, CASE r WHEN 0 THEN NULL ELSE previous END, previous + {month},
	       at, 'success', 1, 'node-1', 'test', 'P-' || id, at, at
	  FROM bulk ORDER BY i;
	INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, reference, actor, created_at)
	SELECT o, k + 2, 'reserve', -{price}, {credit} - (k + 1) * {price}, id, NULL, 'api:key 1', at FROM bulk ORDER BY o, k;
	INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, operation_id, created_at)
	SELECT o, k + 2, 'debit', {price}, {credit} - (k + 1) * {price}, 'Renewal, Basic [API]', id, at FROM bulk ORDER BY i;
	INSERT INTO commissions (operation_id, operator_id, amount_paise, rate_bps, created_at)
	SELECT id, o, {commission}, {rate}, at FROM bulk ORDER BY i;
	INSERT INTO operation_events (operation_id, seq, from_status, to_status, epoch, node, actor, reason, at)
	SELECT id, step, CASE step WHEN 1 THEN NULL ELSE 'processing' END, CASE step WHEN 1 THEN 'processing' ELSE 'success' END, 1, 'node-1',
	       CASE step WHEN 1 THEN 'api:key 1' ELSE '' END, 'by rote', at
	  FROM bulk, (SELECT 1 AS step UNION ALL SELECT 2) AS steps ORDER BY i, step;
	INSERT INTO provider_calls (operation_id, reference, kind, outcome, provider_transaction_id, node, asked_at)
	SELECT id, id, CASE r WHEN 0 THEN 'activate' ELSE 'renew' END, 'confirmed', 'P-' || id, 'node-1', at FROM bulk ORDER BY i;
	INSERT INTO cycles (subscriber_id, seq, operation_id, plan_id, starts_at, ends_at, created_at)
	SELECT who, r + 1, id, 'BASIC-1', at, previous + {month}, at FROM bulk ORDER BY who, r;
	INSERT INTO nonces (credential_id, nonce, request_id, used_at)
	SELECT o, id, 'req_' || id, at FROM bulk WHERE r = 3 ORDER BY o, id;
	INSERT INTO rate_counters (operator_id, minute, used)
	SELECT o, {base} / 60000 + k, 1 FROM bulk WHERE r = 3 ORDER BY o, k;
	UPDATE wallets SET balance_paise = {credit} - ({count} / {operators}) * {price}, ledger_paise = {credit} - ({count} / {operators}) * {price},
	       entries = 1 + {count} / {operators}, ledger_lines = 1 + {count} / {operators};
	DROP TABLE bulk`

// inBulkDialect fills in what the stores write differently. Customers' numbers
// are in another order than their ids, as they are in life: 7919 is prime.
func inBulkDialect(text string) string {
	words := []string{
		"{series}", "SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < {count}",
		"{id}", "printf('CX%026d', i)", "{who}", "printf('%09d', (i % {customers}) * 7919 % {customers})", "{fingerprint}", "zeroblob(32)",
	}
	if pgtest.Chosen() {
		words = []string{
			"{series}", "SELECT generate_series(0, {count}::bigint - 1)",
			"{id}", "'CX' || lpad(i::text, 26, '0')", "{who}", "lpad(((i % {customers}) * 7919 % {customers})::text, 9, '0')",
			"{fingerprint}", "decode(repeat('00', 32), 'hex')",
		}
	}
	return strings.NewReplacer(words...).Replace(text)
}

// withoutIndexes takes away the indexes that no rule hangs on, because making
// them anew is faster than keeping them, and returns how they are made.
func withoutIndexes(t testing.TB, db *sql.DB) (mend []string) {
	t.Helper()
	query := `SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL`
	if pgtest.Chosen() {
		query = `SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND indexname NOT IN (SELECT conname FROM pg_constraint)`
	}
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var drop []string
	for rows.Next() {
		var name, definition string
		if err := rows.Scan(&name, &definition); err != nil {
			t.Fatal(err)
		}
		drop, mend = append(drop, `DROP INDEX `+name), append(mend, definition)
	}
	if err := rows.Err(); err != nil || len(drop) < 10 {
		t.Fatalf("%d indexes, %v", len(drop), err)
	}
	for _, statement := range drop {
		execute(t, db, statement)
	}
	return mend
}

func execute(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
