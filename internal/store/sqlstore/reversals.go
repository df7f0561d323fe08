package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

const reversalColumns = `reference, operation_id, operator_id, subscriber_id, amount_paise, commission_paise, status, actor, reason,
	requested_at, asks, asked_at, next_at, completed_at, coalesce(provider_transaction_id, ''), message, unsupported = 1, by_person = 1, voided = 1`

func readReversal(row Row) (r operation.Reversal, err error) {
	var amount, commission int64
	var requested, asked, next, completed sql.NullInt64
	err = row.Scan(&r.Reference, &r.OperationID, &r.OperatorID, &r.SubscriberID, &amount, &commission, &r.State, &r.Actor, &r.Reason,
		&requested, &r.Asks, &asked, &next, &completed, &r.ProviderTransaction, &r.Message, &r.Unsupported, &r.ByPerson, &r.Voided)
	r.Amount, r.Commission = money.Paise(amount), money.Paise(commission)
	r.RequestedAt, r.AskedAt, r.NextAt, r.CompletedAt = Time(requested), Time(asked), Time(next), Time(completed)
	return r, err
}

// reversalsOf reads the reversals of an operation, oldest first; all but the last were refused.
func reversalsOf(from Querier, operationID string) ([]operation.Reversal, error) {
	rows, err := from.Query(`SELECT `+reversalColumns+` FROM reversals WHERE operation_id = $1`, operationID)
	all, err := Collect(rows, err, readReversal)
	if err != nil {
		return nil, fmt.Errorf("read the reversals of %s: %w", operationID, err)
	}
	last := func(r operation.Reversal) int {
		if r.State == operation.ReversalRefused {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b operation.Reversal) int {
		return cmp.Or(cmp.Compare(last(a), last(b)), a.RequestedAt.Compare(b.RequestedAt), cmp.Compare(a.Reference, b.Reference))
	})
	return all, nil
}

// Reversals reads the open reversals, those of a period, or the latest; their references begin with the
// time.
func (db *Store) Reversals(ctx context.Context, filter admin.ReversalFilter) ([]operation.Reversal, error) {
	var stmt statement
	stmt.add(`SELECT ` + reversalColumns + ` FROM reversals `)
	switch {
	case filter.Open:
		stmt.add(`WHERE completed_at IS NULL ORDER BY requested_at, reference`)
	case !filter.From.IsZero():
		stmt.add(`WHERE status = 'reversed' AND completed_at >= ? AND completed_at < ?`, filter.From.UnixMilli(), filter.Before.UnixMilli())
		if filter.OperatorID != 0 {
			stmt.add(` AND operator_id = ?`, filter.OperatorID)
		}
		stmt.add(` ORDER BY completed_at, reference`)
	case filter.After != "":
		stmt.add(`WHERE reference < ? ORDER BY reference DESC`, filter.After)
	default:
		stmt.add(`ORDER BY reference DESC`)
	}
	stmt.add(` LIMIT ?`, filter.Limit)
	rows, err := db.engine.Read(ctx).Query(stmt.text, stmt.args...)
	return Collect(rows, err, readReversal)
}

// Reversal reads a reversal by its reference.
func (db *Store) Reversal(ctx context.Context, reference string) (operation.Reversal, error) {
	return reversalByReference(db.engine.Read(ctx), reference, "")
}

func reversalByReference(from Querier, reference, lock string) (operation.Reversal, error) {
	r, err := readReversal(from.QueryRow(`SELECT `+reversalColumns+` FROM reversals WHERE reference = $1`+lock, reference))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r, admin.Refuse("there is no reversal %s", reference)
	case err != nil:
		return r, fmt.Errorf("read the reversal %s: %w", reference, err)
	}
	return r, nil
}

// PendingReversal reads the reversal of an operation that the provider is asked about, or is told never to
// carry out.
func (db *Store) PendingReversal(ctx context.Context, operationID string) (operation.Reversal, bool, error) {
	all, err := reversalsOf(db.engine.Read(ctx), operationID)
	for _, r := range all {
		if !r.NextAt.IsZero() {
			return r, true, nil
		}
	}
	return operation.Reversal{}, false, err
}

