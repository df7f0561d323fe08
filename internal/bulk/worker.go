package bulk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

const (
	// poll is how often a worker looks for a due job.
	poll = 500 * time.Millisecond
	// rowsAtOnce is how many rows a node runs concurrently: few, so that API requests are
	// hardly affected.
	rowsAtOnce = 4
	// sliceRows and sliceTime end a slice of a job, so that other jobs are not delayed.
	sliceRows = 40
	sliceTime = 10 * time.Second
	// retryAfterOutage is how long a job pauses while the provider or the store is
	// unavailable; retryInProgress how long for a row whose request is in progress elsewhere.
	retryAfterOutage = 5 * time.Second
	retryInProgress  = time.Second
	// minReviewWait and maxReviewWait bound how often rows in review are checked.
	minReviewWait = 2 * time.Second
	maxReviewWait = 5 * time.Minute
	// interruptedCheck is how often an interrupted job is checked for operations that have
	// ended.
	interruptedCheck = 5 * time.Second
	// draftRetention is how long a draft is stored that is not started; purgeEvery and
	// purgeBatch how often and how many are deleted.
	draftRetention = 24 * time.Hour
	purgeEvery     = time.Minute
	purgeBatch     = 1
	// leaseSlack is the time to write the outcome of rows, beside the provider's time.
	leaseSlack = 10 * time.Second
)

// WorkerConfig configures a Worker.
type WorkerConfig struct {
	Now  func() time.Time
	Node string
	// Timeout is the timeout of one provider call.
	Timeout time.Duration
	// Problem receives errors; the work is retried.
	Problem func(error)
	// Settled receives the outcome of each row, from several goroutines; may be nil. A row
	// in review is reported again when it leaves that state.
	Settled func(RowState)
}

// Worker runs the jobs that are due. Every node has one. A lease gives a job to one worker
// at a time; if two should run it after all, the rows' idempotency keys prevent a double
// charge.
type Worker struct {
	store      Store
	operations Operations
	config     WorkerConfig
	purgeAt    time.Time
}

// NewWorker returns a worker.
func NewWorker(store Store, operations Operations, config WorkerConfig) *Worker {
	return &Worker{store: store, operations: operations, config: config}
}

// Run runs jobs until ctx ends, and then finishes the rows that it has begun.
func (w *Worker) Run(ctx context.Context) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		worked, err := w.RunOnce(ctx)
		if err != nil && ctx.Err() == nil {
			w.config.Problem(err)
		}
		if worked && err == nil && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// RunOnce runs a slice of a due job; false if there was none.
func (w *Worker) RunOnce(ctx context.Context) (worked bool, err error) {
	now := w.config.Now()
	if !now.Before(w.purgeAt) {
		purged, err := w.store.PurgeBulkDrafts(ctx, now.Add(-draftRetention), purgeBatch)
		if err != nil {
			return false, fmt.Errorf("purge old drafts: %w", err)
		}
		if purged == 0 {
			w.purgeAt = now.Add(purgeEvery)
		}
	}
	due, err := w.store.BulkJobsDue(ctx, now)
	if err != nil || !due {
		return false, err
	}
	job, found, err := w.store.ClaimBulkJob(ctx, Claim{Now: now, Node: w.config.Node, Until: now.Add(w.leaseTime())})
	if err != nil || !found {
		return false, err
	}
	return true, w.runSlice(ctx, job)
}

// leaseTime is how long a lease lasts: as long as the two provider calls of a combo can
// take, and leaseSlack.
func (w *Worker) leaseTime() time.Duration { return 2*w.config.Timeout + leaseSlack }

func (w *Worker) lease(job Job) Lease {
	now := w.config.Now()
	return Lease{OperatorID: job.OperatorID, JobID: job.ID, Epoch: job.Epoch, Now: now, Until: now.Add(w.leaseTime())}
}

// runSlice runs rows of a claimed job, and releases it.
func (w *Worker) runSlice(ctx context.Context, job Job) error {
	again, why, err := w.work(ctx, job)
	if err != nil && ctx.Err() == nil {
		again = retryAfterOutage
	}
	now := w.config.Now()
	lease := w.lease(job)
	lease.Now = now
	// Also when the worker is stopped, so that another one can continue at once.
	releasing := w.store.ReleaseBulkJob(context.WithoutCancel(ctx), lease, Release{Again: now.Add(again), Why: why, Review: now.Add(reviewWait(job, now))})
	return errors.Join(err, releasing)
}

