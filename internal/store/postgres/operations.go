package postgres

import (
	"context"
	"database/sql"
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

// AdoptedByKey finds an adopted operation by what it has in place of its key.
func (db *DB) AdoptedByKey(ctx context.Context, operatorID int64, adopted []string) (operation.Operation, bool, error) {
	return sqlstore.OneOperation(db.read(ctx), `operations
		 WHERE carried_out_at IS NOT NULL AND operator_id = $1 AND idempotency_key = ANY ($2::text[])`, operatorID, adopted)
}

// transactionQuery is a look-up of one of an operator's operations.
type transactionQuery struct {
	operatorID int64
	id         string
}

// OperationByID finds one of an operator's operations.
func (db *DB) OperationByID(ctx context.Context, operatorID int64, id string) (operation.Operation, bool, error) {
	op, err := db.transactions.do(ctx, transactionQuery{operatorID, id})
	if err != nil {
		return operation.Operation{}, false, fmt.Errorf("read an operation: %w", err)
	}
	if op == nil {
		return operation.Operation{}, false, nil
	}
	return *op, true, nil
}

// transactionItem is one look-up that waits for a batch; its result is nil if there is no
// such operation.
type transactionItem = item[transactionQuery, *operation.Operation]

func readTransactions(from sqlstore.Querier, batch []*transactionItem) error {
	rows, err := from.Query(`
		SELECT `+sqlstore.OperationColumns+`
		  FROM unnest($1::bigint[], $2::text[]) AS q (asked_by, asked)
		  JOIN operations ON id = q.asked COLLATE "C" AND operator_id + 0 = q.asked_by`,
		column(batch, func(e *transactionItem) int64 { return e.request.operatorID }),
		column(batch, func(e *transactionItem) string { return e.request.id }))
	found := make(map[transactionQuery]*operation.Operation, len(batch))
	_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (struct{}, error) {
		op, err := sqlstore.ReadOperation(row)
		found[transactionQuery{op.OperatorID, op.ID}] = &op
		return struct{}{}, err
	})
	for _, e := range batch {
		e.result = found[e.request]
	}
	return err
}

// subscriberColumns are what a request needs of a subscriber s, which may be missing. LIMIT
// makes the planner use the index by subscriber: if it estimates the table as small, it
// would read all open operations.
const subscriberColumns = `s.id, s.operator_id, s.mobile, s.name, s.expires_at, s.version,
	coalesce((SELECT o.id FROM operations o WHERE o.subscriber_id = s.id AND o.status IN ('processing', 'needs_review') LIMIT 1), s.reversing)`

// subscriberCycles are the cycles of a subscriber s in the order they were bought, as
// one text, so that they need no statement of their own.
const subscriberCycles = `(SELECT json_agg(json_build_object('plan', c.plan_id, 'name', p.name, 'starts', c.starts_at, 'ends', c.ends_at) ORDER BY c.seq)
	   FROM cycles c JOIN plans p ON p.id = c.plan_id WHERE c.subscriber_id = s.id)`

// nullableCycles is scanned from subscriberCycles.
type nullableCycles []struct {
	Plan   string `json:"plan"`
	Name   string `json:"name"`
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

// subscriptionQuery is a look-up of one of an operator's subscribers, by id or else by mobile.
type subscriptionQuery struct {
	operatorID int64
	id, mobile string
}

// subscriptionItem is one look-up that waits for a batch; its result is nil if there is no
// such subscriber.
type subscriptionItem = item[subscriptionQuery, *operation.Subscription]

// SubscriptionOf reads one of an operator's subscribers. If there is an open operation, both
// are read again in one transaction.
func (db *DB) SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, bool, error) {
	query := subscriptionQuery{operatorID: operatorID, id: id}
	if id == "" {
		query.mobile = mobile
	}
	s, err := db.subscriptions.do(ctx, query)
	if err == nil && s != nil && s.OpenOperation != "" {
		err = db.snapshot(ctx, func(from sqlstore.Querier) error {
			one := &subscriptionItem{request: query}
			err := readSubscriptions(from, []*subscriptionItem{one})
			if s = one.result; err != nil || s == nil {
				return err
			}
			return sqlstore.ReadPending(from, s)
		})
	}
	if err != nil {
		return operation.Subscription{}, false, fmt.Errorf("read a subscriber: %w", err)
	}
	if s == nil {
		return operation.Subscription{}, false, nil
	}
	return *s, true, nil
}

// readSubscriptions reads a batch. OFFSET 0 keeps the planner from reading all subscribers
// first.
func readSubscriptions(from sqlstore.Querier, batch []*subscriptionItem) error {
	rows, err := from.Query(`
		SELECT `+sqlstore.SubscriptionColumns+`, `+subscriberCycles+`, q.n
		  FROM unnest($1::bigint[], $2::text[], $3::text[]) WITH ORDINALITY AS q (operator_id, subscriber_id, mobile, n)
		 CROSS JOIN LATERAL (
		       SELECT b.* FROM subscribers b
		        WHERE b.id = coalesce(nullif(q.subscriber_id, ''), (SELECT m.id FROM subscribers m WHERE m.mobile = q.mobile COLLATE "C")) COLLATE "C"
		          AND b.operator_id = q.operator_id OFFSET 0) AS s`,
		column(batch, func(e *subscriptionItem) int64 { return e.request.operatorID }),
		column(batch, func(e *subscriptionItem) string { return e.request.id }),
		column(batch, func(e *subscriptionItem) string { return e.request.mobile }))
	for _, e := range batch {
		e.result = nil // a batch may run again
	}
	_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (struct{}, error) {
		var cycles nullableCycles
		var n int64
		s, found, err := sqlstore.ReadSubscription(row, &cycles, &n)
		if err != nil || !found {
			return struct{}{}, err
		}
		s.Cycles, s.Plans = cycles.found(), map[string]string{}
		for _, cycle := range cycles {
			s.Plans[cycle.Plan] = cycle.Name
		}
		batch[n-1].result = &s
		return struct{}{}, nil
	})
	return err
}