// ReversalSnapshot reads what decides whether an operation can be reversed.
func (db *Store) ReversalSnapshot(ctx context.Context, transactionID string) (f admin.ReversalSnapshot, err error) {
	err = db.engine.Snapshot(ctx, func(from Querier) error {
		f, err = reversalSnapshot(from, db.dialect, transactionID, "")
		return err
	})
	return f, err
}

// reversalSnapshot reads the operation and then its subscriber with a lock, in a transaction that writes.
func reversalSnapshot(from Querier, dialect *Dialect, id, lock string) (f admin.ReversalSnapshot, err error) {
	op, found, err := OneOperation(from, `operations WHERE id = $1`+lock, id)
	if err != nil {
		return f, err
	}
	if !found {
		return f, admin.Refuse("there is no transaction %s", id)
	}
	f.Operation = op
	p, err := personByID(from, op.SubscriberID, lock)
	var missing *admin.Refusal
	switch {
	case errors.As(err, &missing):
		f.Forgotten = true
	case err != nil:
		return f, err
	default:
		f.Forgotten = subscription.IsForgotten(p.mobile) || p.operatorID != op.OperatorID
	}
	reversals, err := reversalsOf(from, id)
	if err != nil {
		return f, err
	}
	for _, r := range reversals {
		if r.State != operation.ReversalRefused {
			f.Reversal = &r
		}
		if r.MayBeCarriedOut() {
			f.Reopens = &r
		}
	}
	var unsupported, completed sql.NullInt64
	err = from.QueryRow(`
		SELECT coalesce((SELECT c.operation_id FROM cycles c WHERE c.subscriber_id = $1 ORDER BY c.seq DESC LIMIT 1), ''),
		       coalesce((SELECT o.id FROM operations o WHERE o.subscriber_id = $1 AND o.status IN ('processing', 'needs_review') LIMIT 1),
		                (SELECT s.reversing FROM subscribers s WHERE s.id = $1), ''),
		       coalesce((SELECT min(x.id) FROM exceptions x WHERE x.operation_id = $2 AND x.closed_at IS NULL), 0),
		       (SELECT r.unsupported FROM reversals r WHERE r.completed_at > 0 ORDER BY r.completed_at DESC LIMIT 1),
		       (SELECT r.completed_at FROM reversals r WHERE r.completed_at > 0 ORDER BY r.completed_at DESC LIMIT 1)`,
		op.SubscriberID, id).Scan(&f.Newest, &f.OpenOperation, &f.OpenException, &unsupported, &completed)
	if err != nil {
		return f, fmt.Errorf("read what depends on %s: %w", id, err)
	}
	if unsupported.Int64 == 1 {
		f.UnsupportedAt = Time(completed)
	}
	operator, err := operatorByID(from, op.OperatorID)
	if err != nil {
		return f, err
	}
	f.OperatorDeleted = operator.Status == subscription.OperatorDeleted
	if !dialect.OneNode {
		// An older node would begin another operation of the subscriber meanwhile.
		_, f.OlderNodes, err = dialect.LiveNodes(from, nil, op.CompletedAt)
	}
	return f, err
}

// RequestReversal records that an operation is to be reversed: a node asks the provider.
func (db *Store) RequestReversal(ctx context.Context, action admin.StaffAction, request admin.ReversalRequest) (r operation.Reversal, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		if r, err = requestReversal(tx, action, request); err != nil {
			return err
		}
		if err := countUnapproved(tx, action, r.OperatorID, r.Amount); err != nil {
			return err
		}
		return failpoint.Hit("X.requested")
	})
	return r, err
}

