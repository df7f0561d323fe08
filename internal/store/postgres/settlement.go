package postgres

import (
	"cmp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// moveOperations queues the move itself, if all of them are as they were known to
// be. It writes what Settlement.After says.
func moveOperations(batch *pgx.Batch, all []settling) {
	batch.Queue(`
		WITH moved AS (
		     UPDATE operations o
		        SET status = v.status, completed_at = v.completed_at, review_since = coalesce(o.review_since, v.review_since), lease_until = NULL,
		            next_check_at = v.next_check_at, checks = 0, needs_person = 0,
		            provider_transaction_id = coalesce(v.provider_transaction_id, o.provider_transaction_id), reason = v.reason,
		            provider_message = v.provider_message,
		            addon_status = CASE WHEN o.addon IS NULL THEN NULL ELSE coalesce(v.addon_status, o.addon_status) END,
		            addon_next_at = v.addon_next_at, addon_attempt = greatest(o.addon_attempt, v.addon_attempt)
		       FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[],
		                   $8::text[], $9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[])
		         AS v (id, epoch, was, status, completed_at, review_since, next_check_at,
		               provider_transaction_id, reason, provider_message, addon_status, addon_next_at, addon_attempt)
		      WHERE o.id = v.id COLLATE "C" AND o.epoch = v.epoch AND o.status = v.was
		     RETURNING o.id)
		`+guarded(`SELECT FROM moved`),
		column(all, func(s settling) string { return s.OperationID }),
		column(all, func(s settling) int64 { return s.Epoch }),
		column(all, func(s settling) string { return string(s.before.State) }),
		column(all, func(s settling) string { return string(s.To) }),
		column(all, func(s settling) *int64 { return possibleMillis(s.completed()) }),
		column(all, func(s settling) *int64 { return possibleMillis(s.underReview()) }),
		column(all, func(s settling) *int64 { return possibleMillis(s.NextCheckAt) }),
		column(all, func(s settling) *string { return possibleText(s.ProviderTransaction) }),
		column(all, func(s settling) *string { return possibleText(string(s.Reason)) }),
		column(all, func(s settling) string { return s.ProviderMessage }),
		column(all, func(s settling) *string { return possibleText(string(s.AddonState)) }),
		column(all, func(s settling) *int64 { return possibleMillis(s.AddonNextAt) }),
		column(all, func(s settling) int64 { return int64(s.AddonAttempt) }))
}

// completed is when the operation is over; zero if it is not.
func (s settling) completed() time.Time {
	if s.To.Open() {
		return time.Time{}
	}
	return s.At
}

// underReview is since when it is in review; zero if it is over.
func (s settling) underReview() time.Time {
	if s.To.Open() {
		return s.At
	}
	return time.Time{}
}

// runSubscriptions queues that subscriptions run on, or begin to.
func runSubscriptions(batch *pgx.Batch, confirmed []settling) {
	if len(confirmed) == 0 {
		return
	}
	confirmed = bySubscriber(confirmed, func(s settling) string { return s.before.SubscriberID })
	subscribers := column(confirmed, func(s settling) string { return s.before.SubscriberID })
	at := column(confirmed, func(s settling) int64 { return s.At.UnixMilli() })
	ends := column(confirmed, func(s settling) int64 { return s.before.ExpiryPlanned.UnixMilli() })
	batch.Queue(`
		WITH running AS (
		     UPDATE subscribers s
		        SET expires_at = v.expires_at, last_provider_transaction = coalesce(v.provider_transaction, s.last_provider_transaction),
		            activated_at = CASE WHEN v.activated THEN v.at ELSE s.activated_at END,
		            renewed_at = CASE WHEN v.activated THEN s.renewed_at ELSE v.at END,
		            version = s.version + 1
		       FROM unnest($1::text[], $2::bigint[], $3::text[], $4::boolean[], $5::bigint[]) AS v (id, expires_at, provider_transaction, activated, at)
		      WHERE s.id = v.id COLLATE "C"
		     RETURNING s.id)
		`+guarded(`SELECT FROM running`),
		subscribers, ends,
		column(confirmed, func(s settling) *string {
			return possibleText(cmp.Or(s.ProviderTransaction, s.before.ProviderTransaction))
		}),
		column(confirmed, func(s settling) bool { return s.before.Kind == operation.Activate }), at)
	batch.Queue(`
		INSERT INTO cycles (subscriber_id, seq, operation_id, plan_id, starts_at, ends_at, created_at)
		SELECT v.subscriber_id, coalesce((SELECT max(c.seq) FROM cycles c WHERE c.subscriber_id = v.subscriber_id COLLATE "C"), 0) + 1,
		       v.operation_id, v.plan_id, v.starts_at, v.ends_at, v.at
		  FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[]) AS v (subscriber_id, operation_id, plan_id, starts_at, ends_at, at)`,
		subscribers,
		column(confirmed, func(s settling) string { return s.OperationID }),
		column(confirmed, func(s settling) string { return s.before.PlanID }),
		column(confirmed, func(s settling) int64 { return s.before.CycleStartsAt.UnixMilli() }), ends, at)
}

// charge queues that what was held leaves the ledgers, and that the MSO earns.
func charge(batch *pgx.Batch, confirmed []settling) {
	if len(confirmed) == 0 {
		return
	}
	sums, turns := purses(confirmed, func(s settling) (int64, int64) { return s.before.OperatorID, s.before.Amount.Paise() })
	batch.Queue(`
		WITH charged AS (
		     UPDATE wallets w SET ledger_paise = w.ledger_paise - v.paise, ledger_lines = w.ledger_lines + v.facts
		       FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS v (operator_id, paise, facts)
		      WHERE w.operator_id = v.operator_id
		     RETURNING w.operator_id, w.ledger_paise, w.ledger_lines),
		purses AS (
		     SELECT array_agg(ledger_lines ORDER BY operator_id) AS lines, array_agg(ledger_paise ORDER BY operator_id) AS sums, count(*) AS charged
		       FROM charged),
		charges AS (
		     SELECT v.*, p.lines[v.purse] - v.later AS line, p.sums[v.purse] + v.later_paise AS balance_after
		       FROM purses p,
		            unnest($4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[])
		         AS v (operation_id, operator_id, paise, description, commission_paise, rate_bps, at, purse, later, later_paise)),
		earned AS (
		     INSERT INTO commissions (operation_id, operator_id, amount_paise, rate_bps, created_at)
		     SELECT operation_id, operator_id, commission_paise, rate_bps, at FROM charges),
		entered AS (
		     INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, operation_id, created_at)
		     SELECT operator_id, line, 'debit', paise, balance_after, description, operation_id, at FROM charges)
		SELECT 1 / (charged = cardinality($1))::int FROM purses`,
		column(sums, func(p purse) int64 { return p.operatorID }),
		column(sums, func(p purse) int64 { return p.paise }),
		column(sums, func(p purse) int64 { return p.facts }),
		column(confirmed, func(s settling) string { return s.OperationID }),
		column(confirmed, func(s settling) int64 { return s.before.OperatorID }),
		column(confirmed, func(s settling) int64 { return s.before.Amount.Paise() }),
		column(confirmed, func(s settling) string { return s.before.LedgerText() }),
		column(confirmed, func(s settling) int64 {
			return subscription.Commission(s.before.Amount, s.before.CommissionBPS).Paise()
		}),
		column(confirmed, func(s settling) int64 { return int64(s.before.CommissionBPS) }),
		column(confirmed, func(s settling) int64 { return s.At.UnixMilli() }),
		column(turns, func(t turn) int64 { return t.purse }),
		column(turns, func(t turn) int64 { return t.later }),
		column(turns, func(t turn) int64 { return t.laterPaise }))
}

// letGo queues that a customer is free again: of an activation that failed nothing
// remains but the operation itself.
func letGo(batch *pgx.Batch, s settling) {
	leaving := `UPDATE subscribers SET version = version + 1 WHERE id = ANY ($1::text[]) RETURNING id`
	if s.before.Kind == operation.Activate {
		leaving = `DELETE FROM subscribers WHERE id = ANY ($1::text[]) AND expires_at IS NULL RETURNING id`
	}
	batch.Queue(`WITH leaving AS (`+leaving+`) `+guarded(`SELECT FROM leaving`), []string{s.before.SubscriberID})
}

// giveBack queues that the money goes back.
func giveBack(batch *pgx.Batch, s settling) {
	batch.Queue(`
		WITH refunded AS (
		     UPDATE wallets SET balance_paise = balance_paise + $2, entries = entries + 1
		      WHERE operator_id = $1
		     RETURNING balance_paise, entries)
		INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, actor, created_at)
		SELECT $1, entries, 'refund', $2, balance_paise, $3::text, $4::text, $5::bigint FROM refunded`,
		s.before.OperatorID, s.before.Amount.Paise(), s.before.ID, cmp.Or(s.Actor, s.before.Actor), s.At.UnixMilli())
}
