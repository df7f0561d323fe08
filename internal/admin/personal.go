package admin

import (
	"context"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// Forgotten is what ForgetSubscriber replaced.
type Forgotten struct {
	OperatorID int64
	// Already: the subscriber was forgotten before, and only what had been left was replaced.
	Already bool
	// Operations and BulkRows had the name and the mobile number; Texts are replies of the provider
	// and exceptions that had any of the data.
	Operations, BulkRows, Texts int
}

// ForgetSubscriber replaces a subscriber's name, mobile number and other contact data wherever the store
// has them, and removes the history of its changes. Amounts, plans and dates stay. It refuses while the data may still be needed: until keep
// after the last cycle and operation, as long as anything is under way, or an exception is open.
func (s *Service) ForgetSubscriber(ctx context.Context, id string, keep time.Duration, reason string) (Forgotten, error) {
	action, err := s.newReasonedAction(SubscriberForget, reason)
	if err != nil {
		return Forgotten{}, err
	}
	return s.store.ForgetSubscriber(ctx, action, id, keep)
}

// SubscriberData is all that the store has about a subscriber.
type SubscriberData struct {
	OperatorID   int64
	Subscription operation.Subscription
	// Operations include activations of the same number that failed.
	Operations []OperationHistory
	Ledger     []LedgerEntry
	Exceptions []ExceptionEntry
	BulkRows   []BulkRowEntry
	// ContactChanges are newest first.
	ContactChanges []ContactChange
	// Actions are the staff actions on the subscriber and its operations.
	Actions []AuditEntry
}

// BulkRowEntry is a subscriber's row in a bulk renewal.
type BulkRowEntry struct {
	JobID                string
	Number               int
	Mobile, Name, PlanID string
	State                string
	TransactionID        string
	BegunAt, EndedAt     time.Time
}

// ExportSubscriber reads all that the store has about a subscriber.
func (s *Service) ExportSubscriber(ctx context.Context, id string) (SubscriberData, error) {
	return s.store.ExportSubscriber(ctx, id)
}