// reviewWait grows with the time since all other rows were settled.
func reviewWait(job Job, now time.Time) time.Duration {
	if job.EndedAt.IsZero() {
		return minReviewWait
	}
	return min(max(now.Sub(job.EndedAt)/4, minReviewWait), maxReviewWait)
}

// work runs rows until none is left, the slice is over, or the job has to pause. It returns
// after how long the job is due again, and the reason of a pause.
func (w *Worker) work(ctx context.Context, job Job) (again time.Duration, why string, err error) {
	if job.State == Finished {
		return 0, "", w.followUp(ctx, job)
	}
	if job.Interrupted != "" {
		return interruptedCheck, "", errors.Join(w.settleBegun(ctx, job), w.followUp(ctx, job))
	}
	operator, err := w.store.Operator(ctx, job.OperatorID)
	if err != nil {
		return 0, "", fmt.Errorf("read the operator of bulk renewal %s: %w", job.ID, err)
	}
	if operator.Status != subscription.OperatorActive && job.CancelledAt.IsZero() {
		// A suspension interrupts the job itself; this is for one by an older release.
		if _, err := w.store.InterruptSuspendedBulkJobs(ctx, job.OperatorID, w.config.Now()); err != nil {
			return 0, "", fmt.Errorf("interrupt bulk renewal %s: %w", job.ID, err)
		}
		return retryAfterOutage, "", nil
	}
	// Rows that have begun are completed even when the worker is stopped.
	carry := context.WithoutCancel(ctx)
	began := w.config.Now()
	for ran := 0; ran < sliceRows && w.config.Now().Sub(began) < sliceTime && ctx.Err() == nil; {
		lease := w.lease(job)
		now, rows, held, err := w.store.TakeBulkRows(ctx, lease, rowsAtOnce)
		if err != nil {
			return 0, "", fmt.Errorf("take rows of bulk renewal %s: %w", job.ID, err)
		}
		if !held || len(rows) == 0 {
			break
		}
		ran += len(rows)
		pause, err := w.runAll(carry, now, lease, rows) // the job may have been cancelled since
		if err != nil || pause.again > 0 {
			return pause.again, pause.why, err
		}
	}
	return 0, "", w.followUp(ctx, job)
}

// settleBegun settles the rows of an interrupted job whose operations have ended. A row
// without an operation stays as it is, and no row is started.
func (w *Worker) settleBegun(ctx context.Context, job Job) error {
	page := Page{State: RowRunning, Limit: sliceRows}
	for {
		rows, err := w.store.BulkRows(ctx, job.OperatorID, job.ID, page)
		if err != nil {
			return fmt.Errorf("read the begun rows of bulk renewal %s: %w", job.ID, err)
		}
		for _, row := range rows {
			page.After = row.Number
			op, err := w.operations.Transaction(ctx, job.OperatorID, "", row.IdempotencyKey)
			switch {
			case fault.Is(err, fault.TransactionNotFound):
				continue
			case err != nil:
				return fmt.Errorf("look up row %d of bulk renewal %s: %w", row.Number, job.ID, err)
			case op.State == operation.Processing:
				continue
			}
			if err := w.settle(ctx, job, outcomeOf(row, op)); err != nil {
				return err
			}
		}
		if len(rows) < page.Limit {
			return nil
		}
	}
}

// pause is for how long, and why, a row makes its job pause; zero if it does not.
type pause struct {
	again time.Duration
	why   string
}

// runAll runs rows concurrently and settles each as soon as its outcome is known.
func (w *Worker) runAll(ctx context.Context, job Job, lease Lease, rows []Row) (worst pause, err error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	var problems []error
	for _, row := range rows {
		if !w.config.Now().Before(lease.Until) {
			break // the lease has ended: another node may have the rows
		}
		group.Go(func() {
			got, err := w.run(ctx, job, row)
			mu.Lock()
			defer mu.Unlock()
			if got.again > worst.again {
				worst = got
			}
			if err != nil {
				problems = append(problems, err)
			}
		})
	}
	group.Wait()
	return worst, errors.Join(problems...)
}

