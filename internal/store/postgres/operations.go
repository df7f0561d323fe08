package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

var _ operation.Store = (*DB)(nil)

// OperationByKey finds an operation by the operator's idempotency key, as the first one in
// the order of the index; see snapshotColumns.
func (db *DB) OperationByKey(ctx context.Context, operatorID int64, key string) (operation.Operation, bool, error) {
	return sqlstore.OneOperation(db.read(ctx), `(
		SELECT * FROM operations
		 WHERE (operator_id, idempotency_key) >= ($1, $2)
		 ORDER BY operator_id, idempotency_key LIMIT 1) AS first
		 WHERE operator_id = $1 AND idempotency_key = $2`, operatorID, key)
}

// OperationByID finds one of an operator's operations.
func (db *DB) OperationByID(ctx context.Context, operatorID int64, id string) (operation.Operation, bool, error) {
	return sqlstore.OneOperation(db.read(ctx), `operations WHERE operator_id = $1 AND id = $2`, operatorID, id)
}

// subscriberColumns are what a request needs of a subscriber s, which may be missing. LIMIT
// makes the planner use the index by subscriber: if it estimates the table as small, it
// would read all open operations.
const subscriberColumns = `s.id, s.operator_id, s.mobile, s.name, s.expires_at, s.version,
	(SELECT o.id FROM operations o WHERE o.subscriber_id = s.id AND o.status IN ('processing', 'needs_review') LIMIT 1)`

// subscriberCycles are the cycles of a subscriber s in the order they were bought, as
// one text, so that they need no statement of their own.
const subscriberCycles = `(SELECT json_agg(json_build_object('plan', c.plan_id, 'starts', c.starts_at, 'ends', c.ends_at) ORDER BY c.seq)
	   FROM cycles c WHERE c.subscriber_id = s.id)`

// nullableCycles is scanned from subscriberCycles.
type nullableCycles []struct {
	Plan   string `json:"plan"`
	Starts int64  `json:"starts"`
	Ends   int64  `json:"ends"`
}

func (p nullableCycles) found() []subscription.Cycle {
	cycles := make([]subscription.Cycle, len(p))
	for i, c := range p {
		cycles[i] = subscription.Cycle{PlanID: c.Plan, StartsAt: time.UnixMilli(c.Starts).UTC(), EndsAt: time.UnixMilli(c.Ends).UTC()}
	}
	return cycles
}

// nullableSubscriber is scanned from subscriberColumns.
type nullableSubscriber struct {
	id, mobile, name, open sql.NullString
	operator               sql.NullInt64
	expires, version       sql.NullInt64
}

func (p *nullableSubscriber) targets() []any {
	return []any{&p.id, &p.operator, &p.mobile, &p.name, &p.expires, &p.version, &p.open}
}

// found returns nil if there was no subscriber.
func (p *nullableSubscriber) found() *operation.Subscriber {
	if !p.id.Valid {
		return nil
	}
	return &operation.Subscriber{
		ID: p.id.String, OperatorID: p.operator.Int64, Mobile: p.mobile.String, Name: p.name.String,
		Expires: sqlstore.Time(p.expires), Version: p.version.Int64, OpenOperation: p.open.String,
	}
}

// subscriberWhere reads the subscriber of a condition, which must be a literal; nil if
// there is none.
func subscriberWhere(from sqlstore.Querier, condition string, args ...any) (*operation.Subscriber, error) {
	var subscriber nullableSubscriber
	err := from.QueryRow(`SELECT `+subscriberColumns+` FROM subscribers s WHERE `+condition, args...).Scan(subscriber.targets()...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read a subscriber: %w", err)
	}
	return subscriber.found(), nil
}

// unindexed is an operation's status in a statement that has the operation's id. With the
// plain column the planner would use an index of open operations, which it estimates as
// empty, and read all of it, including the dead rows since the last vacuum.
const unindexed = `status || ''`

// ExtendLease extends the lease of an open operation, if its epoch is the given one.
func (db *DB) ExtendLease(ctx context.Context, id string, epoch int64, until time.Time) (bool, error) {
	var changed int64
	err := db.do(ctx, func(tx *tx) error {
		var err error
		changed, err = tx.Exec(`
			UPDATE operations SET lease_until = $3
			 WHERE id = $1 AND epoch = $2 AND `+unindexed+` = 'processing'`, id, epoch, until.UnixMilli())
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
	err := db.snapshot(ctx, func(from sqlstore.Querier) error {
		condition, argument := `s.id = $1 AND s.operator_id = $2`, id
		if id == "" {
			condition, argument = `s.mobile = $1 AND s.operator_id = $2`, mobile
		}
		customer, err := subscriberWhere(from, condition, argument, operatorID)
		if err != nil || customer == nil {
			return err
		}
		found, s.Subscriber = true, *customer
		var activated, renewed sql.NullInt64
		var transaction, provider sql.NullString
		var cycles nullableCycles
		// operator_id + 0 keeps the planner from using the index by operator, where it
		// would scan all of the operator's operations until it finds the subscriber's.
		err = from.QueryRow(`
			SELECT email, address, connection_type, activated_at, renewed_at, last_provider_transaction,
			       (SELECT o.provider FROM operations o WHERE o.subscriber_id = s.id AND o.operator_id + 0 = s.operator_id ORDER BY o.created_at DESC LIMIT 1),
			       `+subscriberCycles+`
			  FROM subscribers s WHERE s.id = $1`, customer.ID).
			Scan(&s.Email, &s.Address, &s.ConnectionType, &activated, &renewed, &transaction, &provider, &cycles)
		if err != nil {
			return fmt.Errorf("read a subscriber's profile: %w", err)
		}
		s.CreatedAt, s.RenewedAt, s.Cycles = sqlstore.Time(activated), sqlstore.Time(renewed), cycles.found()
		s.LastProviderTransaction, s.Provider = transaction.String, provider.String
		rows, err := from.Query(`
			SELECT `+sqlstore.OperationColumns+` FROM operations
			 WHERE subscriber_id = $1 AND status IN ('processing', 'needs_review') ORDER BY created_at, id`, customer.ID)
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
		 WHERE id IN (SELECT plan_id FROM cycles WHERE subscriber_id = $1)
		    OR id IN (SELECT plan_id FROM operations WHERE subscriber_id = $1 AND status IN ('processing', 'needs_review'))`, subscriberID)
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
