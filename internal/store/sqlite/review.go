package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

var _ operation.ReviewStore = (*DB)(nil)

// TakeOver ends every lease at once. The folder's lock guarantees that no other node
// holds one.
func (db *DB) TakeOver(ctx context.Context, now time.Time) error {
	return db.writer.do(ctx, func(tx *tx) error {
		_, err := tx.Exec(`UPDATE operations SET lease_until = ?1 WHERE status = 'processing' AND lease_until > ?1`, now.UnixMilli())
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE reversals SET next_at = ?1 WHERE next_at > ?1`, now.UnixMilli())
		return err
	})
}

// Due reports which queues have something to claim.
func (db *DB) Due(ctx context.Context, now time.Time) (due operation.Due, err error) {
	err = db.read(ctx).QueryRow(`
		SELECT EXISTS (SELECT 1 FROM operations WHERE status = 'processing' AND lease_until <= ?1)
		    OR EXISTS (SELECT 1 FROM operations WHERE status = 'needs_review' AND next_check_at <= ?1),
		       EXISTS (SELECT 1 FROM operations WHERE addon_next_at IS NOT NULL AND addon_next_at <= ?1),
		       EXISTS (SELECT 1 FROM operations WHERE status = 'failed' AND next_check_at IS NOT NULL AND next_check_at <= ?1),
		       EXISTS (SELECT 1 FROM reversals WHERE next_at IS NOT NULL AND next_at <= ?1)`,
		now.UnixMilli()).Scan(&due.Reviews, &due.Addons, &due.LateChecks, &due.Reversals)
	if err != nil {
		return due, fmt.Errorf("look for due operations: %w", err)
	}
	return due, nil
}

// abandonedBatch limits how many operations with an expired lease one commit puts into
// review.
const abandonedBatch = 256

// ClaimReviews claims operations in review that are due. Operations whose lease has
// expired are put into review first, and are due at once.
func (db *DB) ClaimReviews(ctx context.Context, c operation.Claim) (claimed []operation.Operation, err error) {
	err = db.writer.do(ctx, func(tx *tx) (err error) {
		if err = reviewAbandoned(tx, c); err == nil {
			claimed, err = claim(tx, c, reviewQueue)
		}
		return err
	})
	return claimed, err
}

func reviewAbandoned(tx *tx, c operation.Claim) error {
	rows, err := tx.Query(`SELECT id FROM operations WHERE status = 'processing' AND lease_until <= ?1 ORDER BY lease_until LIMIT ?2`,
		c.Now.UnixMilli(), abandonedBatch)
	ids, err := sqlstore.Collect(rows, err, readText)
	if err != nil {
		return fmt.Errorf("look for operations whose lease has ended: %w", err)
	}
	for _, id := range ids {
		var epoch int64
		err := tx.QueryRow(`
			UPDATE operations
			   SET status = 'needs_review', epoch = epoch + 1, node = ?2, lease_until = NULL, review_since = ?3, next_check_at = ?3
			 WHERE id = ?1
			RETURNING epoch`, id, c.Node, c.Now.UnixMilli()).Scan(&epoch)
		if err == nil {
			err = writeEvent(tx, id, operation.Processing, operation.NeedsReview, epoch, c.Node, "", "its lease expired", c.Now.UnixMilli())
		}
		if err != nil {
			return fmt.Errorf("put operation %s into review: %w", id, err)
		}
	}
	return nil
}

// reviewKind is a queue of follow-ups: the condition for its operations, the column that
// says when they are due, the index by operator and that column, and what a claim sets.
type reviewKind struct{ member, due, index, set string }

var (
	reviewQueue = reviewKind{
		`status = 'needs_review'`, `next_check_at`, `operations_reviews_by_operator`,
		`epoch = epoch + 1, node = ?2, next_check_at = ?3, checks = checks + 1`,
	}
	addonQueue = reviewKind{
		`addon_next_at IS NOT NULL`, `addon_next_at`, `operations_addons_by_operator`,
		`addon_epoch = addon_epoch + 1, addon_checks = addon_checks + 1, addon_next_at = ?3`,
	}
	lateCheckQueue = reviewKind{
		`status = 'failed' AND next_check_at IS NOT NULL`, `next_check_at`, `operations_late_checks_by_operator`,
		`next_check_at = ?3, checks = checks + 1`,
	}
)

// claim claims what is due in a queue, operator by operator.
func claim(tx *tx, c operation.Claim, kind reviewKind) ([]operation.Operation, error) {
	ids, err := dueByOperator(tx, c, kind)
	if err != nil {
		return nil, fmt.Errorf("look for due operations: %w", err)
	}
	var claimed []operation.Operation
	for _, id := range ids {
		op, err := sqlstore.ReadOperation(tx.QueryRow(`UPDATE operations SET `+kind.set+` WHERE id = ?1 RETURNING `+sqlstore.OperationColumns, id, c.Node, c.Until.UnixMilli()))
		if err != nil {
			return nil, fmt.Errorf("claim operation %s: %w", id, err)
		}
		claimed = append(claimed, op)
	}
	return claimed, nil
}

func (db *DB) claimFrom(ctx context.Context, c operation.Claim, kind reviewKind) (claimed []operation.Operation, err error) {
	err = db.writer.do(ctx, func(tx *tx) (err error) {
		claimed, err = claim(tx, c, kind)
		return err
	})
	return claimed, err
}

// dueByOperator returns what is due, starting with the operators after the one that was
// served last. It skips through the index from operator to operator, so its cost does
// not depend on how many operations one of them has in the queue.
func dueByOperator(tx *tx, c operation.Claim, kind reviewKind) (ids []string, err error) {
	next := `SELECT min(operator_id) FROM operations INDEXED BY ` + kind.index + ` WHERE ` + kind.member
	operators := `
		WITH RECURSIVE queue (operator_id) AS (
			SELECT (` + next + ` AND operator_id > ?2)
			 UNION ALL
			SELECT (` + next + ` AND operator_id > queue.operator_id) FROM queue WHERE operator_id < ?3)
		SELECT operator_id FROM queue
		 WHERE operator_id <= ?3
		   AND EXISTS (SELECT 1 FROM operations o INDEXED BY ` + kind.index + ` WHERE o.operator_id = queue.operator_id AND ` + kind.member + ` AND ` + kind.due + ` <= ?1)
		 LIMIT ?4`
	for _, part := range [][2]int64{{c.After, math.MaxInt64}, {0, c.After}} {
		rows, err := tx.Query(operators, c.Now.UnixMilli(), part[0], part[1], c.Limit-len(ids)+len(c.Held))
		due, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (id int64, err error) {
			err = row.Scan(&id)
			return id, err
		})
		if err != nil {
			return nil, err
		}
		for _, operatorID := range due {
			held, space := c.Held[operatorID], min(c.Capacity(operatorID), c.Limit-len(ids))
			if space == 0 {
				continue
			}
			rows, err := tx.Query(`
				SELECT id FROM operations INDEXED BY `+kind.index+`
				 WHERE operator_id = ?2 AND `+kind.member+` AND `+kind.due+` <= ?1 ORDER BY `+kind.due+` LIMIT ?3`,
				c.Now.UnixMilli(), operatorID, space+len(held))
			some, err := sqlstore.Collect(rows, err, readText)
			if err != nil {
				return nil, err
			}
			some = slices.DeleteFunc(some, func(id string) bool { return slices.Contains(held, id) })
			if ids = append(ids, some[:min(space, len(some))]...); len(ids) == c.Limit {
				return ids, nil
			}
		}
	}
	return ids, nil
}

func readText(row sqlstore.Row) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}

// Postpone releases an operation in review until its next check.
func (db *DB) Postpone(ctx context.Context, p operation.Postponement) (bool, error) {
	var changed int64
	err := db.writer.do(ctx, func(tx *tx) error {
		var err error
		changed, err = tx.Exec(`
			UPDATE operations SET next_check_at = ?3, needs_person = max(needs_person, ?4)
			 WHERE id = ?1 AND epoch = ?2 AND status = 'needs_review'`, p.OperationID, p.Epoch, p.NextCheckAt.UnixMilli(), p.NeedsPerson)
		if err != nil {
			return err
		}
		return writeCalls(tx, p.OperationID, p.Node, p.Calls)
	})
	if err != nil {
		return false, fmt.Errorf("postpone operation %s: %w", p.OperationID, err)
	}
	return changed == 1, nil
}

// ClaimAddons claims missing add-ons that are due. Their new due time keeps other
// workers away.
func (db *DB) ClaimAddons(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return db.claimFrom(ctx, c, addonQueue)
}

// ClaimLateChecks claims refunded operations that the provider has not been told of yet.
func (db *DB) ClaimLateChecks(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return db.claimFrom(ctx, c, lateCheckQueue)
}

// SettleAddon saves the outcome of an add-on, if its epoch is the given one and it is not
// closed.
func (db *DB) SettleAddon(ctx context.Context, s operation.AddonSettlement) error {
	return db.writer.do(ctx, func(tx *tx) error {
		changed, err := tx.Exec(`
			UPDATE operations SET addon_status = ?3, addon_attempt = ?4, addon_next_at = ?5, addon_needs_person = ?6
			 WHERE id = ?1 AND addon_epoch = ?2 AND addon_status NOT IN ('success', 'closed')`,
			s.OperationID, s.Epoch, s.State, s.Attempt, sqlstore.Millis(s.NextAt), s.NeedsPerson)
		if err != nil {
			return fmt.Errorf("settle the add-on of %s: %w", s.OperationID, err)
		}
		if changed == 0 {
			op, _, err := sqlstore.OneOperation(tx, `operations WHERE id = ?1`, s.OperationID)
			if err != nil {
				return err
			}
			if e, contradicts := s.LateException(op); contradicts {
				if err := raiseException(tx, e); err != nil {
					return err
				}
			}
		}
		if changed == 1 && s.State == operation.AddonFailed && len(s.Calls) > 0 {
			// The provider may have confirmed it to a node that no longer owned the add-on.
			var confirmed bool
			err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM provider_calls WHERE operation_id = ?1 AND reference = ?2 AND outcome = 'confirmed')`,
				s.OperationID, s.Calls[len(s.Calls)-1].Reference).Scan(&confirmed)
			if err != nil {
				return fmt.Errorf("look for a confirmation of the add-on of %s: %w", s.OperationID, err)
			}
			if confirmed {
				if err := raiseException(tx, operation.AddonConfirmedAndRejected(s.OperationID, s.At)); err != nil {
					return err
				}
			}
		}
		return writeCalls(tx, s.OperationID, s.Node, s.Calls)
	})
}