func requestReversal(tx Tx, action admin.StaffAction, request admin.ReversalRequest) (r operation.Reversal, err error) {
	// The operator is locked first, as by every staff action that moves its money.
	known, found, err := OneOperation(tx, `operations WHERE id = $1`, request.TransactionID)
	if err != nil {
		return r, err
	}
	if !found {
		return r, admin.Refuse("there is no transaction %s", request.TransactionID)
	}
	if _, err := undeletedOperator(tx, known.OperatorID); err != nil {
		return r, err
	}
	facts, err := reversalSnapshot(tx, tx.Dialect(), request.TransactionID, ` FOR NO KEY UPDATE`)
	if err != nil {
		return r, err
	}
	if refusal := facts.Refusal(action.At, request.MaxAge); refusal != nil {
		return r, refusal
	}
	op := facts.Operation
	var commission int64
	if err := tx.QueryRow(`SELECT amount_paise FROM commissions WHERE operation_id = $1`, op.ID).Scan(&commission); err != nil {
		return r, fmt.Errorf("read the commission of %s: %w", op.ID, err)
	}
	r = operation.Reversal{
		Reference: request.Reference, OperationID: op.ID, OperatorID: op.OperatorID, SubscriberID: op.SubscriberID, Amount: op.Amount,
		Commission: money.Paise(commission), State: operation.ReversalRequested, Actor: action.Actor, Reason: action.Reason,
		RequestedAt: action.At, NextAt: action.At,
	}
	var before map[string]any
	if reopened := facts.Reopens; reopened != nil {
		before = admin.ReversalState(*reopened)
		r.Reference = reopened.Reference
		if r, err = reopenReversal(tx, r); err != nil {
			return r, err
		}
	} else {
		_, err = tx.Exec(`
			INSERT INTO reversals (reference, operation_id, operator_id, subscriber_id, amount_paise, commission_paise, status, actor, reason, requested_at, next_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)`,
			r.Reference, r.OperationID, r.OperatorID, r.SubscriberID, r.Amount.Paise(), r.Commission.Paise(), string(r.State), r.Actor, r.Reason, r.RequestedAt.UnixMilli())
		if err != nil {
			return r, fmt.Errorf("record the reversal of %s: %w", op.ID, err)
		}
	}
	// The new version refuses a draft that was made before.
	changed, err := tx.Exec(`UPDATE subscribers SET reversing = $2, version = version + 1 WHERE id = $1 AND reversing IS NULL`, op.SubscriberID, op.ID)
	if err == nil && changed != 1 {
		err = operation.ErrReversalChanged
	}
	if err != nil {
		return r, fmt.Errorf("claim subscriber %s: %w", op.SubscriberID, err)
	}
	return r, logAction(tx, action, op.OperatorID, admin.ReversalSubject(op.ID), before, admin.ReversalState(r))
}

// reopenReversal asks for a reversal again that a person has settled as not undone and the provider may
// carry out all the same. It keeps its reference, so that the provider's answer settles it whatever has
// happened there.
func reopenReversal(tx Tx, r operation.Reversal) (operation.Reversal, error) {
	// It was asked before, or told never to carry it out: no call that never left proves anything.
	_, err := tx.Exec(`
		UPDATE reversals SET status = CASE WHEN asks > 0 THEN 'asked' ELSE 'requested' END, actor = $2, reason = $3, requested_at = $4, next_at = $4,
		       asked_at = NULL, completed_at = NULL, provider_transaction_id = NULL, message = '', by_person = 0
		 WHERE reference = $1`, r.Reference, r.Actor, r.Reason, r.RequestedAt.UnixMilli())
	if err != nil {
		return r, fmt.Errorf("ask again for the reversal of %s: %w", r.OperationID, err)
	}
	return reversalByReference(tx, r.Reference, "")
}

// checkReversible refuses a proposal that names no operation of its operator; whether that can be
// reversed is checked when the proposal is made, and again when it is approved.
func checkReversible(tx Tx, p admin.Proposal) error {
	op, found, err := OneOperation(tx, `operations WHERE id = $1`, p.TransactionID)
	if err == nil && (!found || op.OperatorID != p.OperatorID) {
		err = admin.Refuse("there is no transaction %s", p.TransactionID)
	}
	return err
}

