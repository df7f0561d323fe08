package admin

import (
	"context"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// reasoned is an act that needs a reason.
func (d *Service) reasoned(action Action, reason string) (StaffAction, error) {
	act, reason := d.act(action), strings.TrimSpace(reason)
	act.Reason = act.noted(reason)
	return act, checkText("reason", reason, 1, 500)
}

// InReview lists the operations that are in review, those that wait for a person
// among them.
func (d *Service) InReview(ctx context.Context) ([]operation.Operation, error) {
	return d.store.ListOperations(ctx, OperationFilter{State: operation.NeedsReview, Most: 10_000})
}

// ReviewDue is how long an operation may be in review before somebody should have
// dealt with it: money that is a day old is asked about.
const ReviewDue = 24 * time.Hour

// overdueMost bounds a list that nobody would read to its end.
const overdueMost = 1000

// OverdueReviews lists the operations that have been in review for ReviewDue or
// longer, the oldest first.
func (d *Service) OverdueReviews(ctx context.Context, now time.Time) ([]operation.Operation, error) {
	return d.store.OverdueReviews(ctx, now.Add(-ReviewDue), overdueMost)
}

// SettleReview decides an operation in review by a person's word: confirmed, it
// is charged and the subscription runs; rejected, the money goes back.
func (d *Service) SettleReview(ctx context.Context, transactionID string, confirm bool, reason string) (operation.Operation, error) {
	act, err := d.reasoned(ReviewSettle, reason)
	if err != nil {
		return operation.Operation{}, err
	}
	if d.limited {
		op, err := d.store.OperationHistory(ctx, transactionID)
		if err != nil {
			return operation.Operation{}, err
		}
		if err := d.alone(op.Amount); err != nil {
			return operation.Operation{}, err
		}
	}
	return d.store.SettleReview(ctx, act, settlementBy(act, transactionID, confirm))
}

// settlementBy is what a person's word makes of an operation in review.
func settlementBy(act StaffAction, transactionID string, confirm bool) operation.Settlement {
	s := operation.Settlement{
		OperationID: transactionID, To: operation.Success, At: act.At, Actor: act.Actor, Why: act.Reason, AddonNextAt: act.At,
	}
	if !confirm {
		s.To, s.Reason, s.AddonNextAt = operation.Failed, operation.RejectedByReview, time.Time{}
		s.ProviderMessage = "The operation was reviewed and not confirmed."
		// The provider has not been told: the nodes see to that at once.
		s.NextCheckAt = act.At
	}
	return s
}

// Exceptions lists what only a person can decide.
func (d *Service) Exceptions(ctx context.Context, closed bool) ([]ExceptionEntry, error) {
	return d.store.Exceptions(ctx, closed)
}

// CloseException notes that a person has dealt with an exception.
func (d *Service) CloseException(ctx context.Context, id int64, reason string) error {
	act, err := d.reasoned(ExceptionClose, reason)
	if err != nil {
		return err
	}
	return d.store.CloseException(ctx, act, id)
}

// MissingAddons lists the combos whose add-on is being followed up.
func (d *Service) MissingAddons(ctx context.Context) ([]operation.Operation, error) {
	return d.store.MissingAddons(ctx)
}

// CloseAddon ends the following up of an add-on. The operation keeps its
// warning: the add-on was never had.
func (d *Service) CloseAddon(ctx context.Context, transactionID, reason string) error {
	act, err := d.reasoned(AddonClose, reason)
	if err != nil {
		return err
	}
	return d.store.CloseAddon(ctx, act, transactionID)
}
