package postgres

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

var _ operation.ReviewStore = (*DB)(nil)

// TakeOver ends every lease at once. The caller must know that no other node is running.
func (db *DB) TakeOver(ctx context.Context, now time.Time) error {
	return db.do(ctx, func(tx *tx) error {
		_, err := tx.Exec(`UPDATE operations SET lease_until = $1 WHERE status = 'processing' AND lease_until > $1`, now.UnixMilli())
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE reversals SET next_at = $1 WHERE next_at > $1`, now.UnixMilli())
		return err
	})
}

// Due reports which queues have something to claim.
func (db *DB) Due(ctx context.Context, now time.Time) (due operation.Due, err error) {
	err = db.read(ctx).QueryRow(`
		SELECT EXISTS (SELECT 1 FROM operations WHERE status = 'processing' AND lease_until <= $1)
		    OR EXISTS (SELECT 1 FROM operations WHERE status = 'needs_review' AND next_check_at <= $1),
		       EXISTS (SELECT 1 FROM operations WHERE addon_next_at IS NOT NULL AND addon_next_at <= $1),
		       EXISTS (SELECT 1 FROM operations WHERE status = 'failed' AND next_check_at IS NOT NULL AND next_check_at <= $1),
		       EXISTS (SELECT 1 FROM reversals WHERE next_at IS NOT NULL AND next_at <= $1)`,
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
// expired are put into review first, and are due at once. Nodes share the work without a
// leader: rows that another node is claiming are skipped.
func (db *DB) ClaimReviews(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	var claimed []operation.Operation
	err := db.do(ctx, func(tx *tx) error {
		rows, err := tx.Query(`
			UPDATE operations
			   SET status = 'needs_review', epoch = epoch + 1, node = $3, lease_until = NULL, review_since = $1, next_check_at = $1
			 WHERE id IN (SELECT id FROM operations WHERE status = 'processing' AND lease_until <= $1
			               ORDER BY lease_until LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)
			RETURNING `+sqlstore.OperationColumns, c.Now.UnixMilli(), abandonedBatch, c.Node)
		abandoned, err := sqlstore.Collect(rows, err, sqlstore.ReadOperation)
		if err != nil {
			return fmt.Errorf("look for operations whose lease has ended: %w", err)
		}
		moves := &pgx.Batch{}
		writeEvents(moves, column(abandoned, func(op operation.Operation) event {
			return event{op.ID, operation.Processing, operation.NeedsReview, op.Epoch, c.Node, "", "its lease expired", c.Now.UnixMilli()}
		}))
		if err := tx.send(moves); err != nil {
			return fmt.Errorf("put operations into review: %w", err)
		}
		claimed, err = claim(tx, c, reviewQueue)
		return err
	})
	return claimed, err
}

// reviewKind is a queue of follow-ups: the condition for its operations, the column that
// says when they are due, and what a claim sets.
type reviewKind struct{ member, due, set string }

var (
	reviewQueue = reviewKind{
		`status = 'needs_review'`, `next_check_at`,
		`epoch = epoch + 1, node = $3, next_check_at = $4, checks = checks + 1`,
	}
	addonQueue = reviewKind{
		`addon_next_at IS NOT NULL`, `addon_next_at`,
		`addon_epoch = addon_epoch + 1, addon_checks = addon_checks + 1, addon_next_at = $4`,
	}
	lateCheckQueue = reviewKind{
		`status = 'failed' AND next_check_at IS NOT NULL`, `next_check_at`,
		`next_check_at = $4, checks = checks + 1`,
	}
)

// claim claims what is due in a queue, operator by operator, starting after the one that
// was served last. It skips through the index from operator to operator, so its cost does
// not depend on how many operations one of them has in the queue.
func claim(tx *tx, c operation.Claim, kind reviewKind) ([]operation.Operation, error) {
	next := `SELECT min(n.operator_id) FROM operations n WHERE ` + kind.member
	statement := `
		WITH RECURSIVE queue (operator_id) AS (
			SELECT (` + next + ` AND n.operator_id > $5)
			 UNION ALL
			SELECT (` + next + ` AND n.operator_id > queue.operator_id) FROM queue WHERE queue.operator_id < $6
		), taken AS (
			SELECT due.id
			  FROM queue
			  LEFT JOIN unnest($7::bigint[], $8::bigint[]) AS held (operator_id, count) ON held.operator_id = queue.operator_id
			 CROSS JOIN LATERAL (
				SELECT id FROM operations o
				 WHERE o.operator_id = queue.operator_id AND ` + kind.member + ` AND ` + kind.due + ` <= $1 AND o.id <> ALL ($10::text[])
				 ORDER BY ` + kind.due + ` LIMIT coalesce(held.count, $9) FOR NO KEY UPDATE SKIP LOCKED) AS due
			 WHERE queue.operator_id <= $6
			 LIMIT $2)
		UPDATE operations SET ` + kind.set + `
		 WHERE id = ANY (ARRAY(SELECT id FROM taken)) AND ($3::text IS NOT NULL OR $4::bigint IS NOT NULL)
		RETURNING ` + sqlstore.OperationColumns
	var held, capacities []int64
	heldIDs := []string{}
	for operatorID, ids := range c.Held {
		heldIDs = append(heldIDs, ids...)
		held, capacities = append(held, operatorID), append(capacities, int64(c.Capacity(operatorID)))
	}
	var claimed []operation.Operation
	for _, part := range [][2]int64{{c.After, math.MaxInt64}, {0, c.After}} {
		if len(claimed) == c.Limit || part[0] == part[1] {
			break
		}
		rows, err := tx.Query(statement, c.Now.UnixMilli(), c.Limit-len(claimed), c.Node, c.Until.UnixMilli(), part[0], part[1], held, capacities, c.Capacity(0), heldIDs)
		some, err := sqlstore.Collect(rows, err, sqlstore.ReadOperation)
		if err != nil {
			return nil, fmt.Errorf("claim due operations: %w", err)
		}
		claimed = append(claimed, some...)
	}
	return claimed, nil
}

// Postpone releases an operation in review until its next check.
func (db *DB) Postpone(ctx context.Context, p operation.Postponement) (bool, error) {
	var changed int64
	err := db.do(ctx, func(tx *tx) error {
		var err error
		changed, err = tx.Exec(`
			UPDATE operations SET next_check_at = $3, needs_person = greatest(needs_person, $4::boolean::int)
			 WHERE id = $1 AND epoch = $2 AND `+unindexed+` = 'needs_review'`, p.OperationID, p.Epoch, p.NextCheckAt.UnixMilli(), p.NeedsPerson)
		if err != nil {
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

// ClaimAddons claims missing add-ons that are due. Their new due time keeps other
// workers away.
func (db *DB) ClaimAddons(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return db.claimFrom(ctx, c, addonQueue)
}

// ClaimLateChecks claims refunded operations that the provider has not been told of yet.
func (db *DB) ClaimLateChecks(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return db.claimFrom(ctx, c, lateCheckQueue)
}

func (db *DB) claimFrom(ctx context.Context, c operation.Claim, kind reviewKind) (claimed []operation.Operation, err error) {
	err = db.do(ctx, func(tx *tx) error {
		claimed, err = claim(tx, c, kind)
		return err
	})
	return claimed, err
}

// SettleAddon saves the outcome of an add-on, if its epoch is the given one and it is not
// closed.
func (db *DB) SettleAddon(ctx context.Context, s operation.AddonSettlement) error {
	return db.do(ctx, func(tx *tx) error {
		changed, err := tx.Exec(`
			UPDATE operations SET addon_status = $3, addon_attempt = $4, addon_next_at = $5, addon_needs_person = $6::boolean::int
			 WHERE id = $1 AND addon_epoch = $2 AND addon_status NOT IN ('success', 'closed')`,
			s.OperationID, s.Epoch, s.State, s.Attempt, sqlstore.Millis(s.NextAt), s.NeedsPerson)
		if err != nil {
			return fmt.Errorf("settle the add-on of %s: %w", s.OperationID, err)
		}
		calls := &pgx.Batch{}
		if changed == 0 {
			op, _, err := sqlstore.OneOperation(tx, `operations WHERE id = $1 FOR NO KEY UPDATE`, s.OperationID)
			if err != nil {
				return err
			}
			if e, contradicts := s.LateException(op); contradicts {
				raiseException(calls, e)
			}
		}
		if changed == 1 && s.State == operation.AddonFailed && len(s.Calls) > 0 {
			// The provider may have confirmed it to a node that no longer owned the add-on.
			var confirmed bool
			err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM provider_calls WHERE operation_id = $1 AND reference = $2 AND outcome = 'confirmed')`,
				s.OperationID, s.Calls[len(s.Calls)-1].Reference).Scan(&confirmed)
			if err != nil {
				return fmt.Errorf("look for a confirmation of the add-on of %s: %w", s.OperationID, err)
			}
			if confirmed {
				raiseException(calls, operation.AddonConfirmedAndRejected(s.OperationID, s.At))
			}
		}
		writeCalls(calls, callsOf(s.OperationID, s.Node, s.Calls))
		return tx.send(calls)
	})
}

// CloseLateCheck saves the result of telling the provider of a refund.
func (db *DB) CloseLateCheck(ctx context.Context, c operation.LateCheck) error {
	return db.do(ctx, func(tx *tx) error {
		_, err := tx.Exec(`UPDATE operations SET next_check_at = $3 WHERE id = $1 AND `+unindexed+` = 'failed' AND checks = $2`, c.OperationID, c.Check, sqlstore.Millis(c.NextAt))
		if err != nil {
			return fmt.Errorf("close the late check of %s: %w", c.OperationID, err)
		}
		writing := &pgx.Batch{}
		if c.Exception != nil {
			raiseException(writing, *c.Exception)
		}
		writeCalls(writing, callsOf(c.OperationID, c.Node, c.Calls))
		return tx.send(writing)
	})
}