// checkSettleable refuses a proposal that names no open reversal of its operator.
func checkSettleable(tx Tx, p admin.Proposal) error {
	r, err := reversalByReference(tx, p.TransactionID, "")
	if err == nil && r.OperatorID != p.OperatorID {
		err = admin.Refuse("there is no reversal %s", p.TransactionID)
	}
	if err != nil {
		return err
	}
	if refusal := (admin.ReversalSettlement{Reference: r.Reference, Undone: p.Confirm}).Refusal(r, p.MadeAt); refusal != nil {
		return refusal
	}
	return nil
}

// ClaimReversals claims pending reversals that are due, and returns their operations.
func (db *Store) ClaimReversals(ctx context.Context, c operation.Claim) (claimed []operation.Operation, err error) {
	held := []string{}
	for _, ids := range c.Held {
		held = append(held, ids...)
	}
	err = db.engine.Write(ctx, func(tx Tx) error {
		claimed = nil
		rows, err := tx.Query(`
			SELECT reference, operation_id FROM reversals
			 WHERE next_at IS NOT NULL AND next_at <= $1 AND NOT operation_id = ANY ($3::text[])
			 ORDER BY next_at LIMIT $2`, c.Now.UnixMilli(), c.Limit, held)
		due, err := Collect(rows, err, func(row Row) (r operation.Reversal, err error) {
			err = row.Scan(&r.Reference, &r.OperationID)
			return r, err
		})
		if err != nil {
			return fmt.Errorf("look for due reversals: %w", err)
		}
		for _, r := range due {
			// Another node may have claimed it meanwhile.
			changed, err := tx.Exec(`
				UPDATE reversals SET status = CASE WHEN status = 'requested' THEN 'asked' ELSE status END,
				       asks = asks + 1, asked_at = coalesce(asked_at, $3), next_at = $2
				 WHERE reference = $1 AND next_at IS NOT NULL AND next_at <= $3`,
				r.Reference, c.Until.UnixMilli(), c.Now.UnixMilli())
			if err != nil {
				return fmt.Errorf("claim the reversal %s: %w", r.Reference, err)
			}
			if changed == 0 {
				continue
			}
			op, found, err := OneOperation(tx, `operations WHERE id = $1`, r.OperationID)
			if err == nil && !found {
				err = fmt.Errorf("there is no operation %s", r.OperationID)
			}
			if err != nil {
				return err
			}
			claimed = append(claimed, op)
		}
		return nil
	})
	return claimed, err
}

// SettleReversal saves what came of asking the provider.
func (db *Store) SettleReversal(ctx context.Context, a operation.ReversalAnswer) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		op, found, err := OneOperation(tx, `operations WHERE id = $1 FOR NO KEY UPDATE`, a.OperationID)
		if err == nil && !found {
			err = fmt.Errorf("there is no operation %s", a.OperationID)
		}
		if err != nil {
			return err
		}
		if err := saveReversalCalls(tx, a); err != nil {
			return err
		}
		r, err := reversalByReference(tx, a.Reference, ` FOR NO KEY UPDATE`)
		if err != nil {
			return err
		}
		if !r.State.Open() && !r.NextAt.IsZero() {
			if err := endVoids(tx, a); err != nil {
				return err
			}
		}
		if e, contradicts := r.Contradiction(a); contradicts {
			return raiseContradiction(tx, e)
		}
		if !r.State.Open() {
			return nil // another answer was faster
		}
		// The clock of the node that requested it may be ahead: it counts in no month before that.
		if a.At.Before(r.RequestedAt) {
			a.At = r.RequestedAt
		}
		switch a.State {
		case operation.Reversed:
			err = carryOutReversal(tx, op, r, a, admin.StaffAction{Actor: r.Actor, Action: admin.OperationReversed, Reason: r.Reason, At: a.At})
		case operation.ReversalRefused:
			err = refuseReversal(tx, op, a)
		default:
			err = postponeReversal(tx, a)
		}
		if err != nil {
			return err
		}
		return failpoint.Hit("X.in")
	})
}

