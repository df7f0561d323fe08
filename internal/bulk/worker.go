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
	// poll is how often the store is asked whether a job is due.
	poll = 500 * time.Millisecond
	// rowsAtOnce is how many rows a node runs at a time: few, so that whoever calls
	// the API meanwhile hardly notices.
	rowsAtOnce = 4
	// turnRows and turnTime end a job's turn, so that others get theirs.
	turnRows = 40
	turnTime = 10 * time.Second
	// pauseFor is how long a job waits for the provider, or for the store, to be back;
	// repeatAfter how long for a row that somebody else has under way.
	pauseFor    = 5 * time.Second
	repeatAfter = time.Second
	// leastReview and mostReview bound how often rows in review are looked at.
	leastReview = 2 * time.Second
	mostReview  = 5 * time.Minute
	// interruptedCheck is how often an interrupted job is looked at for operations under
	// way that have ended.
	interruptedCheck = 5 * time.Second
	// keepDrafts is how long a draft is kept that nobody starts; purgeEvery and
	// purgeMost how often and how many are forgotten.
	keepDrafts = 24 * time.Hour
	purgeEvery = time.Minute
	purgeMost  = 1
	// leaseSlack is what a worker has beside the provider's time to write down what
	// came of its rows.
	leaseSlack = 10 * time.Second
)

// WorkerConfig is what a worker is told beside its parts.
type WorkerConfig struct {
	Now  func() time.Time
	Node string
	// Timeout is of one provider call.
	Timeout time.Duration
	// Problem is told what could not be done; it will be tried again.
	Problem func(error)
	// Settled is told what came of each row, from several goroutines; nil if nobody wants
	// to know. A row in review is told of again when it leaves that.
	Settled func(RowState)
}

// Worker runs the jobs that are due. Every node has one; a job is in one's hands at a
// time, and if two should have it after all, the rows' keys see to it that no row is
// charged twice.
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

// Run works until ctx ends, and then finishes the rows that it has begun.
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

// RunOnce gives the job that is due a turn; false if there was none.
func (w *Worker) RunOnce(ctx context.Context) (worked bool, err error) {
	now := w.config.Now()
	if !now.Before(w.purgeAt) {
		purged, err := w.store.PurgeBulkDrafts(ctx, now.Add(-keepDrafts), purgeMost)
		if err != nil {
			return false, fmt.Errorf("forget old drafts: %w", err)
		}
		if purged == 0 {
			w.purgeAt = now.Add(purgeEvery)
		}
	}
	due, err := w.store.BulkJobsDue(ctx, now)
	if err != nil || !due {
		return false, err
	}
	job, found, err := w.store.ClaimBulkJob(ctx, Claim{Now: now, Node: w.config.Node, Until: now.Add(w.lease())})
	if err != nil || !found {
		return false, err
	}
	return true, w.turn(ctx, job)
}

// lease is how long a job may be held without a word: as long as the two calls of a
// combo can take, and writing that down.
func (w *Worker) lease() time.Duration { return 2*w.config.Timeout + leaseSlack }

func (w *Worker) hold(job Job) Hold {
	now := w.config.Now()
	return Hold{OperatorID: job.OperatorID, JobID: job.ID, Epoch: job.Epoch, Now: now, Until: now.Add(w.lease())}
}

// turn runs rows of a job that was claimed, and lets go of it.
func (w *Worker) turn(ctx context.Context, job Job) error {
	again, why, err := w.work(ctx, job)
	if err != nil && ctx.Err() == nil {
		again = pauseFor
	}
	now := w.config.Now()
	hold := w.hold(job)
	hold.Now = now
	// Whoever stops the worker, the job is let go: another takes it up at once.
	releasing := w.store.ReleaseBulkJob(context.WithoutCancel(ctx), hold, Release{Again: now.Add(again), Why: why, Review: now.Add(reviewWait(job, now))})
	return errors.Join(err, releasing)
}

// reviewWait grows with the time that has passed since the rest of the job was done.
func reviewWait(job Job, now time.Time) time.Duration {
	if job.EndedAt.IsZero() {
		return leastReview
	}
	return min(max(now.Sub(job.EndedAt)/4, leastReview), mostReview)
}

