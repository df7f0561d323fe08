package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

var _ operation.ReviewStore = (*DB)(nil)

// TakeOver ends every lease at once. The folder's lock says that nobody else is
// there to hold one.
func (db *DB) TakeOver(ctx context.Context, now time.Time) error {
	return db.writer.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`UPDATE operations SET lease_until = ?1 WHERE status = 'processing' AND lease_until > ?1`, now.UnixMilli())
		return err
	})
}

// Due looks whether anything waits to be claimed.
func (db *DB) Due(ctx context.Context, now time.Time) (bool, error) {
	var due bool
	err := db.read(ctx).queryRow(`
		SELECT EXISTS (SELECT 1 FROM operations WHERE status = 'processing' AND lease_until <= ?1)
		    OR EXISTS (SELECT 1 FROM operations WHERE status = 'needs_review' AND next_check_at <= ?1)
		    OR EXISTS (SELECT 1 FROM operations WHERE status = 'failed' AND next_check_at IS NOT NULL AND next_check_at <= ?1)
		    OR EXISTS (SELECT 1 FROM operations WHERE addon_next_at IS NOT NULL AND addon_next_at <= ?1)`, now.UnixMilli()).Scan(&due)
	if err != nil {
		return false, fmt.Errorf("look for what is due: %w", err)
	}
	return due, nil
}

// ClaimReviews takes operations whose holder is gone, and those in review whose
// time has come.
func (db *DB) ClaimReviews(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	var claimed []operation.Operation
	err := db.writer.do(ctx, func(tx *tx) error {
		claimed = nil
		left, err := dueIDs(tx, `status = 'processing' AND lease_until <= ?1 ORDER BY lease_until`, c)
		if err != nil {
			return err
		}
		for _, id := range left {
			op, err := readOperation(tx.queryRow(`
				UPDATE operations
				   SET status = 'needs_review', epoch = epoch + 1, node = ?2, lease_until = NULL, review_since = ?3, next_check_at = ?4
				 WHERE id = ?1
				RETURNING `+operationColumns, id, c.Node, c.Now.UnixMilli(), c.Until.UnixMilli()))
			if err != nil {
				return fmt.Errorf("take over operation %s: %w", id, err)
			}
			err = writeEvent(tx, id, operation.Processing, operation.NeedsReview, op.Epoch, c.Node, "", "its holder was not heard of", c.Now.UnixMilli())
			if err != nil {
				return err
			}
			claimed = append(claimed, op)
		}
		c.Most -= len(left)
		waiting, err := dueIDs(tx, `status = 'needs_review' AND next_check_at <= ?1 ORDER BY next_check_at`, c)
		if err != nil {
			return err
		}
		for _, id := range waiting {
			op, err := readOperation(tx.queryRow(`
				UPDATE operations SET epoch = epoch + 1, node = ?2, next_check_at = ?3, checks = checks + 1
				 WHERE id = ?1
				RETURNING `+operationColumns, id, c.Node, c.Until.UnixMilli()))
			if err != nil {
				return fmt.Errorf("claim operation %s: %w", id, err)
			}
			claimed = append(claimed, op)
		}
		return nil
	})
	return claimed, err
}

// dueIDs picks the operations that a condition, a literal of this file, names.
func dueIDs(tx *tx, condition string, c operation.Claim) ([]string, error) {
	rows, err := tx.query(`SELECT id FROM operations WHERE `+condition+` LIMIT ?2`, c.Now.UnixMilli(), c.Most)
	ids, err := collect(rows, err, func(row scanner) (string, error) {
		var id string
		err := row.Scan(&id)
		return id, err
	})
	if err != nil {
		return nil, fmt.Errorf("look for what is due: %w", err)
	}
	return ids, nil
}

// Postpone lets go of an operation in review until later.
func (db *DB) Postpone(ctx context.Context, p operation.Postponement) (bool, error) {
	var changed int64
	err := db.writer.do(ctx, func(tx *tx) error {
		var err error
		changed, err = tx.exec(`
			UPDATE operations SET next_check_at = ?3, needs_person = max(needs_person, ?4)
			 WHERE id = ?1 AND epoch = ?2 AND status = 'needs_review'`, p.OperationID, p.Epoch, p.NextCheckAt.UnixMilli(), p.NeedsPerson)
		if err != nil || changed == 0 {
			return err
		}
		return writeCalls(tx, p.OperationID, p.Node, p.Calls)
	})
	if err != nil {
		return false, fmt.Errorf("postpone operation %s: %w", p.OperationID, err)
	}
	return changed == 1, nil
}

// ClaimAddons takes add-ons that are missing and due; the moment that they are
// taken until keeps others away.
func (db *DB) ClaimAddons(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return db.claimBy(ctx, c, `addon_next_at IS NOT NULL AND addon_next_at <= ?1 ORDER BY addon_next_at`, `addon_next_at = ?2`)
}

// ClaimLateChecks takes refunded operations that the provider is still to be told of.
func (db *DB) ClaimLateChecks(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return db.claimBy(ctx, c, `status = 'failed' AND next_check_at IS NOT NULL AND next_check_at <= ?1 ORDER BY next_check_at`,
		`next_check_at = ?2, checks = checks + 1`)
}

func (db *DB) claimBy(ctx context.Context, c operation.Claim, condition, set string) ([]operation.Operation, error) {
	var claimed []operation.Operation
	err := db.writer.do(ctx, func(tx *tx) error {
		claimed = nil
		ids, err := dueIDs(tx, condition, c)
		if err != nil {
			return err
		}
		for _, id := range ids {
			op, err := readOperation(tx.queryRow(`UPDATE operations SET `+set+` WHERE id = ?1 RETURNING `+operationColumns, id, c.Until.UnixMilli()))
			if err != nil {
				return fmt.Errorf("claim operation %s: %w", id, err)
			}
			claimed = append(claimed, op)
		}
		return nil
	})
	return claimed, err
}

// SettleAddon writes what became of an add-on, unless a person has closed it
// meanwhile.
func (db *DB) SettleAddon(ctx context.Context, s operation.AddonSettlement) error {
	return db.writer.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`
			UPDATE operations SET addon_status = ?2, addon_attempt = ?3, addon_next_at = ?4
			 WHERE id = ?1 AND addon_status NOT IN ('success', 'closed')`,
			s.OperationID, s.State, s.Attempt, millis(s.NextAt))
		if err != nil {
			return fmt.Errorf("settle the add-on of %s: %w", s.OperationID, err)
		}
		return writeCalls(tx, s.OperationID, s.Node, s.Calls)
	})
}

// CloseLateCheck ends the telling of a refunded operation, or puts it off.
func (db *DB) CloseLateCheck(ctx context.Context, id string, again time.Time) error {
	return db.writer.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`UPDATE operations SET next_check_at = ?2 WHERE id = ?1 AND status = 'failed'`, id, millis(again))
		return err
	})
}

// RaiseException writes down what only a person can decide, once.
func (db *DB) RaiseException(ctx context.Context, e operation.Exception) error {
	return db.writer.do(ctx, func(tx *tx) error { return raiseException(tx, e) })
}

func raiseException(tx *tx, e operation.Exception) error {
	_, err := tx.exec(`
		INSERT INTO exceptions (operation_id, kind, detail, created_at) VALUES (?1, ?2, ?3, ?4)
		    ON CONFLICT (operation_id, kind) DO NOTHING`, e.OperationID, e.Kind, e.Detail, e.At.UnixMilli())
	if err != nil {
		return fmt.Errorf("raise an exception for %s: %w", e.OperationID, err)
	}
	return nil
}
