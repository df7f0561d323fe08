package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/operation"
)

// SubscriptionColumns are those of a subscriber s, read by ReadSubscription: the subscriber,
// the profile, and the provider of the operation that made the last cycle. With LIMIT
// PostgreSQL uses the index by subscriber: if it estimates the table as small, it would
// read all open operations.
const SubscriptionColumns = `s.id, s.operator_id, s.mobile, s.name, s.expires_at, s.version,
	coalesce((SELECT o.id FROM operations o WHERE o.subscriber_id = s.id AND o.status IN ('processing', 'needs_review') LIMIT 1), s.reversing),
	s.email, s.address, s.area, s.box_number, s.notes, s.connection_type, s.activated_at, s.renewed_at, s.last_provider_transaction,
	(SELECT o.provider FROM cycles c JOIN operations o ON o.id = c.operation_id WHERE c.subscriber_id = s.id ORDER BY c.seq DESC LIMIT 1)`

// ReadSubscription reads SubscriptionColumns, and further columns into the given targets;
// found is false if there is no row.
func ReadSubscription(row Row, further ...any) (s operation.Subscription, found bool, err error) {
	var open, transaction, provider sql.NullString
	var expires, activated, renewed sql.NullInt64
	err = row.Scan(append([]any{&s.ID, &s.OperatorID, &s.Mobile, &s.Name, &expires, &s.Version, &open,
		&s.Email, &s.Address, &s.Area, &s.BoxNumber, &s.Notes, &s.ConnectionType, &activated, &renewed, &transaction, &provider}, further...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("read a subscriber: %w", err)
	}
	s.Expires, s.CreatedAt, s.RenewedAt = Time(expires), Time(activated), Time(renewed)
	s.OpenOperation, s.LastProviderTransaction, s.Provider = open.String, transaction.String, provider.String
	return s, true, nil
}

// ReadPending adds the open operations to a subscriber, the names of their plans, and their
// provider. Nearly always there are none.
func ReadPending(from Querier, s *operation.Subscription) error {
	rows, err := from.Query(`
		SELECT `+OperationColumns+` FROM operations
		 WHERE subscriber_id = $1 AND status IN ('processing', 'needs_review') ORDER BY created_at, id`, s.ID)
	if s.Pending, err = Collect(rows, err, ReadOperation); err != nil {
		return fmt.Errorf("read pending operations: %w", err)
	}
	for _, op := range s.Pending {
		var name string
		if err := from.QueryRow(`SELECT name FROM plans WHERE id = $1`, op.PlanID).Scan(&name); err != nil {
			return fmt.Errorf("read the name of plan %s: %w", op.PlanID, err)
		}
		s.Plans[op.PlanID], s.Provider = name, op.Provider
	}
	return nil
}
