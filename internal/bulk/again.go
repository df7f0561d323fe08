package bulk

import (
	"context"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

// MayTryAgain reports whether a row failed for a reason that may have passed: the
// wallet was empty, something else was under way, or the provider refused it, as it
// does when it is about to go out. The row has cost nothing.
func (r Row) MayTryAgain() bool {
	return r.State == RowRefused && (passing(r.Code) || r.Code == fault.ProviderError)
}

// MayTryAgain reports whether a job is over and has rows that may be tried again.
func (d *Service) MayTryAgain(ctx context.Context, job Job) (bool, error) {
	if job.State != Finished || job.Progress.Refused == 0 {
		return false, nil
	}
	for row, err := range d.each(ctx, job.OperatorID, job.ID, RowRefused) {
		if err != nil || row.MayTryAgain() {
			return err == nil, err
		}
	}
	return false, nil
}

// TryAgain checks the rows of a job that may be tried again as a list of their own, and
// keeps that as a draft: nothing is charged before it is started. A subscriber who was
// renewed meanwhile, or is just being renewed, is refused in it. The order says whose
// the list is and what it is called; what is in it comes from the job.
func (d *Service) TryAgain(ctx context.Context, id string, o Order) (Job, error) {
	job, err := d.Job(ctx, o.OperatorID, id)
	switch {
	case err != nil:
		return Job{}, err
	case job.State != Finished:
		return Job{}, refuse("The bulk renewal is not finished yet. Wait for it, and try again then.")
	}
	o.Wishes, o.PlanID = nil, ""
	for row, err := range d.each(ctx, o.OperatorID, id, RowRefused) {
		if err != nil {
			return Job{}, err
		}
		if row.MayTryAgain() {
			o.Kind = row.Kind // which is the same for all rows of a job
			o.Wishes = append(o.Wishes, Wish{
				Line: row.Line, SubscriberID: row.SubscriberID, Mobile: row.Mobile, PlanID: row.PlanID, NotSince: row.BegunAt,
			})
		}
	}
	if len(o.Wishes) == 0 {
		return Job{}, refuse("None of its rows can be tried again.")
	}
	return d.Prepare(ctx, o)
}

// renewedSince refuses a row whose subscriber was renewed after a moment, or is being
// renewed: what failed then has been made good otherwise.
func (d *Service) renewedSince(ctx context.Context, job Job, row *Row, moment time.Time) error {
	found, err := d.operations.Subscription(ctx, job.OperatorID, row.SubscriberID, row.Mobile)
	if err != nil {
		return row.judge(err)
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
