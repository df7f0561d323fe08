package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Settle moves an operation that is still open in the given hands. Everything
// that follows from it is written in the same stroke: money, books, commission,
// subscriber, history, evidence. It takes two round trips: the operation is
// locked and looked at, and then everything is written.
func (db *DB) Settle(ctx context.Context, s operation.Settlement) (operation.Operation, bool, error) {
	var op operation.Operation
	var settled bool
	err := db.pipelined(ctx, func(p *pipe) error {
		var before operation.Operation
		looking := &pgx.Batch{}
		looking.Queue(`SELECT `+operationColumns+` FROM operations WHERE id = $1 FOR NO KEY UPDATE`, s.OperationID).
			QueryRow(func(row pgx.Row) (err error) {
				before, err = readOperation(row)
				return err
			})
		if err := p.send(looking); err != nil {
			return err
		}
		writing := &pgx.Batch{}
		settled = settle(writing, before, s, &op)
		return p.commitAt(writing, func() error { return failpoint.Hit("S.in") })
	})
	if errors.Is(err, sql.ErrNoRows) {
		return operation.Operation{}, false, fmt.Errorf("there is no operation %s", s.OperationID)
	}
	if err != nil {
		return operation.Operation{}, false, fmt.Errorf("settle %s: %w", s.OperationID, err)
	}
	return op, settled, nil
}

// settle queues everything that a settlement writes, if the operation, whose row
// is locked, is open in the hands that it names. The operation as it then stands
// is put into op when the answers are read.
func settle(batch *pgx.Batch, before operation.Operation, s operation.Settlement, op *operation.Operation) bool {
	if before.Epoch != s.Epoch || !before.State.CanBecome(s.To) {
		*op = before
		keepWord(batch, before, s)
		return false
	}
	moveOperation(batch, s, op)
	switch s.To {
	case operation.Success:
		succeed(batch, before, s)
	case operation.Failed:
		refund(batch, before, s)
	}
	writeCalls(batch, s.OperationID, s.Node, s.Calls)
	event(batch, before.ID, before.State, s.To, s.Epoch, s.Node, s.Actor, s.Why, s.At.UnixMilli())
	return true
}

// keepWord queues what the provider said where somebody else has settled the
// operation, or holds it now: it is evidence all the same.
func keepWord(batch *pgx.Batch, op operation.Operation, s operation.Settlement) {
	if s.Repeats(op) {
		return // it was kept the first time
	}
	if e, contradicts := s.Contradicts(op); contradicts {
		raiseException(batch, e)
	}
	writeCalls(batch, s.OperationID, s.Node, s.Calls)
}

func moveOperation(batch *pgx.Batch, s operation.Settlement, op *operation.Operation) {
	// checks counts from the beginning for what comes after the settlement.
	var completed, review any
	if s.To.Open() {
		review = s.At.UnixMilli()
	} else {
		completed = s.At.UnixMilli()
	}
	batch.Queue(`
		UPDATE operations
		   SET status = $3, completed_at = $4, review_since = coalesce(review_since, $5::bigint), lease_until = NULL,
		       next_check_at = $6, checks = 0, needs_person = 0,
		       provider_transaction_id = coalesce($7::text, provider_transaction_id), reason = $8, provider_message = $9,
		       addon_status = CASE WHEN addon IS NULL THEN NULL ELSE coalesce($10::text, addon_status) END, addon_next_at = $11,
		       addon_attempt = greatest(addon_attempt, $12)
		 WHERE id = $1 AND epoch = $2 AND status IN ('processing', 'needs_review')
		RETURNING `+operationColumns,
		s.OperationID, s.Epoch, s.To, completed, review, millis(s.NextCheckAt),
		textOrNull(s.ProviderTransaction), textOrNull(string(s.Reason)), s.ProviderMessage,
		textOrNull(string(s.AddonState)), millis(s.AddonNextAt), s.AddonAttempt,
	).QueryRow(func(row pgx.Row) (err error) {
		*op, err = readOperation(row)
		return err
	})
}