// CloseLateCheck saves the result of telling the provider of a refund.
func (db *DB) CloseLateCheck(ctx context.Context, c operation.LateCheck) error {
	return db.writer.do(ctx, func(tx *tx) error {
		_, err := tx.Exec(`UPDATE operations SET next_check_at = ?3 WHERE id = ?1 AND status = 'failed' AND checks = ?2`, c.OperationID, c.Check, sqlstore.Millis(c.NextAt))
		if err != nil {
			return fmt.Errorf("close the late check of %s: %w", c.OperationID, err)
		}
		if c.Exception != nil {
			if err := raiseException(tx, *c.Exception); err != nil {
				return err
			}
		}
		return writeCalls(tx, c.OperationID, c.Node, c.Calls)
	})
}

// raiseException saves an exception for staff to decide, once for each operation and kind.
func raiseException(tx *tx, e operation.Exception) error {
	_, err := tx.Exec(`
		INSERT INTO exceptions (operation_id, kind, detail, created_at) VALUES (?1, ?2, ?3, ?4)
		    ON CONFLICT (operation_id, kind) DO NOTHING`, e.OperationID, e.Kind, e.Detail, e.At.UnixMilli())
	if err != nil {
		return fmt.Errorf("raise an exception for %s: %w", e.OperationID, err)
	}
	return nil
}
