package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

var _ operation.Store = (*DB)(nil)

// OperationByKey finds the operation that an operator's key stands for.
func (db *DB) OperationByKey(ctx context.Context, operatorID int64, key string) (operation.Operation, bool, error) {
	return sqlstore.OneOperation(db.askRow(ctx), `operations WHERE operator_id = ?1 AND idempotency_key = ?2`, operatorID, key)
}

// OperationByID finds one of an operator's operations.
func (db *DB) OperationByID(ctx context.Context, operatorID int64, id string) (operation.Operation, bool, error) {
	return sqlstore.OneOperation(db.askRow(ctx), `operations WHERE operator_id = ?1 AND id = ?2`, operatorID, id)
}

// Snapshot reads what a request is judged on, in one snapshot. Of a renewal that is,
// all but a little, what its reservation and its settlement will change.
func (db *DB) Snapshot(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	facts, err := db.facts(ctx, q)
	if err != nil || q.Kind != operation.Activate || facts.KnownID != "" ||
		facts.Subscriber == nil && (q.SubscriberID == "" || facts.FreeID == q.SubscriberID) {
		return facts, err
	}
	// Somebody has the number, or the id that is wanted.
	if released, err := db.ReleaseLapsed(ctx, []subscription.Claim{{Mobile: q.Mobile, SubscriberID: q.SubscriberID}}, q.Now); err != nil || released == 0 {
		return facts, err
	}
	return db.facts(ctx, q)
}

func (db *DB) facts(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	at := db.writer.ask
	if q.Kind == operation.Activate {
		at = db.snapshot // nobody else has to wait while a free id is searched for
	}
	var facts operation.Snapshot
	err := at(ctx, func(from sqlstore.Querier) error {
		var balance int64
		var known sql.NullString
		var verified sql.NullInt64
		err := from.QueryRow(`
			SELECT balance_paise,
			       (SELECT id FROM operations WHERE operator_id = ?1 AND idempotency_key = ?2),
			       (SELECT verified_at FROM catalogue_comparisons WHERE provider = ?3),
			       EXISTS (SELECT 1 FROM maintenance WHERE one = 1)
			  FROM wallets WHERE operator_id = ?1`, q.OperatorID, q.IdempotencyKey, q.Provider).Scan(&balance, &known, &verified, &facts.Maintenance)
		if err != nil {
			return fmt.Errorf("read the balance: %w", err)
		}
		if known.Valid {
			facts.KnownID = known.String
			return nil
		}
		if facts.Maintenance {
			return nil
		}
		facts.Balance, facts.Offer.VerifiedAt = money.Paise(balance), sqlstore.Time(verified)
		if facts.Offer.Plan, facts.Offer.Sellable, err = sellablePlan(from, q.PlanID); err != nil {
			return fmt.Errorf("read plan %s: %w", q.PlanID, err)
		}
		return db.customerFacts(from, q, &facts)
	})
	return facts, err
}

// customerFacts reads what there is to know of the customer that a question names.
func (db *DB) customerFacts(from sqlstore.Querier, q operation.SnapshotQuery, facts *operation.Snapshot) (err error) {
	if q.Kind == operation.Activate {
		// Whoever has the number, of any operator: it is unique in the service.
		facts.Subscriber, err = subscriberWhere(from, `s.mobile = ?1`, q.Mobile)
		if err != nil || facts.Subscriber != nil {
			return err
		}
		facts.FreeID, err = db.freeSubscriberID(from, q.SubscriberID)
		return err
	}
	if q.SubscriberID != "" {
		facts.Subscriber, err = subscriberWhere(from, `s.id = ?1 AND s.operator_id = ?2`, q.SubscriberID, q.OperatorID)
	} else {
		facts.Subscriber, err = subscriberWhere(from, `s.mobile = ?1 AND s.operator_id = ?2`, q.Mobile, q.OperatorID)
	}
	if err != nil || facts.Subscriber == nil {
		return err
	}
	facts.Duplicate, err = duplicateOf(from, facts.Subscriber.ID, q)
	if err == nil && q.Kind == operation.AdvanceRenew {
		facts.Cycles, err = cyclesOf(from, facts.Subscriber.ID)
	}
	return err
}

// duplicateOf looks among the subscriber's cycles, of which every renewal that
// succeeded has made one, at the moment it was completed: they lie together, which
// the subscriber's operations do not. All are looked at: the one that was bought last
// need not have the latest moment, where clocks differ or are set.
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

// subscriberWhere reads the subscriber that a condition, a literal of this
// package, picks out; nil if there is none.
func subscriberWhere(from sqlstore.Querier, condition string, args ...any) (*operation.Subscriber, error) {
	var s operation.Subscriber
	var expires sql.NullInt64
	var open sql.NullString
	err := from.QueryRow(`
		SELECT s.id, s.operator_id, s.mobile, s.name, s.expires_at, s.version,
		       (SELECT o.id FROM operations o WHERE o.subscriber_id = s.id AND o.status IN ('processing', 'needs_review'))
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

// ExtendLease keeps an open operation in the given hands for longer.
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

// SubscriptionOf reads one of an operator's subscribers, with what is under way.
func (db *DB) SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, bool, error) {
	s := operation.Subscription{Plans: map[string]string{}}
	found := false
	err := db.ask(ctx, func(from sqlstore.Querier) error {
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
		// The plus keeps SQLite from the index of operators: it would go back through
		// all of the operator's operations there until it meets the subscriber's.
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
