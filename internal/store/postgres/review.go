package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/operation"
)

var _ operation.ReviewStore = (*DB)(nil)

// TakeOver ends every lease at once. Nothing here can tell that nobody else is
// there to hold one: only whoever knows may call it.
func (db *DB) TakeOver(ctx context.Context, now time.Time) error {
	return db.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`UPDATE operations SET lease_until = $1 WHERE status = 'processing' AND lease_until > $1`, now.UnixMilli())
		return err
	})
}

// Due looks whether anything waits to be claimed.
func (db *DB) Due(ctx context.Context, now time.Time) (bool, error) {
	var due bool
	err := db.read(ctx).queryRow(`
		SELECT EXISTS (SELECT 1 FROM operations WHERE status = 'processing' AND lease_until <= $1)
		    OR EXISTS (SELECT 1 FROM operations WHERE status = 'needs_review' AND next_check_at <= $1)
		    OR EXISTS (SELECT 1 FROM operations WHERE status = 'failed' AND next_check_at IS NOT NULL AND next_check_at <= $1)
		    OR EXISTS (SELECT 1 FROM operations WHERE addon_next_at IS NOT NULL AND addon_next_at <= $1)`, now.UnixMilli()).Scan(&due)
	if err != nil {
		return false, fmt.Errorf("look for what is due: %w", err)
	}
	return due, nil
}

// ClaimReviews takes operations whose holder is gone, and those in review whose
// time has come. Nodes share the work without a leader: what another one is just
// taking is skipped.
func (db *DB) ClaimReviews(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	var claimed []operation.Operation
	err := db.do(ctx, func(tx *tx) error {
		left, err := claim(tx, `status = 'processing' AND lease_until <= $1 ORDER BY lease_until`,
			`status = 'needs_review', epoch = epoch + 1, node = $3, lease_until = NULL, review_since = $1, next_check_at = $4`, c)
		if err != nil {
			return err
		}
		moves := &pgx.Batch{}
		writeEvents(moves, column(left, func(op operation.Operation) happening {
			return happening{op.ID, operation.Processing, operation.NeedsReview, op.Epoch, c.Node, "", "its holder was not heard of", c.Now.UnixMilli()}
		}))
		if err := tx.send(moves); err != nil {
			return fmt.Errorf("take over operations: %w", err)
		}
		rest := c
		rest.Most -= len(left)
		due, err := claim(tx, `status = 'needs_review' AND next_check_at <= $1 ORDER BY next_check_at`,
			`epoch = epoch + 1, node = $3, next_check_at = $4, checks = checks + 1`, rest)
		claimed = append(left, due...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// claim takes the operations that a condition picks out and sets columns of them,
// both by literals of this file. $1 is now, $2 how many, $3 the node, $4 until when.
func claim(tx *tx, condition, set string, c operation.Claim) ([]operation.Operation, error) {
	rows, err := tx.query(`
		UPDATE operations SET `+set+`
		 WHERE id IN (SELECT id FROM operations WHERE `+condition+` LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)
		   AND ($3::text IS NOT NULL OR $4::bigint IS NOT NULL)
		RETURNING `+operationColumns, c.Now.UnixMilli(), c.Most, c.Node, c.Until.UnixMilli())
	claimed, err := collect(rows, err, readOperation)
	if err != nil {
		return nil, fmt.Errorf("claim what is due: %w", err)
	}
	return claimed, nil
}

// Postpone lets go of an operation in review until later.
func (db *DB) Postpone(ctx context.Context, p operation.Postponement) (bool, error) {
	var changed int64
	err := db.do(ctx, func(tx *tx) error {
		var err error
		changed, err = tx.exec(`
			UPDATE operations SET next_check_at = $3, needs_person = greatest(needs_person, $4::boolean::int)
			 WHERE id = $1 AND epoch = $2 AND `+unindexed+` = 'needs_review'`, p.OperationID, p.Epoch, p.NextCheckAt.UnixMilli(), p.NeedsPerson)
		if err != nil || changed == 0 {
			return err
		}
		calls := &pgx.Batch{}
		writeCalls(calls, callsOf(p.OperationID, p.Node, p.Calls))
		return tx.send(calls)
	})
	if err != nil {
		return false, fmt.Errorf("postpone operation %s: %w", p.OperationID, err)
	}
	return changed == 1, nil
}

// ClaimAddons takes add-ons that are missing and due; the moment that they are
// taken until keeps others away.
func (db *DB) ClaimAddons(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return db.claimBy(ctx, c, `addon_next_at IS NOT NULL AND addon_next_at <= $1 ORDER BY addon_next_at`, `addon_next_at = $4`)
}

// ClaimLateChecks takes refunded operations that the provider is still to be told of.
func (db *DB) ClaimLateChecks(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return db.claimBy(ctx, c, `status = 'failed' AND next_check_at IS NOT NULL AND next_check_at <= $1 ORDER BY next_check_at`,
		`next_check_at = $4, checks = checks + 1`)
}

func (db *DB) claimBy(ctx context.Context, c operation.Claim, condition, set string) ([]operation.Operation, error) {
	var claimed []operation.Operation
	err := db.do(ctx, func(tx *tx) (err error) {
		claimed, err = claim(tx, condition, set, c)
		return err
	})
	return claimed, err
}

// SettleAddon writes what became of an add-on, unless a person has closed it
// meanwhile.
func (db *DB) SettleAddon(ctx context.Context, s operation.AddonSettlement) error {
	return db.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`
			UPDATE operations SET addon_status = $2, addon_attempt = $3, addon_next_at = $4
			 WHERE id = $1 AND addon_status NOT IN ('success', 'closed')`,
			s.OperationID, s.State, s.Attempt, millis(s.NextAt))
		if err != nil {
			return fmt.Errorf("settle the add-on of %s: %w", s.OperationID, err)
		}
		calls := &pgx.Batch{}
		writeCalls(calls, callsOf(s.OperationID, s.Node, s.Calls))
		return tx.send(calls)
	})
}

// CloseLateCheck ends the telling of a refunded operation, or puts it off.
func (db *DB) CloseLateCheck(ctx context.Context, id string, again time.Time) error {
	return db.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`UPDATE operations SET next_check_at = $2 WHERE id = $1 AND status = 'failed'`, id, millis(again))
		return err
	})
}

// RaiseException writes down what only a person can decide, once.
func (db *DB) RaiseException(ctx context.Context, e operation.Exception) error {
	return db.do(ctx, func(tx *tx) error {
		raising := &pgx.Batch{}
		raiseException(raising, e)
		if err := tx.send(raising); err != nil {
			return fmt.Errorf("raise an exception for %s: %w", e.OperationID, err)
		}
		return nil
	})
}
