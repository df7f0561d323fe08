package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

var _ operation.Store = (*DB)(nil)

// OperationByKey finds an operation by the operator's idempotency key.
func (db *DB) OperationByKey(ctx context.Context, operatorID int64, key string) (operation.Operation, bool, error) {
	return sqlstore.OneOperation(db.lookUpRow(ctx), `operations WHERE operator_id = ?1 AND idempotency_key = ?2`, operatorID, key)
}

// keyStatements are the forms of a statement that looks for an adopted operation of ?1, by
// the number of keys that it may have. It is that of the master keys: nearly always one.
type keyStatements struct {
	first int // the first key's parameter
	build func(adopted string) string
	ready [4]string
}

// newKeyStatements builds a statement around a table and a condition. The index is named
// because the one of all keys is as selective, and would have to be read from the disk.
func newKeyStatements(first int, build func(adopted string) string) *keyStatements {
	s := &keyStatements{first: first, build: build}
	for n := range s.ready {
		s.ready[n] = s.text(n)
	}
	return s
}

func (s *keyStatements) with(keys int) string {
	if keys < len(s.ready) {
		return s.ready[keys]
	}
	return s.text(keys)
}

func (s *keyStatements) text(keys int) string {
	list := []string{"NULL"} // for no keys, with which SQLite could not use the index
	for i := range keys {
		list = append(list, fmt.Sprintf("?%d", s.first+i))
	}
	return s.build(`operations INDEXED BY operations_adopted
		 WHERE operator_id = ?1 AND idempotency_key IN (` + strings.Join(list, ", ") + `) AND carried_out_at IS NOT NULL`)
}

var selectAdopted = newKeyStatements(2, func(adopted string) string { return adopted })

// AdoptedByKey finds an adopted operation by what it has in place of its key.
func (db *DB) AdoptedByKey(ctx context.Context, operatorID int64, adopted []string) (operation.Operation, bool, error) {
	args := []any{operatorID}
	for _, key := range adopted {
		args = append(args, key)
	}
	return sqlstore.OneOperation(db.lookUpRow(ctx), selectAdopted.with(len(adopted)), args...)
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

// SubscriptionOf reads one of an operator's subscribers, with its cycles and its open
// operation.
func (db *DB) SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, bool, error) {
	condition, argument := `s.id = ?1 AND s.operator_id = ?2`, id
	if id == "" {
		condition, argument = `s.mobile = ?1 AND s.operator_id = ?2`, mobile
	}
	var s operation.Subscription
	var found bool
	err := db.lookUp(ctx, func(from sqlstore.Querier) (err error) {
		s, found, err = sqlstore.ReadSubscription(from.QueryRow(`SELECT `+sqlstore.SubscriptionColumns+` FROM subscribers s WHERE `+condition, argument, operatorID))
		if err != nil || !found {
			return err
		}
		if err = readCycles(from, &s); err != nil || s.OpenOperation == "" {
			return err
		}
		return sqlstore.ReadPending(from, &s)
	})
	return s, found, err
}

// readCycles reads a subscriber's cycles in the order they were bought, with the names of
// their plans.
func readCycles(from sqlstore.Querier, s *operation.Subscription) error {
	s.Plans = map[string]string{}
	rows, err := from.Query(`
		SELECT c.plan_id, p.name, c.starts_at, c.ends_at
		  FROM cycles c JOIN plans p ON p.id = c.plan_id WHERE c.subscriber_id = ?1 ORDER BY c.seq`, s.ID)
	s.Cycles, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (c subscription.Cycle, err error) {
		var name string
		var starts, ends sql.NullInt64
		err = row.Scan(&c.PlanID, &name, &starts, &ends)
		c.StartsAt, c.EndsAt, s.Plans[c.PlanID] = sqlstore.Time(starts), sqlstore.Time(ends), name
		return c, err
	})
	if err != nil {
		return fmt.Errorf("read a subscriber's cycles: %w", err)
	}
	return nil
}
