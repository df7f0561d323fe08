package bulk

import (
	"context"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

// CanRetry reports whether a row was refused for a reason that may have passed: the wallet
// was empty, another operation was under way, or the provider rejected it, as it does
// shortly before an outage. The row has cost nothing.
func (r Row) CanRetry() bool {
	return r.State == RowRefused && (transient(r.Code) || r.Code == fault.ProviderError)
}

// CanRetry reports whether a job is finished and has rows that can be retried.
func (s *Service) CanRetry(ctx context.Context, job Job) (bool, error) {
	if job.State != Finished || job.Progress.Refused == 0 {
		return false, nil
	}
	for row, err := range s.each(ctx, job.OperatorID, job.ID, RowRefused) {
		if err != nil || row.CanRetry() {
			return err == nil, err
		}
	}
	return false, nil
}

// Retry makes a new draft of the rows of a job that can be retried: nothing is charged
// before it is started. A subscriber who was renewed meanwhile, or is being renewed, is
// refused in it. The order gives the actor and the title; the rows come from the job.
func (s *Service) Retry(ctx context.Context, id string, o Order) (Job, error) {
	job, err := s.Job(ctx, o.OperatorID, id)
	switch {
	case err != nil:
		return Job{}, err
	case job.State != Finished:
		return Job{}, refuse("The bulk renewal is not finished yet. Wait for it, and try again then.")
	}
	o.Selections, o.PlanID = nil, ""
	for row, err := range s.each(ctx, o.OperatorID, id, RowRefused) {
		if err != nil {
			return Job{}, err
		}
		if row.CanRetry() {
			o.Kind = row.Kind // the same for all rows of a job
			o.Selections = append(o.Selections, Selection{
				Line: row.Line, SubscriberID: row.SubscriberID, Mobile: row.Mobile, PlanID: row.PlanID, NotRenewedSince: row.BegunAt,
			})
		}
	}
	if len(o.Selections) == 0 {
		return Job{}, refuse("None of its rows can be tried again.")
	}
	return s.Prepare(ctx, o)
}

// renewedSince refuses a row whose subscriber was renewed after a moment, or is being
// renewed: the failed renewal has been replaced.
func (s *Service) renewedSince(ctx context.Context, job Job, row *Row, moment time.Time) error {
	found, err := s.operations.Subscription(ctx, job.OperatorID, row.SubscriberID, row.Mobile)
	if err != nil {
		return row.setRefusal(err)
	}
	switch {
	case found.RenewedAt.After(moment):
		row.State, row.Code, row.Message = RowRefused, fault.DuplicateRequest, "The subscriber was renewed since the first try."
	case len(found.Pending) > 0:
		row.State, row.Code, row.Message = RowRefused, fault.OperationInProgress, "Something else is under way for this subscriber."
	default:
		return nil
	}
	row.identify(found.Subscriber)
	return nil
}
