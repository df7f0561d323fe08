package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

var _ operation.Store = (*DB)(nil)

// OperationByKey finds an operation by the operator's idempotency key.
func (db *DB) OperationByKey(ctx context.Context, operatorID int64, key string) (operation.Operation, bool, error) {
	return sqlstore.OneOperation(db.lookUpRow(ctx), `operations WHERE operator_id = ?1 AND idempotency_key = ?2`, operatorID, key)
}

// OperationByID finds one of an operator's operations.
func (db *DB) OperationByID(ctx context.Context, operatorID int64, id string) (operation.Operation, bool, error) {
	return sqlstore.OneOperation(db.lookUpRow(ctx), `operations WHERE operator_id = ?1 AND id = ?2`, operatorID, id)
}

// ExtendLease extends the lease of an open operation, if its epoch is the given one.
func (db *DB) ExtendLease(ctx context.Context, id string, epoch int64, until time.Time) (bool, error) {
	var changed int64
	err := db.writer.do(ctx, func(tx *tx) error {
		var err error
		changed, err = tx.Exec(`
			UPDATE operations SET lease_until = ?3
			 WHERE id = ?1 AND epoch = ?2 AND status = 'processing'`, id, epoch, until.UnixMilli())
		return err
	})
	if err != nil {
		return false, fmt.Errorf("extend the lease of %s: %w", id, err)
	}
	return changed == 1, nil
}

// SubscriptionOf reads one of an operator's subscribers, with its open operations.
func (db *DB) SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, bool, error) {
	s := operation.Subscription{Plans: map[string]string{}}
	found := false
	err := db.lookUp(ctx, func(from sqlstore.Querier) error {
		condition, argument := `s.id = ?1 AND s.operator_id = ?2`, id
		if id == "" {
			condition, argument = `s.mobile = ?1 AND s.operator_id = ?2`, mobile
		}
		customer, err := subscriberWhere(from, condition, argument, operatorID)
		if err != nil || customer == nil {
			return err
		}
		found, s.Subscriber = true, *customer
		if s.Cycles, err = cyclesOf(from, customer.ID); err != nil {
			return err
		}
		var activated, renewed sql.NullInt64
		var transaction, provider sql.NullString
		// The plus keeps SQLite from using the index by operator, where it would scan all
		// of the operator's operations until it finds the subscriber's.
		err = from.QueryRow(`
			SELECT email, address, connection_type, activated_at, renewed_at, last_provider_transaction,
			       (SELECT o.provider FROM operations o WHERE o.subscriber_id = s.id AND +o.operator_id = s.operator_id ORDER BY o.created_at DESC LIMIT 1)
			  FROM subscribers s WHERE s.id = ?1`, customer.ID).
			Scan(&s.Email, &s.Address, &s.ConnectionType, &activated, &renewed, &transaction, &provider)
		if err != nil {
			return fmt.Errorf("read a subscriber's profile: %w", err)
		}
		s.CreatedAt, s.RenewedAt = sqlstore.Time(activated), sqlstore.Time(renewed)
		s.LastProviderTransaction, s.Provider = transaction.String, provider.String
		rows, err := from.Query(`
			SELECT `+sqlstore.OperationColumns+` FROM operations
			 WHERE subscriber_id = ?1 AND status IN ('processing', 'needs_review') ORDER BY created_at, id`, customer.ID)
		if s.Pending, err = sqlstore.Collect(rows, err, sqlstore.ReadOperation); err != nil {
			return fmt.Errorf("read pending operations: %w", err)
		}
		return planNames(from, customer.ID, s.Plans)
	})
	return s, found, err
}

func planNames(from sqlstore.Querier, subscriberID string, names map[string]string) error {
	rows, err := from.Query(`
		SELECT id, name FROM plans
		 WHERE id IN (SELECT plan_id FROM cycles WHERE subscriber_id = ?1)
		    OR id IN (SELECT plan_id FROM operations WHERE subscriber_id = ?1 AND status IN ('processing', 'needs_review'))`, subscriberID)
	_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (struct{}, error) {
		var id, name string
		err := row.Scan(&id, &name)
		names[id] = name
		return struct{}{}, err
	})
	if err != nil {
		return fmt.Errorf("read plan names: %w", err)
	}
	return nil
}
