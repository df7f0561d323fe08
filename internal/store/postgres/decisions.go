package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

// SettleReview settles an operation in review by a person's word, with its act.
func (db *DB) SettleReview(ctx context.Context, act admin.StaffAction, s operation.Settlement) (operation.Operation, error) {
	var op operation.Operation
	err := db.do(ctx, func(tx *tx) (err error) {
		if op, err = settleReview(tx, act, s); err != nil {
			return err
		}
		return countAlone(tx, act, op.OperatorID, op.Amount)
	})
	return op, err
}

// settleReview lets whoever was looking at the operation find another epoch, and
// settle nothing.
func settleReview(tx *tx, act admin.StaffAction, s operation.Settlement) (operation.Operation, error) {
	before, err := inReview(tx, s.OperationID)
	if err != nil {
		return before, err
	}
	before.Epoch++
	if _, err := tx.exec(`UPDATE operations SET epoch = $2 WHERE id = $1`, before.ID, before.Epoch); err != nil {
		return before, fmt.Errorf("claim operation %s: %w", before.ID, err)
	}
	s.Epoch, s.Node, s.AddonState = before.Epoch, before.Node, before.AddonState
	if before.Addon == "" {
		s.AddonNextAt = before.AddonNextAt
	}
	if !s.Fits(before) {
		return before, fmt.Errorf("operation %s cannot be settled in its own epoch", before.ID)
	}
	rows, err := tx.query(definiteAnswers, before.ID)
	said, err := collect(rows, err, readAnswer)
	if err != nil {
		return before, fmt.Errorf("read what the provider said of %s: %w", before.ID, err)
	}
	writing, one := &pgx.Batch{}, settling{s, before}
	settle(writing, []settling{one})
	op := s.After(before)
	for _, e := range s.Contradictions(op, said) {
		raiseException(writing, e)
	}
	if err := tx.send(writing); err != nil {
		return op, fmt.Errorf("settle %s: %w", before.ID, err)
	}
	return op, logAct(tx, act, op.OperatorID, "operation "+op.ID, admin.OperationState(before), admin.OperationState(op))
}

// inReview reads and locks an operation that a person can settle.
func inReview(tx *tx, id string) (operation.Operation, error) {
	op, found, err := oneOperation(tx, `operations WHERE id = $1 FOR NO KEY UPDATE`, id)
	if err != nil {
		return op, err
	}
	if !found {
		return op, admin.Refuse("there is no transaction %s", id)
	}
	if op.State != operation.NeedsReview {
		return op, admin.Refuse("transaction %s is %s; only one in review can be settled", id, op.State)
	}
	return op, nil
}

// Exceptions reads what only a person can decide, oldest first.
func (db *DB) Exceptions(ctx context.Context, closed bool) ([]admin.ExceptionEntry, error) {
	rows, err := db.read(ctx).query(`
		SELECT id, operation_id, kind, detail, created_at, closed_at, coalesce(closed_by, ''), coalesce(close_reason, '')
		  FROM exceptions WHERE $1::boolean OR closed_at IS NULL ORDER BY id`, closed)
	return collect(rows, err, func(row scanner) (admin.ExceptionEntry, error) {
		var e admin.ExceptionEntry
		var created, ended sql.NullInt64
		err := row.Scan(&e.ID, &e.TransactionID, &e.Kind, &e.Detail, &created, &ended, &e.ClosedBy, &e.CloseReason)
		e.CreatedAt, e.ClosedAt = moment(created), moment(ended)
		return e, err
	})
}

// CloseException notes who dealt with an exception, and why.
func (db *DB) CloseException(ctx context.Context, act admin.StaffAction, id int64) error {
	return db.do(ctx, func(tx *tx) error {
		var operationID, kind string
		var operatorID int64
		var closed sql.NullInt64
		err := tx.queryRow(`
			SELECT e.operation_id, e.kind, e.closed_at, o.operator_id
			  FROM exceptions e JOIN operations o ON o.id = e.operation_id WHERE e.id = $1 FOR NO KEY UPDATE OF e`, id).Scan(&operationID, &kind, &closed, &operatorID)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return admin.Refuse("there is no exception %d", id)
		case err != nil:
			return fmt.Errorf("read exception %d: %w", id, err)
		case closed.Valid:
			return admin.Refuse("exception %d was closed already", id)
		}
		_, err = tx.exec(`UPDATE exceptions SET closed_at = $2, closed_by = $3, close_reason = $4 WHERE id = $1`,
			id, act.At.UnixMilli(), act.Actor, act.Reason)
		if err != nil {
			return fmt.Errorf("close exception %d: %w", id, err)
		}
		state := func(open bool) map[string]any {
			return map[string]any{"transaction_id": operationID, "kind": kind, "open": open}
		}
		return logAct(tx, act, operatorID, fmt.Sprintf("exception %d", id), state(true), state(false))
	})
}

const missingAddon = `status = 'success' AND addon_status IN ('waiting', 'failed', 'unknown')`

// MissingAddons reads the combos whose add-on is being followed up.
func (db *DB) MissingAddons(ctx context.Context) ([]operation.Operation, error) {
	rows, err := db.read(ctx).query(`
		SELECT ` + operationColumns + ` FROM operations WHERE addon_next_at IS NOT NULL AND ` + missingAddon + ` ORDER BY created_at, id`)
	return collect(rows, err, readOperation)
}

// CloseAddon ends the following up of an add-on.
func (db *DB) CloseAddon(ctx context.Context, act admin.StaffAction, id string) error {
	return db.do(ctx, func(tx *tx) error {
		before, found, err := oneOperation(tx, `operations WHERE id = $1 FOR NO KEY UPDATE`, id)
		if err != nil {
			return err
		}
		if !found {
			return admin.Refuse("there is no transaction %s", id)
		}
		after, err := readOperation(tx.queryRow(`
			UPDATE operations SET addon_status = 'closed', addon_next_at = NULL, addon_needs_person = 0 WHERE id = $1 AND `+missingAddon+`
			RETURNING `+operationColumns, id))
		if errors.Is(err, sql.ErrNoRows) {
			return admin.Refuse("transaction %s has no add-on that is being followed up", id)
		}
		if err != nil {
			return fmt.Errorf("close the add-on of %s: %w", id, err)
		}
		// The provider may have confirmed it to a node that no longer followed it up.
		var confirmed bool
		err = tx.queryRow(`SELECT EXISTS (SELECT 1 FROM provider_calls WHERE operation_id = $1 AND reference <> $1 AND outcome = 'confirmed')`, id).Scan(&confirmed)
		if err == nil && confirmed {
			raising := &pgx.Batch{}
			raiseException(raising, operation.AddonClosedAndConfirmed(id, act.At))
			err = tx.send(raising)
		}
		if err != nil {
			return fmt.Errorf("look for a confirmation of the add-on of %s: %w", id, err)
		}
		return logAct(tx, act, before.OperatorID, "addon of "+id, admin.OperationState(before), admin.OperationState(after))
	})
}
