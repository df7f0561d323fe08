package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

// SettleReview settles an operation in review as a person has decided.
func (db *Store) SettleReview(ctx context.Context, action admin.StaffAction, s operation.Settlement) (operation.Operation, error) {
	var op operation.Operation
	err := db.engine.Write(ctx, func(tx Tx) (err error) {
		if op, err = settleReview(tx, action, s); err != nil {
			return err
		}
		return countUnapproved(tx, action, op.OperatorID, op.Amount)
	})
	return op, err
}

// settleReview increments the epoch, so that a concurrent settlement by a node has no
// effect.
func settleReview(tx Tx, action admin.StaffAction, s operation.Settlement) (operation.Operation, error) {
	before, err := inReview(tx, s.OperationID)
	if err != nil {
		return before, err
	}
	before.Epoch++
	if _, err := tx.Exec(`UPDATE operations SET epoch = $2 WHERE id = $1`, before.ID, before.Epoch); err != nil {
		return before, fmt.Errorf("claim operation %s: %w", before.ID, err)
	}
	s.Epoch, s.Node, s.AddonState = before.Epoch, before.Node, before.AddonState
	if before.Addon == "" {
		s.AddonNextAt = before.AddonNextAt
	}
	op, err := tx.Dialect().SettleReview(tx, before, s)
	if err != nil {
		return op, err
	}
	return op, logAction(tx, action, op.OperatorID, "operation "+op.ID, admin.OperationState(before), admin.OperationState(op))
}

// inReview reads and locks an operation that a person can settle.
func inReview(tx Tx, id string) (operation.Operation, error) {
	op, found, err := OneOperation(tx, `operations WHERE id = $1 FOR NO KEY UPDATE`, id)
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

// Exceptions reads the open exceptions, oldest first.
func (db *Store) Exceptions(ctx context.Context, closed bool) ([]admin.ExceptionEntry, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT `+exceptionColumns+` FROM exceptions WHERE $1::boolean OR closed_at IS NULL ORDER BY id`, closed)
	return Collect(rows, err, readException)
}

const exceptionColumns = `id, operation_id, kind, detail, created_at, closed_at, coalesce(closed_by, ''), coalesce(close_reason, '')`

func readException(row Row) (e admin.ExceptionEntry, err error) {
	var created, ended sql.NullInt64
	err = row.Scan(&e.ID, &e.TransactionID, &e.Kind, &e.Detail, &created, &ended, &e.ClosedBy, &e.CloseReason)
	// One that was raised again has a number after its kind: see raiseContradiction.
	kind, _, _ := strings.Cut(string(e.Kind), " ")
	e.Kind = operation.ExceptionKind(kind)
	e.CreatedAt, e.ClosedAt = Time(created), Time(ended)
	return e, err
}

// CloseException records who closed an exception, and why.
func (db *Store) CloseException(ctx context.Context, action admin.StaffAction, id int64) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		var operationID, kind string
		var operatorID int64
		var closed sql.NullInt64
		err := tx.QueryRow(`
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
		_, err = tx.Exec(`UPDATE exceptions SET closed_at = $2, closed_by = $3, close_reason = $4 WHERE id = $1`,
			id, action.At.UnixMilli(), action.Actor, action.Reason)
		if err != nil {
			return fmt.Errorf("close exception %d: %w", id, err)
		}
		state := func(open bool) map[string]any {
			return map[string]any{"transaction_id": operationID, "kind": kind, "open": open}
		}
		return logAction(tx, action, operatorID, fmt.Sprintf("exception %d", id), state(true), state(false))
	})
}

const missingAddon = `status = 'success' AND addon_status IN ('waiting', 'failed', 'unknown')`

// MissingAddons reads the combos whose add-on is being retried.
func (db *Store) MissingAddons(ctx context.Context) ([]operation.Operation, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT ` + OperationColumns + ` FROM operations WHERE addon_next_at IS NOT NULL AND ` + missingAddon + ` ORDER BY created_at, id`)
	return Collect(rows, err, ReadOperation)
}

// CustomerNames reads the customers' names of operations.
func (db *Store) CustomerNames(ctx context.Context, ids []string) (map[string]string, error) {
	names := map[string]string{}
	rows, err := db.engine.Read(ctx).Query(`SELECT id, customer_name FROM operations WHERE id = ANY ($1::text[])`, ids)
	_, err = Collect(rows, err, func(row Row) (id string, err error) {
		var name string
		err = row.Scan(&id, &name)
		names[id] = name
		return id, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the customers of operations: %w", err)
	}
	return names, nil
}

// AddonCalls counts the provider calls about add-ons.
func (db *Store) AddonCalls(ctx context.Context, ids []string) (map[string]int, error) {
	calls := map[string]int{}
	rows, err := db.engine.Read(ctx).Query(`
		SELECT o.id, (SELECT count(*) FROM provider_calls c WHERE c.operation_id = o.id AND c.component = o.addon)
		  FROM operations o WHERE o.id = ANY ($1::text[])`, ids)
	_, err = Collect(rows, err, func(row Row) (id string, err error) {
		var count int
		err = row.Scan(&id, &count)
		calls[id] = count
		return id, err
	})
	if err != nil {
		return nil, fmt.Errorf("count the provider calls about add-ons: %w", err)
	}
	return calls, nil
}

// CloseAddon stops retrying an add-on.
func (db *Store) CloseAddon(ctx context.Context, action admin.StaffAction, id string) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		before, found, err := OneOperation(tx, `operations WHERE id = $1 FOR NO KEY UPDATE`, id)
		if err != nil {
			return err
		}
		if !found {
			return admin.Refuse("there is no transaction %s", id)
		}
		after, err := ReadOperation(tx.QueryRow(`
			UPDATE operations SET addon_status = 'closed', addon_next_at = NULL, addon_needs_person = 0 WHERE id = $1 AND `+missingAddon+`
			RETURNING `+OperationColumns, id))
		if errors.Is(err, sql.ErrNoRows) {
			return admin.Refuse("transaction %s has no add-on that is being retried", id)
		}
		if err != nil {
			return fmt.Errorf("close the add-on of %s: %w", id, err)
		}
		// The provider may have confirmed it to a node that had stopped retrying.
		var confirmed bool
		err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM provider_calls WHERE operation_id = $1 AND reference <> $1 AND outcome = 'confirmed')`, id).Scan(&confirmed)
		if err == nil && confirmed {
			e := operation.AddonClosedAndConfirmed(id, action.At)
			_, err = tx.Exec(`
				INSERT INTO exceptions (operation_id, kind, detail, created_at) VALUES ($1, $2, $3, $4)
				    ON CONFLICT (operation_id, kind) DO NOTHING`, e.OperationID, e.Kind, e.Detail, e.At.UnixMilli())
		}
		if err != nil {
			return fmt.Errorf("look for a confirmation of the add-on of %s: %w", id, err)
		}
		return logAction(tx, action, before.OperatorID, "addon of "+id, admin.OperationState(before), admin.OperationState(after))
	})
}