// succeed queues what a confirmed operation means: the subscription runs, the
// charge leaves the ledger, the MSO earns. The subscriber comes before the wallet,
// as in a reservation: rows are locked in one order everywhere.
func succeed(batch *pgx.Batch, op operation.Operation, s operation.Settlement) {
	at := s.At.UnixMilli()
	stamp := `renewed_at = $4`
	if op.Kind == operation.Activate {
		stamp = `activated_at = $4`
	}
	batch.Queue(`
		WITH running AS (
		     UPDATE subscribers
		        SET expires_at = $2, last_provider_transaction = coalesce($3::text, last_provider_transaction), `+stamp+`, version = version + 1
		      WHERE id = $1
		     RETURNING id)
		`+guarded(`SELECT FROM running`),
		op.SubscriberID, op.ExpiryPlanned.UnixMilli(), textOrNull(cmp.Or(s.ProviderTransaction, op.ProviderTransaction)), at)
	batch.Queue(`
		INSERT INTO cycles (subscriber_id, seq, operation_id, plan_id, starts_at, ends_at, created_at)
		SELECT $1, coalesce(max(seq), 0) + 1, $2::text, $3::text, $4::bigint, $5::bigint, $6::bigint FROM cycles WHERE subscriber_id = $1`,
		op.SubscriberID, op.ID, op.PlanID, op.CycleStartsAt.UnixMilli(), op.ExpiryPlanned.UnixMilli(), at)
	batch.Queue(`
		WITH charged AS (
		     UPDATE wallets SET ledger_paise = ledger_paise - $2, ledger_lines = ledger_lines + 1
		      WHERE operator_id = $1
		     RETURNING ledger_paise, ledger_lines),
		earned AS (
		     INSERT INTO commissions (operation_id, operator_id, amount_paise, rate_bps, created_at)
		     SELECT $4::text, $1, $6::bigint, $7::bigint, $5::bigint FROM charged)
		INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, operation_id, created_at)
		SELECT $1, ledger_lines, 'debit', $2, ledger_paise, $3::text, $4::text, $5::bigint FROM charged`,
		op.OperatorID, op.Amount.Paise(), op.LedgerText(), op.ID, at,
		subscription.Commission(op.Amount, op.CommissionBPS).Paise(), op.CommissionBPS)
}

// refund queues that the customer is let go of and the money goes back: of an
// activation that failed nothing remains but the operation itself.
func refund(batch *pgx.Batch, op operation.Operation, s operation.Settlement) {
	leaving := `UPDATE subscribers SET version = version + 1 WHERE id = $1 RETURNING id`
	if op.Kind == operation.Activate {
		leaving = `DELETE FROM subscribers WHERE id = $1 AND expires_at IS NULL RETURNING id`
	}
	batch.Queue(`WITH leaving AS (`+leaving+`) `+guarded(`SELECT FROM leaving`), op.SubscriberID)
	batch.Queue(`
		WITH refunded AS (
		     UPDATE wallets SET balance_paise = balance_paise + $2, entries = entries + 1
		      WHERE operator_id = $1
		     RETURNING balance_paise, entries)
		INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, actor, created_at)
		SELECT $1, entries, 'refund', $2, balance_paise, $3::text, $4::text, $5::bigint FROM refunded`,
		op.OperatorID, op.Amount.Paise(), op.ID, cmp.Or(s.Actor, op.Actor), s.At.UnixMilli())
}

func writeCalls(batch *pgx.Batch, operationID, node string, calls []operation.ProviderCall) {
	for _, call := range calls {
		batch.Queue(`
			INSERT INTO provider_calls (operation_id, reference, kind, component, outcome, provider_transaction_id, detail, node, asked_at, answered_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			operationID, call.Reference, call.What, call.Component, call.Answer.Verdict.String(), textOrNull(call.Answer.Transaction),
			// Our own word for staff, or else the provider's for people.
			cmp.Or(call.Answer.Detail, call.Answer.Message), node, call.AskedAt.UnixMilli(), millis(call.AnsweredAt))
	}
}