// SettleReversalByReview settles a reversal as a person has decided.
func (db *Store) SettleReversalByReview(ctx context.Context, action admin.StaffAction, s admin.ReversalSettlement) (r operation.Reversal, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		if r, err = settleReversalByReview(tx, action, s); err != nil {
			return err
		}
		return countUnapproved(tx, action, r.OperatorID, r.Amount)
	})
	return r, err
}

func settleReversalByReview(tx Tx, action admin.StaffAction, s admin.ReversalSettlement) (operation.Reversal, error) {
	r, err := reversalByReference(tx, s.Reference, "")
	if err != nil {
		return r, err
	}
	// The operator is locked first, as by every staff action that moves its money.
	if _, err := undeletedOperator(tx, r.OperatorID); err != nil {
		return r, err
	}
	op, found, err := OneOperation(tx, `operations WHERE id = $1 FOR NO KEY UPDATE`, r.OperationID)
	if err == nil && !found {
		err = fmt.Errorf("there is no operation %s", r.OperationID)
	}
	if err != nil {
		return r, err
	}
	// The provider may have answered meanwhile.
	if r, err = reversalByReference(tx, s.Reference, ` FOR NO KEY UPDATE`); err != nil {
		return r, err
	}
	if refusal := s.Refusal(r, action.At); refusal != nil {
		return r, refusal
	}
	a := operation.ReversalAnswer{
		Reference: r.Reference, OperationID: op.ID, State: operation.ReversalRefused, At: action.At, Message: operation.NotUndoneByReview, ByPerson: true,
	}
	if s.Undone {
		a.State, a.Message = operation.Reversed, operation.UndoneByReview
		err = carryOutReversal(tx, op, r, a, action)
	} else if err = refuseReversal(tx, op, a); err == nil {
		err = logReversal(tx, op, r, a.State, action)
	}
	if err != nil {
		return r, err
	}
	return reversalByReference(tx, s.Reference, "")
}

func postponeReversal(tx Tx, a operation.ReversalAnswer) error {
	// If an earlier call may have been received, the state stays `asked`.
	_, err := tx.Exec(`
		UPDATE reversals SET next_at = $2,
		       status = CASE WHEN $3::boolean AND asks = 1 THEN 'requested' ELSE status END, asks = CASE WHEN $3::boolean AND asks = 1 THEN 0 ELSE asks END,
		       asked_at = CASE WHEN $3::boolean AND asks = 1 THEN NULL ELSE asked_at END
		 WHERE reference = $1`, a.Reference, a.NextAt.UnixMilli(), a.NotSent)
	if err != nil {
		return fmt.Errorf("postpone the reversal %s: %w", a.Reference, err)
	}
	return nil
}

// endVoids saves what came of telling the provider never to carry out a reversal. Once its answer is
// definite, it is told no more.
func endVoids(tx Tx, a operation.ReversalAnswer) error {
	_, err := tx.Exec(`UPDATE reversals SET next_at = $2, voided = $3::boolean::int WHERE reference = $1`,
		a.Reference, Millis(a.NextAt), a.State == operation.ReversalRefused)
	if err != nil {
		return fmt.Errorf("save whether the reversal %s was called off: %w", a.Reference, err)
	}
	return nil
}

