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
		return Job{}, refuse("The bulk renewal is not finished yet. Try again when it is.")
	}
	o.Selections, o.PlanID = nil, ""
	for row, err := range s.each(ctx, o.OperatorID, id, RowRefused) {
		if err != nil {
			return Job{}, err
		}
		if row.CanRetry() {
			o.Kind = row.Kind // the same for all rows of a job
			o.Selections = append(o.Selections, Selection{
				Line: row.Line, SubscriberID: row.SubscriberID, Mobile: row.Mobile, PlanID: row.PlanID, NotRenewedSince: row.firstTried(job),
			})
		}
	}
	if len(o.Selections) == 0 {
		return Job{}, refuse("None of its rows can be retried.")
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
		row.State, row.Code, row.Message = RowRefused, fault.OperationInProgress, "Another operation is in progress for this subscriber."
	default:
		return nil
	}
	row.identify(found.Subscriber)
	return nil
}

// recently is how long after a renewal another one looks like a mistake.
const recently = 24 * time.Hour

// RecentlyRenewed returns the rows of a draft whose subscribers were renewed in the last 24 hours,
// by their numbers: they can be renewed again, but that may be a mistake.
func (s *Service) RecentlyRenewed(ctx context.Context, job Job) (map[int]RenewedRow, error) {
	if job.State != Draft {
		return nil, nil
	}
	rows, err := s.store.RecentlyRenewedRows(ctx, job.OperatorID, job.ID, s.now().Add(-recently))
	byNumber := make(map[int]RenewedRow, len(rows))
	for _, row := range rows {
		byNumber[row.Number] = row
	}
	return byNumber, err
}

// errExpired is the refusal to start a draft whose check is too old.
var errExpired error = refuse("The list was checked more than an hour ago. Check it again.")

// Outdated returns why a draft has to be checked again before it can be started, as a Refusal;
// nil if it need not be.
func (s *Service) Outdated(ctx context.Context, job Job) (why, err error) {
	if job.State != Draft {
		return nil, nil
	}
	if s.now().Sub(job.CreatedAt) > draftLifetime {
		return errExpired, nil
	}
	latest, err := s.store.BulkJobs(ctx, job.OperatorID, time.Time{}, 1)
	if err == nil && len(latest) > 0 && latest[0].StartedAt.After(job.CreatedAt) {
		return ErrOutdated, nil
	}
	return nil, err
}

// CheckAgain makes a new draft of the rows of a draft, checked anew. Repeated, it makes the same
// one, unless that was discarded.
func (s *Service) CheckAgain(ctx context.Context, job Job, actor string) (Job, error) {
	if job.State != Draft {
		return Job{}, refuse("The list was started or discarded already.")
	}
	o := Order{OperatorID: job.OperatorID, Actor: actor, Title: job.Title, Voucher: "again " + job.ID}
	for row, err := range s.each(ctx, job.OperatorID, job.ID, "") {
		if err != nil {
			return Job{}, err
		}
		o.Kind = row.Kind // the same for all rows of a job
		o.Selections = append(o.Selections, Selection{
			Line: row.Line, SubscriberID: row.SubscriberID, Mobile: row.Mobile, PlanID: row.PlanID, NotRenewedSince: row.NotRenewedSince,
		})
	}
	return s.Prepare(ctx, o)
}
