package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// Settle moves an operation that is still open under the given epoch. Wallet, ledger,
// commission, subscriber, history and provider calls are written in the same commit.
func (db *DB) Settle(ctx context.Context, s operation.Settlement) (operation.Operation, bool, error) {
	var op operation.Operation
	var settled bool
	err := db.writer.do(ctx, func(tx *tx) error {
		before, err := held(tx, s)
		if err != nil {
			return err
		}
		if op, settled, err = settle(tx, before, s); err != nil {
			return err
		}
		return failpoint.Hit("S.in")
	})
	if err != nil {
		return operation.Operation{}, false, err
	}
	return op, settled, nil
}

// held returns the current operation of a settlement. If the caller passed the operation
// that it holds, checking epoch and status is enough: nothing else changes without them.
func held(tx *tx, s operation.Settlement) (operation.Operation, error) {
	if s.LastRead != nil && s.AppliesTo(*s.LastRead) {
		var still bool
		err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM operations WHERE id = ?1 AND epoch = ?2 AND status = ?3)`,
			s.OperationID, s.Epoch, s.LastRead.State).Scan(&still)
		if err != nil || still {
			return *s.LastRead, err
		}
	}
	op, found, err := sqlstore.OneOperation(tx, `operations WHERE id = ?1`, s.OperationID)
	if err == nil && !found {
		err = fmt.Errorf("there is no operation %s", s.OperationID)
	}
	return op, err
}

// settle moves an operation, if it is open under the settlement's epoch, and writes
// everything that follows.
func settle(tx *tx, before operation.Operation, s operation.Settlement) (operation.Operation, bool, error) {
	if !s.AppliesTo(before) {
		return before, false, saveCalls(tx, before, s)
	}
	op := s.Apply(before)
	if err := moveOperation(tx, s); err != nil {
		return op, false, err
	}
	var err error
	switch s.To {
	case operation.Success:
		err = succeed(tx, op)
	case operation.Failed:
		err = refund(tx, op, s)
	}
	if err != nil {
		return op, false, err
	}
	if before.State == operation.NeedsReview {
		if err := raiseContradictions(tx, op, s); err != nil {
			return op, false, err
		}
	}
	if err := writeCalls(tx, s.OperationID, s.Node, s.Calls); err != nil {
		return op, false, err
	}
	err = writeEvent(tx, op.ID, before.State, s.To, s.Epoch, s.Node, s.Actor, s.Why, s.At.UnixMilli())
	return op, err == nil, err
}

// saveCalls saves the provider calls of a settlement that came too late: another node has
// settled the operation, or holds it now.
func saveCalls(tx *tx, op operation.Operation, s operation.Settlement) error {
	if s.AlreadyApplied(op) {
		return nil // they were saved the first time
	}
	for _, e := range s.LateExceptions(op) {
		if err := raiseException(tx, e); err != nil {
			return err
		}
	}
	return writeCalls(tx, s.OperationID, s.Node, s.Calls)
}

// raiseContradictions compares the settlement with the replies that the provider gave to
// nodes that no longer owned the operation.
func raiseContradictions(tx *tx, op operation.Operation, s operation.Settlement) error {
	rows, err := tx.Query(`
		SELECT outcome, coalesce(provider_transaction_id, ''), detail FROM provider_calls
		 WHERE operation_id = ?1 AND reference = ?1 AND outcome <> 'unknown' ORDER BY id`, op.ID)
	replies, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (a operation.Reply, err error) {
		var outcome string
		err = row.Scan(&outcome, &a.Transaction, &a.Message)
		a.Outcome = operation.ParseOutcome(outcome)
		return a, err
	})
	if err != nil {
		return fmt.Errorf("read the provider's replies for %s: %w", op.ID, err)
	}
	for _, e := range s.ReplyExceptions(op, replies) {
		if err := raiseException(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// moveOperation writes what Settlement.Apply computes. It has no RETURNING: SQLite
// would build a table for it, which costs more than the update.
func moveOperation(tx *tx, s operation.Settlement) error {
	var completed, review any
	if s.To.Open() {
		review = s.At.UnixMilli()
	} else {
		completed = s.At.UnixMilli()
	}
	changed, err := tx.Exec(`
		UPDATE operations
		   SET status = ?3, completed_at = ?4, review_since = coalesce(review_since, ?5), lease_until = NULL,
		       next_check_at = ?6, checks = 0, needs_person = 0,
		       provider_transaction_id = coalesce(?7, provider_transaction_id), reason = ?8, provider_message = ?9,
		       addon_status = CASE WHEN addon IS NULL THEN NULL ELSE coalesce(?10, addon_status) END, addon_next_at = ?11,
		       addon_attempt = max(addon_attempt, ?12)
		 WHERE id = ?1 AND epoch = ?2 AND status IN ('processing', 'needs_review')`,
		s.OperationID, s.Epoch, s.To, completed, review, sqlstore.Millis(s.NextCheckAt),
		sqlstore.NullString(s.ProviderTransaction), sqlstore.NullString(string(s.Reason)), s.ProviderMessage,
		sqlstore.NullString(string(s.AddonState)), sqlstore.Millis(s.AddonNextAt), s.AddonAttempt)
	if err == nil && changed != 1 {
		err = errors.New("it is not open under this epoch")
	}
	if err != nil {
		return fmt.Errorf("move operation %s: %w", s.OperationID, err)
	}
	return nil
}

// succeed writes the ledger line with its receipt number, the commission and the new
// subscription of a confirmed operation.
func succeed(tx *tx, op operation.Operation) error {
	sum, line, receipt, err := chargeWallet(tx, op)
	if err != nil {
		return fmt.Errorf("charge the ledger: %w", err)
	}
	at := op.CompletedAt.UnixMilli()
	_, err = tx.Exec(`
		INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, operation_id, created_at, receipt)
		VALUES (?1, ?2, 'debit', ?3, ?4, ?5, ?6, ?7, ?8)`,
		op.OperatorID, line, op.Amount.Paise(), sum, op.LedgerText(), op.ID, at, receipt)
	if err != nil {
		return fmt.Errorf("write the ledger line: %w", err)
	}
	_, err = tx.Exec(`
		INSERT INTO commissions (operation_id, operator_id, amount_paise, rate_bps, created_at) VALUES (?1, ?2, ?3, ?4, ?5)`,
		op.ID, op.OperatorID, subscription.Commission(op.Amount, op.CommissionBPS).Paise(), op.CommissionBPS, at)
	if err != nil {
		return fmt.Errorf("write the commission: %w", err)
	}
	return extendSubscription(tx, op)
}

// chargeWallet takes the price from the ledger's sum, and returns what the new ledger line has:
// the sum, its number, and the number of the receipt.
func chargeWallet(tx *tx, op operation.Operation) (sum, line, receipt int64, err error) {
	year := subscription.FinancialYear(op.CompletedAt)
	charge := func() (int64, error) {
		return tx.Exec(`
			UPDATE wallets
			   SET ledger_paise = ledger_paise - ?2, ledger_lines = ledger_lines + 1, receipts = receipts + 1,
			       receipt_lines = receipt_lines + (receipt_lines = ledger_lines)
			 WHERE operator_id = ?1 AND receipt_year = ?3`, op.OperatorID, op.Amount.Paise(), year)
	}
	charged, err := charge()
	if err == nil && charged == 0 {
		// The count of the wallet's year goes to the past years, and that of this year comes from there.
		_, err = tx.Exec(`
			UPDATE wallets
			   SET receipts = coalesce(json_extract(receipts_past, '$."' || ?2 || '"'), 0), receipt_year = ?2,
			       receipts_past = json_remove(json_set(receipts_past, '$."' || receipt_year || '"', receipts), '$."' || ?2 || '"', '$."0"')
			 WHERE operator_id = ?1`, op.OperatorID, year)
		if err == nil {
			_, err = charge()
		}
	}
	if err != nil {
		return 0, 0, 0, err
	}
	err = tx.QueryRow(`SELECT ledger_paise, ledger_lines, receipts FROM wallets WHERE operator_id = ?1`, op.OperatorID).Scan(&sum, &line, &receipt)
	return sum, line, receipt, err
}

// extendSubscription gives the subscriber the new expiry and cycle.
func extendSubscription(tx *tx, op operation.Operation) error {
	stamp := `renewed_at = ?4`
	if op.Kind == operation.Activate {
		stamp = `activated_at = ?4`
	}
	changed, err := tx.Exec(`
		UPDATE subscribers
		   SET expires_at = ?2, last_provider_transaction = coalesce(?3, last_provider_transaction), `+stamp+`, version = version + 1
		 WHERE id = ?1`, op.SubscriberID, op.ExpiryPlanned.UnixMilli(), sqlstore.NullString(op.ProviderTransaction), op.CompletedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("extend the subscription: %w", err)
	}
	if changed != 1 {
		return fmt.Errorf("extend the subscription: there is no subscriber %s", op.SubscriberID)
	}
	_, err = tx.Exec(`
		INSERT INTO cycles (subscriber_id, seq, operation_id, plan_id, starts_at, ends_at, created_at)
		VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM cycles WHERE subscriber_id = ?1), ?2, ?3, ?4, ?5, ?6)`,
		op.SubscriberID, op.ID, op.PlanID, op.CycleStartsAt.UnixMilli(), op.ExpiryPlanned.UnixMilli(), op.CompletedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("write the cycle: %w", err)
	}
	return nil
}

// refund returns the amount to the wallet and releases the subscriber. The subscriber of a
// failed activation is deleted; only the operation remains.
func refund(tx *tx, op operation.Operation, s operation.Settlement) error {
	var after, seq int64
	_, err := tx.Exec(`UPDATE wallets SET balance_paise = balance_paise + ?2, entries = entries + 1 WHERE operator_id = ?1`,
		op.OperatorID, op.Amount.Paise())
	if err == nil {
		err = tx.QueryRow(`SELECT balance_paise, entries FROM wallets WHERE operator_id = ?1`, op.OperatorID).Scan(&after, &seq)
	}
	if err != nil {
		return fmt.Errorf("refund the wallet: %w", err)
	}
	actor := s.Actor
	if actor == "" {
		actor = op.Actor
	}
	_, err = tx.Exec(`
		INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, actor, created_at)
		VALUES (?1, ?2, 'refund', ?3, ?4, ?5, ?6, ?7)`,
		op.OperatorID, seq, op.Amount.Paise(), after, op.ID, actor, op.CompletedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("write the wallet entry: %w", err)
	}
	var changed int64
	if op.Kind != operation.Activate {
		changed, err = tx.Exec(`UPDATE subscribers SET version = version + 1 WHERE id = ?1`, op.SubscriberID)
	} else {
		changed, err = tx.Exec(`DELETE FROM subscribers WHERE id = ?1 AND expires_at IS NULL`, op.SubscriberID)
	}
	if err == nil && changed != 1 {
		err = fmt.Errorf("there is no subscriber %s", op.SubscriberID)
	}
	if err != nil {
		return fmt.Errorf("release the subscriber: %w", err)
	}
	return nil
}

func writeCalls(tx *tx, operationID, node string, calls []operation.ProviderCall) error {
	for _, call := range calls {
		// Our own text for staff, or else the provider's for customers.
		detail := call.Reply.Detail
		if detail == "" {
			detail = call.Reply.Message
		}
		_, err := tx.Exec(`
			INSERT INTO provider_calls (operation_id, reference, kind, component, outcome, provider_transaction_id, detail, node, asked_at, answered_at)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`,
			operationID, call.Reference, call.What, call.Component, call.Reply.Outcome.String(), sqlstore.NullString(call.Reply.Transaction),
			detail, node, call.AskedAt.UnixMilli(), sqlstore.Millis(call.AnsweredAt))
		if err != nil {
			return fmt.Errorf("save a provider call: %w", err)
		}
		if e, mismatch := call.Mismatch(operationID); mismatch {
			if err := raiseException(tx, e); err != nil {
				return err
			}
		}
	}
	return nil
}
