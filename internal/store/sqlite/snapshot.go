package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// Snapshot reads everything that a request is checked against, in one snapshot. A
// renewal's rows are read by the writer, which is about to change most of them.
func (db *DB) Snapshot(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	snapshot, err := db.readSnapshot(ctx, q)
	if err != nil || q.Kind != operation.Activate || snapshot.KnownID != "" ||
		snapshot.Subscriber == nil && (q.SubscriberID == "" || snapshot.FreeID == q.SubscriberID) {
		return snapshot, err
	}
	// The mobile number or the requested id is taken, perhaps by a deleted operator's
	// subscriber.
	if released, err := db.ReleaseLapsed(ctx, []subscription.Claim{{Mobile: q.Mobile, SubscriberID: q.SubscriberID}}, q.Now); err != nil || released == 0 {
		return snapshot, err
	}
	return db.readSnapshot(ctx, q)
}

// selectKnown reads the balance, and the operation of a key or of what an adopted operation
// has in place of it.
var selectKnown = newKeyStatements(4, func(adopted string) string {
	return `
		SELECT balance_paise,
		       coalesce((SELECT id FROM operations WHERE operator_id = ?1 AND idempotency_key = ?2), (SELECT id FROM ` + adopted + `)),
		       (SELECT verified_at FROM catalogue_comparisons WHERE provider = ?3),
		       EXISTS (SELECT 1 FROM maintenance WHERE one = 1)
		  FROM wallets WHERE operator_id = ?1`
})

func (db *DB) readSnapshot(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	read := db.writer.lookUp
	if q.Kind == operation.Activate {
		read = db.snapshot // the search for a free id would delay writes
	}
	var snapshot operation.Snapshot
	err := read(ctx, func(from sqlstore.Querier) error {
		var balance int64
		var known sql.NullString
		var verified sql.NullInt64
		args := append(make([]any, 0, 8), q.OperatorID, q.IdempotencyKey, q.Provider)
		for _, key := range q.AdoptedKeys {
			args = append(args, key)
		}
		err := from.QueryRow(selectKnown.with(len(q.AdoptedKeys)), args...).Scan(&balance, &known, &verified, &snapshot.Maintenance)
		if err != nil {
			return fmt.Errorf("read the balance: %w", err)
		}
		if known.Valid {
			snapshot.KnownID = known.String
			return nil
		}
		if snapshot.Maintenance {
			return nil
		}
		snapshot.Balance, snapshot.Offer.VerifiedAt = money.Paise(balance), sqlstore.Time(verified)
		if snapshot.Offer.Plan, snapshot.Offer.Sellable, err = sellablePlan(from, q.PlanID); err != nil {
			return fmt.Errorf("read plan %s: %w", q.PlanID, err)
		}
		return db.readSubscriber(from, q, &snapshot)
	})
	return snapshot, err
}

// readSubscriber reads the subscriber of a query.
func (db *DB) readSubscriber(from sqlstore.Querier, q operation.SnapshotQuery, snapshot *operation.Snapshot) (err error) {
	if q.Kind == operation.Activate {
		// Of any operator: the mobile number is unique in the service.
		snapshot.Subscriber, err = subscriberWhere(from, `s.mobile = ?1`, q.Mobile)
		if err != nil || snapshot.Subscriber != nil {
			return err
		}
		snapshot.FreeID, err = db.freeSubscriberID(from, q.SubscriberID)
		return err
	}
	if q.SubscriberID != "" {
		snapshot.Subscriber, err = subscriberWhere(from, `s.id = ?1 AND s.operator_id = ?2`, q.SubscriberID, q.OperatorID)
	} else {
		snapshot.Subscriber, err = subscriberWhere(from, `s.mobile = ?1 AND s.operator_id = ?2`, q.Mobile, q.OperatorID)
	}
	if err != nil || snapshot.Subscriber == nil {
		return err
	}
	snapshot.Duplicate, err = duplicateOf(from, snapshot.Subscriber.ID, q)
	if err == nil && q.Kind == operation.AdvanceRenew {
		snapshot.Cycles, err = cyclesOf(from, snapshot.Subscriber.ID)
	}
	return err
}

// duplicateOf finds a recent successful renewal of the same plan. It searches the
// subscriber's cycles, which are stored together, unlike the subscriber's operations:
// each successful renewal has created one when it was completed. All are searched: the
// last one need not have the latest time if clocks differ or are set.
func duplicateOf(from sqlstore.Querier, subscriberID string, q operation.SnapshotQuery) (string, error) {
	var id string
	err := from.QueryRow(`
		SELECT o.id FROM cycles c CROSS JOIN operations o ON o.id = c.operation_id
		 WHERE c.subscriber_id = ?1 AND c.plan_id = ?2 AND c.created_at > ?3
		   AND o.status = 'success' AND o.kind IN ('renew', 'advance_renew')
		 ORDER BY c.seq DESC LIMIT 1`, subscriberID, q.PlanID, q.DuplicatesSince.UnixMilli()).Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("look for a duplicate: %w", err)
	}
	return id, nil
}

// subscriberWhere reads the subscriber of a condition, which must be a literal; nil if
// there is none.
func subscriberWhere(from sqlstore.Querier, condition string, args ...any) (*operation.Subscriber, error) {
	var s operation.Subscriber
	var expires sql.NullInt64
	var open sql.NullString
	err := from.QueryRow(`
		SELECT s.id, s.operator_id, s.mobile, s.name, s.expires_at, s.version,
		       coalesce((SELECT o.id FROM operations o WHERE o.subscriber_id = s.id AND o.status IN ('processing', 'needs_review')), s.reversing)
		  FROM subscribers s WHERE `+condition, args...).Scan(&s.ID, &s.OperatorID, &s.Mobile, &s.Name, &expires, &s.Version, &open)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a subscriber: %w", err)
	}
	s.Expires, s.OpenOperation = sqlstore.Time(expires), open.String
	return &s, nil
}

// cyclesOf reads a subscriber's cycles in the order they were bought.
func cyclesOf(from sqlstore.Querier, subscriberID string) ([]subscription.Cycle, error) {
	rows, err := from.Query(`SELECT plan_id, starts_at, ends_at FROM cycles WHERE subscriber_id = ?1 ORDER BY seq`, subscriberID)
	cycles, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (subscription.Cycle, error) {
		var c subscription.Cycle
		var starts, ends sql.NullInt64
		err := row.Scan(&c.PlanID, &starts, &ends)
		c.StartsAt, c.EndsAt = sqlstore.Time(starts), sqlstore.Time(ends)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read a subscriber's cycles: %w", err)
	}
	return cycles, nil
}
