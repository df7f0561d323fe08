package postgres

import (
	"cmp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

var moveColumns = columns[pendingSettlement]{
	textColumn("id", func(s pendingSettlement) string { return s.OperationID }),
	intColumn("epoch", func(s pendingSettlement) int64 { return s.Epoch }),
	textColumn("was", func(s pendingSettlement) string { return string(s.before.State) }),
	textColumn("status", func(s pendingSettlement) string { return string(s.To) }),
	nullTimeColumn("completed_at", func(s pendingSettlement) time.Time { return s.completed() }),
	nullTimeColumn("review_since", func(s pendingSettlement) time.Time { return s.reviewSince() }),
	nullTimeColumn("next_check_at", func(s pendingSettlement) time.Time { return s.NextCheckAt }),
	nullTextColumn("provider_transaction_id", func(s pendingSettlement) string { return s.ProviderTransaction }),
	nullTextColumn("reason", func(s pendingSettlement) string { return string(s.Reason) }),
	textColumn("provider_message", func(s pendingSettlement) string { return s.ProviderMessage }),
	nullTextColumn("addon_status", func(s pendingSettlement) string { return string(s.AddonState) }),
	nullTimeColumn("addon_next_at", func(s pendingSettlement) time.Time { return s.AddonNextAt }),
	intColumn("addon_attempt", func(s pendingSettlement) int64 { return int64(s.AddonAttempt) }),
}

var updateMoved = `
	WITH moved AS (
	     UPDATE operations o
	        SET status = v.status, completed_at = v.completed_at, review_since = coalesce(o.review_since, v.review_since), lease_until = NULL,
	            next_check_at = v.next_check_at, checks = 0, needs_person = 0,
	            provider_transaction_id = coalesce(v.provider_transaction_id, o.provider_transaction_id), reason = v.reason,
	            provider_message = v.provider_message,
	            addon_status = CASE WHEN o.addon IS NULL THEN NULL ELSE coalesce(v.addon_status, o.addon_status) END,
	            addon_next_at = v.addon_next_at, addon_attempt = greatest(o.addon_attempt, v.addon_attempt)
	       FROM ` + unnest(1, moveColumns) + ` AS v (` + names(moveColumns) + `)
	      WHERE o.id = v.id COLLATE "C" AND o.epoch = v.epoch AND o.status = v.was
	     RETURNING o.id)
	` + guarded(`SELECT FROM moved`)

// moveOperations moves operations to their new states, if none has changed since it was
// read. It writes what Settlement.Apply computes.
func moveOperations(batch *pgx.Batch, all []pendingSettlement) {
	batch.Queue(updateMoved, moveColumns.args(all)...)
}

// completed returns when the operation ended; zero if it is open.
func (s pendingSettlement) completed() time.Time {
	if s.To.Open() {
		return time.Time{}
	}
	return s.At
}

// reviewSince returns when the review began; zero if the operation has ended.
func (s pendingSettlement) reviewSince() time.Time {
	if s.To.Open() {
		return s.At
	}
	return time.Time{}
}

var extensionColumns = columns[pendingSettlement]{
	textColumn("id", func(s pendingSettlement) string { return s.before.SubscriberID }),
	timeColumn("expires_at", func(s pendingSettlement) time.Time { return s.before.ExpiryPlanned }),
	nullTextColumn("provider_transaction", func(s pendingSettlement) string { return cmp.Or(s.ProviderTransaction, s.before.ProviderTransaction) }),
	boolColumn("activated", func(s pendingSettlement) bool { return s.before.Kind == operation.Activate }),
	timeColumn("at", func(s pendingSettlement) time.Time { return s.At }),
}

var updateSubscriptions = `
	WITH running AS (
	     UPDATE subscribers s
	        SET expires_at = v.expires_at, last_provider_transaction = coalesce(v.provider_transaction, s.last_provider_transaction),
	            activated_at = CASE WHEN v.activated THEN v.at ELSE s.activated_at END,
	            renewed_at = CASE WHEN v.activated THEN s.renewed_at ELSE v.at END,
	            version = s.version + 1
	       FROM ` + unnest(1, extensionColumns) + ` AS v (` + names(extensionColumns) + `)
	      WHERE s.id = v.id COLLATE "C"
	     RETURNING s.id)
	` + guarded(`SELECT FROM running`)

var cycleColumns = columns[pendingSettlement]{
	textColumn("subscriber_id", func(s pendingSettlement) string { return s.before.SubscriberID }),
	textColumn("operation_id", func(s pendingSettlement) string { return s.OperationID }),
	textColumn("plan_id", func(s pendingSettlement) string { return s.before.PlanID }),
	timeColumn("starts_at", func(s pendingSettlement) time.Time { return s.before.CycleStartsAt }),
	timeColumn("ends_at", func(s pendingSettlement) time.Time { return s.before.ExpiryPlanned }),
	timeColumn("created_at", func(s pendingSettlement) time.Time { return s.At }),
}

var insertCycles = `
	INSERT INTO cycles (seq, ` + names(cycleColumns) + `)
	SELECT coalesce((SELECT max(c.seq) FROM cycles c WHERE c.subscriber_id = v.subscriber_id COLLATE "C"), 0) + 1, v.*
	  FROM ` + unnest(1, cycleColumns) + ` AS v (` + names(cycleColumns) + `)`

// extendSubscriptions extends or starts the subscriptions of confirmed operations.
func extendSubscriptions(batch *pgx.Batch, confirmed []pendingSettlement) {
	if len(confirmed) == 0 {
		return
	}
	confirmed = bySubscriber(confirmed, func(s pendingSettlement) string { return s.before.SubscriberID })
	batch.Queue(updateSubscriptions, extensionColumns.args(confirmed)...)
	batch.Queue(insertCycles, cycleColumns.args(confirmed)...)
}

var chargeColumns = columns[pendingSettlement]{
	textColumn("operation_id", func(s pendingSettlement) string { return s.OperationID }),
	intColumn("operator_id", func(s pendingSettlement) int64 { return s.before.OperatorID }),
	intColumn("paise", func(s pendingSettlement) int64 { return s.before.Amount.Paise() }),
	textColumn("description", func(s pendingSettlement) string { return s.before.LedgerText() }),
	intColumn("commission_paise", func(s pendingSettlement) int64 {
		return subscription.Commission(s.before.Amount, s.before.CommissionBPS).Paise()
	}),
	intColumn("rate_bps", func(s pendingSettlement) int64 { return int64(s.before.CommissionBPS) }),
	timeColumn("at", func(s pendingSettlement) time.Time { return s.At }),
}

var yearColumns = columns[int64]{intColumn("year", func(year int64) int64 { return year })}

// financialYears returns the financial year of each wallet's items; 0 if they differ.
func financialYears(confirmed []pendingSettlement, totals []walletTotal) []int64 {
	years := make([]int64, len(totals))
	differ := make([]bool, len(totals))
	for _, s := range confirmed {
		n, year := walletOf(totals, s.before.OperatorID), int64(subscription.FinancialYear(s.At))
		differ[n] = differ[n] || years[n] != 0 && years[n] != year
		years[n] = year
	}
	for n := range years {
		if differ[n] {
			years[n] = 0
		}
	}
	return years
}

var chargeAll = `
	WITH charged AS (
	     UPDATE wallets w
	        SET ledger_paise = w.ledger_paise - v.paise, ledger_lines = w.ledger_lines + v.items,
	            receipt_lines = w.receipt_lines + CASE WHEN w.receipt_lines = w.ledger_lines THEN v.items ELSE 0 END,
	            receipts = CASE WHEN w.receipt_year = v.year THEN w.receipts
	                 ELSE coalesce((w.receipts_past::jsonb ->> v.year::text)::bigint, 0) END + v.items,
	            receipts_past = CASE WHEN w.receipt_year = v.year THEN w.receipts_past
	                 ELSE ((w.receipts_past::jsonb || jsonb_build_object(w.receipt_year::text, w.receipts)) - ARRAY[v.year::text, '0'])::text END,
	            receipt_year = v.year
	       FROM ` + unnest(1, totalColumns, yearColumns) + ` AS v (` + names(totalColumns, yearColumns) + `)
	      WHERE w.operator_id = v.operator_id
	     RETURNING w.operator_id, w.ledger_paise, w.ledger_lines, w.receipts),
	totals AS (
	     SELECT array_agg(ledger_lines ORDER BY operator_id) AS lines, array_agg(ledger_paise ORDER BY operator_id) AS sums,
	            array_agg(receipts ORDER BY operator_id) AS receipts, count(*) AS charged
	       FROM charged),
	charges AS (
	     SELECT v.*, t.lines[v.wallet] - v.later AS line, t.sums[v.wallet] + v.later_paise AS balance_after, t.receipts[v.wallet] - v.later AS receipt
	       FROM totals t, ` + unnest(1+len(totalColumns)+len(yearColumns), chargeColumns, slotColumns) + `
	         AS v (` + names(chargeColumns, slotColumns) + `)),
	earned AS (
	     INSERT INTO commissions (operation_id, operator_id, amount_paise, rate_bps, created_at)
	     SELECT operation_id, operator_id, commission_paise, rate_bps, at FROM charges),
	entered AS (
	     INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, operation_id, created_at, receipt)
	     SELECT operator_id, line, 'debit', paise, balance_after, description, operation_id, at, receipt FROM charges)
	SELECT 1 / (charged = cardinality($1) AND 0 <> ALL ($4))::int FROM totals`

// charge writes the ledger lines with their receipt numbers, and the commissions, of confirmed
// operations. It fails as a guard does if those of one operator are of two financial years: apart
// from each other they can be written.
func charge(batch *pgx.Batch, confirmed []pendingSettlement) {
	if len(confirmed) == 0 {
		return
	}
	totals, slots := walletTotals(confirmed, func(s pendingSettlement) (int64, int64) { return s.before.OperatorID, s.before.Amount.Paise() })
	args := make([]any, 0, len(totalColumns)+len(yearColumns)+len(chargeColumns)+len(slotColumns))
	args = totalColumns.appendArgs(args, totals)
	args = yearColumns.appendArgs(args, financialYears(confirmed, totals))
	args = chargeColumns.appendArgs(args, confirmed)
	args = slotColumns.appendArgs(args, slots)
	batch.Queue(chargeAll, args...)
}

// releaseSubscriber makes other operations on the subscriber possible again. The subscriber
// of a failed activation is deleted; only the operation remains.
func releaseSubscriber(batch *pgx.Batch, s pendingSettlement) {
	statement := `UPDATE subscribers SET version = version + 1 WHERE id = ANY ($1::text[]) RETURNING id`
	if s.before.Kind == operation.Activate {
		statement = `DELETE FROM subscribers WHERE id = ANY ($1::text[]) AND expires_at IS NULL RETURNING id`
	}
	batch.Queue(`WITH leaving AS (`+statement+`) `+guarded(`SELECT FROM leaving`), []string{s.before.SubscriberID})
}

// refund returns the amount to the wallet.
func refund(batch *pgx.Batch, s pendingSettlement) {
	batch.Queue(`
		WITH refunded AS (
		     UPDATE wallets SET balance_paise = balance_paise + $2, entries = entries + 1
		      WHERE operator_id = $1
		     RETURNING balance_paise, entries)
		INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, actor, created_at)
		SELECT $1, entries, 'refund', $2, balance_paise, $3::text, $4::text, $5::bigint FROM refunded`,
		s.before.OperatorID, s.before.Amount.Paise(), s.before.ID, cmp.Or(s.Actor, s.before.Actor), s.At.UnixMilli())
}