// run runs one row. A row that had begun before is repeated under the same key, and gets
// the result of the first request.
func (w *Worker) run(ctx context.Context, job Job, row Row) (pause, error) {
	op, err := w.process(ctx, job, row)
	var outcome Outcome
	code := fault.CodeOf(err)
	switch {
	case err == nil:
		outcome = outcomeOf(row, op)
	case code == fault.TransactionNotFound:
		// The job was cancelled before the row had an operation.
		outcome = Outcome{Number: row.Number, State: RowCancelled}
	case code == fault.RequestInProgress:
		return pause{again: retryInProgress}, nil
	case outage(code):
		return pause{again: retryAfterOutage, why: fault.From(err).Message}, nil
	case code == fault.InternalError:
		// It may have been charged: the row stays begun, and is retried.
		return pause{again: retryAfterOutage}, fmt.Errorf("row %d of bulk renewal %s: %w", row.Number, job.ID, err)
	default:
		outcome = Outcome{Number: row.Number, State: RowRefused, Code: code, Message: fault.From(err).Message}
	}
	return pause{}, w.settle(ctx, job, outcome)
}

// settle writes a row's outcome.
func (w *Worker) settle(ctx context.Context, job Job, outcome Outcome) error {
	settled, err := w.store.SettleBulkRow(ctx, w.lease(job), outcome)
	if err != nil {
		return fmt.Errorf("settle row %d of bulk renewal %s: %w", outcome.Number, job.ID, err)
	}
	if settled {
		w.notify(outcome.State)
	}
	return nil
}

func (w *Worker) notify(states ...RowState) {
	for _, state := range states {
		if w.config.Settled != nil {
			w.config.Settled(state)
		}
	}
}

// followUp reconciles refused and cancelled rows, and checks rows in review.
func (w *Worker) followUp(ctx context.Context, job Job) error {
	reconciled, err := reconcile(ctx, w.store, w.operations, job, w.config.Now)
	w.notify(reconciled...)
	return errors.Join(err, w.followReviews(ctx, job))
}

// process makes a row's request. For a cancelled job it only looks for the row's operation.
func (w *Worker) process(ctx context.Context, job Job, row Row) (operation.Operation, error) {
	if !job.CancelledAt.IsZero() {
		op, err := w.operations.Transaction(ctx, job.OperatorID, "", row.IdempotencyKey)
		if err == nil && op.State == operation.Processing {
			err = fault.New(fault.RequestInProgress, "The operation is under way.")
		}
		return op, err
	}
	result, err := w.operations.Process(ctx, row.request(job))
	return result.Operation, err
}

// outcomeOf converts an operation into its row's outcome.
func outcomeOf(row Row, op operation.Operation) Outcome {
	o := Outcome{Number: row.Number, Code: op.Code(), OperationID: op.ID, Amount: op.Amount}
	switch op.State {
	case operation.Success:
		o.State, o.Expiry = RowDone, op.ExpiryPlanned
	case operation.Failed:
		o.State, o.Amount, o.Message = RowRefused, op.Charged(), op.ProviderMessage
	default:
		o.State = RowInReview
	}
	return o
}

// followReviews settles the rows in review whose operations have been settled.
func (w *Worker) followReviews(ctx context.Context, job Job) error {
	page := Page{State: RowInReview, Limit: sliceRows}
	for {
		rows, err := w.store.BulkRows(ctx, job.OperatorID, job.ID, page)
		if err != nil {
			return fmt.Errorf("read the rows in review of bulk renewal %s: %w", job.ID, err)
		}
		for _, row := range rows {
			page.After = row.Number
			op, err := w.operations.Transaction(ctx, job.OperatorID, row.OperationID, "")
			if err != nil {
				return fmt.Errorf("look up row %d of bulk renewal %s: %w", row.Number, job.ID, err)
			}
			if op.State.Open() {
				continue
			}
			if err := w.settle(ctx, job, outcomeOf(row, op)); err != nil {
				return err
			}
		}
		if len(rows) < page.Limit {
			return nil
		}
	}
}
