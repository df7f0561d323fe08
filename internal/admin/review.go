package admin

import (
	"context"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// newReasonedAction returns an action that needs a reason.
func (s *Service) newReasonedAction(name Action, reason string) (StaffAction, error) {
	action, reason := s.newAction(name), strings.TrimSpace(reason)
	action.Reason = action.withVoucherNote(reason)
	return action, checkText("reason", reason, 1, 500)
}

// InReview lists the operations in review, including those that wait for a person.
func (s *Service) InReview(ctx context.Context) ([]operation.Operation, error) {
	return s.store.ListOperations(ctx, OperationFilter{State: operation.NeedsReview, Limit: 10_000})
}

// ReviewDue is how long an operation may be in review before it is overdue: customers ask
// about money that has been held for a day.
const ReviewDue = 24 * time.Hour

// maxOverdueListed bounds the list of overdue reviews.
const maxOverdueListed = 1000

// Hold sums up operations that hold money.
type Hold struct {
	Count  int
	Amount money.Amount
	// Oldest is when the one that has been in its status for longest came to it.
	Oldest time.Time
}

// OverdueReviews lists the operations that have been in review for ReviewDue or
// longer, the oldest first.
func (s *Service) OverdueReviews(ctx context.Context, now time.Time) ([]operation.Operation, error) {
	return s.store.OverdueReviews(ctx, now.Add(-ReviewDue), maxOverdueListed)
}

// SettleReview settles an operation in review by hand: confirmed, it is charged and the
// subscription runs; rejected, the money is refunded.
func (s *Service) SettleReview(ctx context.Context, transactionID string, confirm bool, reason string) (operation.Operation, error) {
	action, err := s.newReasonedAction(ReviewSettle, reason)
	if err != nil {
		return operation.Operation{}, err
	}
	if s.limited {
		op, err := s.store.OperationHistory(ctx, transactionID)
		if err != nil {
			return operation.Operation{}, err
		}
		if err := s.checkAmount(op.Amount); err != nil {
			return operation.Operation{}, err
		}
	}
	return s.store.SettleReview(ctx, action, settlementBy(action, transactionID, confirm))
}

// settlementBy returns the settlement of an operation in review by a person.
func settlementBy(action StaffAction, transactionID string, confirm bool) operation.Settlement {
	s := operation.Settlement{
		OperationID: transactionID, To: operation.Success, At: action.At, Actor: action.Actor, Why: action.Reason, AddonNextAt: action.At,
	}
	if !confirm {
		s.To, s.Reason, s.AddonNextAt = operation.Failed, operation.RejectedByReview, time.Time{}
		s.ProviderMessage = "The operation was reviewed and not confirmed."
		// The provider does not know yet: a node voids the order at once.
		s.NextCheckAt = action.At
	}
	return s
}

// Exceptions lists what only a person can decide.
func (s *Service) Exceptions(ctx context.Context, closed bool) ([]ExceptionEntry, error) {
	return s.store.Exceptions(ctx, closed)
}

// CloseException records that a person has dealt with an exception.
func (s *Service) CloseException(ctx context.Context, id int64, reason string) error {
	action, err := s.newReasonedAction(ExceptionClose, reason)
	if err != nil {
		return err
	}
	return s.store.CloseException(ctx, action, id)
}

// MissingAddons lists the combos whose add-on is being followed up.
func (s *Service) MissingAddons(ctx context.Context) ([]operation.Operation, error) {
	return s.store.MissingAddons(ctx)
}

// CustomerNames are the customers' names of operations, by operation.
func (s *Service) CustomerNames(ctx context.Context, ids []string) (map[string]string, error) {
	return s.store.CustomerNames(ctx, ids)
}

// AddonCalls counts the provider calls about the add-ons of operations, by operation.
func (s *Service) AddonCalls(ctx context.Context, ids []string) (map[string]int, error) {
	return s.store.AddonCalls(ctx, ids)
}

// CloseAddon ends the follow-up of an add-on. The operation keeps its warning: the add-on
// was never delivered.
func (s *Service) CloseAddon(ctx context.Context, transactionID, reason string) error {
	action, err := s.newReasonedAction(AddonClose, reason)
	if err != nil {
		return err
	}
	return s.store.CloseAddon(ctx, action, transactionID)
}

// Adopt records an operation that the provider has carried out and the store has forgotten. It
// is charged like the forgotten one, and found again under the client's key. adopted is false
// if it is there already.
func (s *Service) Adopt(ctx context.Context, a operation.Adoption, reason string) (op operation.Operation, adopted bool, err error) {
	action, err := s.newReasonedAction(OperationAdopt, reason)
	if err != nil {
		return op, false, err
	}
	made, err := operation.Adopt(a, action.Actor, action.Reason, action.At)
	if err != nil {
		return op, false, err
	}
	if a.Main.Kind == operation.Activate {
		// As for any activation, a number or id of an operator that was deleted long ago is free.
		if _, err := s.store.ReleaseLapsed(ctx, []subscription.Claim{{Mobile: a.Main.Mobile, SubscriberID: a.Main.SubscriberID}}, action.At); err != nil {
			return op, false, err
		}
	}
	return s.store.AdoptOperation(ctx, action, made)
}