// work runs rows until none is left, the turn is over, or there is no sense in going
// on. It says after how long the job is to be taken up again, and what it waits for.
func (w *Worker) work(ctx context.Context, job Job) (again time.Duration, why string, err error) {
	if job.State == Finished {
		return 0, "", w.lookBack(ctx, job)
	}
	if job.Interrupted != "" {
		return interruptedCheck, "", errors.Join(w.settleBegun(ctx, job), w.lookBack(ctx, job))
	}
	operator, err := w.store.Operator(ctx, job.OperatorID)
	if err != nil {
		return 0, "", fmt.Errorf("read the operator of bulk renewal %s: %w", job.ID, err)
	}
	if operator.Status != subscription.OperatorActive && job.CancelledAt.IsZero() {
		// The suspension itself interrupts the job; this is for one by an older release.
		if _, err := w.store.InterruptSuspendedBulkJobs(ctx, job.OperatorID, w.config.Now()); err != nil {
			return 0, "", fmt.Errorf("interrupt bulk renewal %s: %w", job.ID, err)
		}
		return pauseFor, "", nil
	}
	// What was begun is carried through, whoever stops the worker.
	carry := context.WithoutCancel(ctx)
	began := w.config.Now()
	for ran := 0; ran < turnRows && w.config.Now().Sub(began) < turnTime && ctx.Err() == nil; {
		hold := w.hold(job)
		now, rows, held, err := w.store.TakeBulkRows(ctx, hold, rowsAtOnce)
		if err != nil {
			return 0, "", fmt.Errorf("take rows of bulk renewal %s: %w", job.ID, err)
		}
		if !held || len(rows) == 0 {
			break
		}
		ran += len(rows)
		verdict, err := w.runAll(carry, now, hold, rows) // it may have been cancelled since
		if err != nil || verdict.again > 0 {
			return verdict.again, verdict.why, err
		}
	}
	return 0, "", w.lookBack(ctx, job)
}

// settleBegun settles the rows of an interrupted job whose operations have ended. A row
// that had begun and has no operation stays as it is, and nothing is begun.
func (w *Worker) settleBegun(ctx context.Context, job Job) error {
	page := Page{State: RowRunning, Limit: turnRows}
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

// verdict is what a row means for the rest of its job: nothing, or a pause.
type verdict struct {
	again time.Duration
	why   string
}

// runAll runs rows at the same time and writes down what comes of each as soon as it
// is known.
func (w *Worker) runAll(ctx context.Context, job Job, hold Hold, rows []Row) (worst verdict, err error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	var problems []error
	for _, row := range rows {
		if !w.config.Now().Before(hold.Until) {
			break // taking them outlasted the lease: they may be somebody else's
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

// run carries one row through. A row that was begun before is asked for under the
// same key, and is then given what came of it.
func (w *Worker) run(ctx context.Context, job Job, row Row) (verdict, error) {
	op, err := w.ask(ctx, job, row)
	var outcome Outcome
	code := fault.CodeOf(err)
	switch {
	case err == nil:
		outcome = outcomeOf(row, op)
	case code == fault.TransactionNotFound:
		// The job was cancelled before the row had become an operation.
		outcome = Outcome{Number: row.Number, State: RowCancelled}
	case code == fault.RequestInProgress:
		return verdict{again: repeatAfter}, nil
	case outage(code):
		return verdict{again: pauseFor, why: fault.From(err).Message}, nil
	case code == fault.InternalError:
		// It may have been charged: the row stays begun, and is asked about again.
		return verdict{again: pauseFor}, fmt.Errorf("row %d of bulk renewal %s: %w", row.Number, job.ID, err)
	default:
		outcome = Outcome{Number: row.Number, State: RowRefused, Code: code, Message: fault.From(err).Message}
	}
	return verdict{}, w.settle(ctx, job, outcome)
}

// settle writes down what came of a row.
func (w *Worker) settle(ctx context.Context, job Job, outcome Outcome) error {
	settled, err := w.store.SettleBulkRow(ctx, w.hold(job), outcome)
	if err != nil {
		return fmt.Errorf("settle row %d of bulk renewal %s: %w", outcome.Number, job.ID, err)
	}
	if settled {
		w.tell(outcome.State)
	}
	return nil
}

func (w *Worker) tell(states ...RowState) {
	for _, state := range states {
		if w.config.Settled != nil {
			w.config.Settled(state)
		}
	}
}

// lookBack looks once more at rows in review, and at rows that were given up.
func (w *Worker) lookBack(ctx context.Context, job Job) error {
	mended, err := mend(ctx, w.store, w.operations, job, w.config.Now)
	w.tell(mended...)
	return errors.Join(err, w.followReviews(ctx, job))
}

// ask makes a row's request. Of a job that was cancelled it only looks what has come
// of the row.
func (w *Worker) ask(ctx context.Context, job Job, row Row) (operation.Operation, error) {
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

// outcomeOf is what an operation means for its row.
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

// followReviews looks what has become of the rows in review, and settles those that
// have left it.
func (w *Worker) followReviews(ctx context.Context, job Job) error {
	page := Page{State: RowInReview, Limit: turnRows}
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