func endReversal(tx Tx, a operation.ReversalAnswer) error {
	next := sql.NullInt64{}
	if a.ByPerson && a.State == operation.ReversalRefused {
		// The provider is told never to carry it out.
		next = sql.NullInt64{Int64: a.At.UnixMilli(), Valid: true}
	}
	_, err := tx.Exec(`
		UPDATE reversals SET status = $2, completed_at = $3, next_at = $9, by_person = $8::boolean::int, provider_transaction_id = $4, message = $5, unsupported = $6::boolean::int,
		       voided = $7::boolean::int
		 WHERE reference = $1`,
		a.Reference, string(a.State), a.At.UnixMilli(), NullString(a.ProviderTransaction), a.Message, a.Unsupported, a.Voided, a.ByPerson, next)
	if err != nil {
		return fmt.Errorf("end the reversal %s: %w", a.Reference, err)
	}
	return nil
}

func refuseReversal(tx Tx, op operation.Operation, a operation.ReversalAnswer) error {
	if err := endReversal(tx, a); err != nil {
		return err
	}
	_, err := tx.Exec(`UPDATE subscribers SET reversing = NULL, version = version + 1 WHERE id = $1 AND reversing = $2`, op.SubscriberID, op.ID)
	if err != nil {
		return fmt.Errorf("release subscriber %s: %w", op.SubscriberID, err)
	}
	return nil
}

// carryOutReversal writes everything that goes back once the provider has undone the order: as the
// action of who asked for it, or of the person who settled it. Rows are locked in the order of every
// settlement: operation, subscriber, wallet.
func carryOutReversal(tx Tx, op operation.Operation, r operation.Reversal, a operation.ReversalAnswer, action admin.StaffAction) error {
	at := a.At.UnixMilli()
	if err := endReversal(tx, a); err != nil {
		return err
	}
	changed, err := tx.Exec(`UPDATE operations SET reversed_at = $2 WHERE id = $1 AND status = 'success' AND reversed_at IS NULL`, op.ID, at)
	if err == nil && changed != 1 {
		err = operation.ErrReversalChanged
	}
	if err != nil {
		return fmt.Errorf("mark %s as reversed: %w", op.ID, err)
	}
	if err := shortenSubscription(tx, op); err != nil {
		return err
	}
	err = moveMoney(tx, action, movement{
		operatorID: op.OperatorID, kind: "reversal", amount: op.Amount, description: op.ReversalText(), operationID: op.ID,
	})
	if err != nil {
		return fmt.Errorf("return the money: %w", err)
	}
	return logReversal(tx, op, r, operation.Reversed, action)
}

// logReversal writes the audit entry of a reversal that has an outcome.
func logReversal(tx Tx, op operation.Operation, before operation.Reversal, outcome operation.ReversalState, action admin.StaffAction) error {
	after := before
	after.State = outcome
	return logAction(tx, action, op.OperatorID, admin.ReversalSubject(op.ID), admin.ReversalState(before), admin.ReversalState(after))
}

// shortenSubscription removes the operation's cycle, which is the newest, and gives the subscriber the
// state from before. The subscriber of an activation is removed, as after a failed one.
func shortenSubscription(tx Tx, op operation.Operation) error {
	changed, err := tx.Exec(`
		DELETE FROM cycles WHERE operation_id = $1 AND subscriber_id = $2
		   AND seq = (SELECT max(c.seq) FROM cycles c WHERE c.subscriber_id = $2)`, op.ID, op.SubscriberID)
	if err == nil && changed != 1 {
		err = operation.ErrReversalChanged
	}
	if err != nil {
		return fmt.Errorf("remove the cycle of %s: %w", op.ID, err)
	}
	if op.Kind == operation.Activate {
		for _, table := range []string{"contact_changes", "contact_states"} {
			if _, err := tx.Exec(`DELETE FROM `+table+` WHERE subscriber_id = $1`, op.SubscriberID); err != nil {
				return fmt.Errorf("remove the contact data of subscriber %s: %w", op.SubscriberID, err)
			}
		}
		changed, err = tx.Exec(`DELETE FROM subscribers WHERE id = $1 AND reversing = $2 AND expires_at = $3`, op.SubscriberID, op.ID, op.ExpiryPlanned.UnixMilli())
	} else {
		changed, err = tx.Exec(`
			UPDATE subscribers
			   SET expires_at = $4, reversing = NULL, version = version + 1,
			       renewed_at = (SELECT o.completed_at FROM cycles c JOIN operations o ON o.id = c.operation_id
			                      WHERE c.subscriber_id = $1 AND o.kind <> 'activate' ORDER BY c.seq DESC LIMIT 1),
			       last_provider_transaction = (SELECT o.provider_transaction_id FROM cycles c JOIN operations o ON o.id = c.operation_id
			                      WHERE c.subscriber_id = $1 AND o.provider_transaction_id IS NOT NULL ORDER BY c.seq DESC LIMIT 1)
			 WHERE id = $1 AND reversing = $2 AND expires_at = $3`,
			op.SubscriberID, op.ID, op.ExpiryPlanned.UnixMilli(), op.ExpiryPrevious.UnixMilli())
	}
	if err == nil && changed != 1 {
		err = operation.ErrReversalChanged
	}
	if err != nil {
		return fmt.Errorf("give subscriber %s the state from before %s: %w", op.SubscriberID, op.ID, err)
	}
	return nil
}

// saveReversalCalls saves what the provider was asked, once, and raises the exceptions of replies about
// another order. The answer may be saved again after a commit whose outcome is unknown.
func saveReversalCalls(tx Tx, a operation.ReversalAnswer) error {
	for _, call := range a.Calls {
		detail := call.Reply.Detail
		if detail == "" {
			detail = call.Reply.Message
		}
		// The operation is locked, so nobody saves the same call meanwhile.
		var saved bool
		err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM provider_calls WHERE operation_id = $1 AND reference = $2 AND kind = $3 AND outcome = $4 AND node = $5 AND asked_at = $6)`,
			a.OperationID, call.Reference, call.What, call.Reply.Outcome.String(), a.Node, call.AskedAt.UnixMilli()).Scan(&saved)
		if err == nil && !saved {
			_, err = tx.Exec(`
				INSERT INTO provider_calls (operation_id, reference, kind, component, outcome, provider_transaction_id, detail, node, asked_at, answered_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
				a.OperationID, call.Reference, call.What, call.Component, call.Reply.Outcome.String(), NullString(call.Reply.Transaction),
				detail, a.Node, call.AskedAt.UnixMilli(), Millis(call.AnsweredAt))
		}
		if err != nil {
			return fmt.Errorf("save a provider call: %w", err)
		}
		if e, mismatch := call.Mismatch(a.OperationID); mismatch {
			if err := raiseException(tx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// raiseContradiction raises an exception beside those of the kind that the operation had before: staff
// have to look at each. Until it is closed it is raised once.
func raiseContradiction(tx Tx, e operation.Exception) error {
	// The operation is locked, so nobody raises another one meanwhile.
	var raised int
	var open bool
	err := tx.QueryRow(`
		SELECT count(CASE WHEN kind = $2 OR kind LIKE $3 THEN 1 END), coalesce(max(CASE WHEN closed_at IS NULL AND detail = $4 THEN 1 ELSE 0 END), 0) = 1
		  FROM exceptions WHERE operation_id = $1`, e.OperationID, string(e.Kind), string(e.Kind)+" %", e.Detail).Scan(&raised, &open)
	if err != nil {
		return fmt.Errorf("read the exceptions of %s: %w", e.OperationID, err)
	}
	if open {
		return nil
	}
	if raised > 0 {
		e.Kind += operation.ExceptionKind(fmt.Sprintf(" %d", raised+1))
	}
	return raiseException(tx, e)
}

func raiseException(tx Tx, e operation.Exception) error {
	_, err := tx.Exec(`
		INSERT INTO exceptions (operation_id, kind, detail, created_at) VALUES ($1, $2, $3, $4)
		    ON CONFLICT (operation_id, kind) DO NOTHING`, e.OperationID, string(e.Kind), e.Detail, e.At.UnixMilli())
	if err != nil {
		return fmt.Errorf("raise an exception: %w", err)
	}
	return nil
}
