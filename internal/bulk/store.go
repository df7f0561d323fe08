package bulk

import (
	"context"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Store is what jobs need kept. Each method is one fact.
type Store interface {
	// KeepBulkJob keeps a draft and its rows.
	KeepBulkJob(ctx context.Context, job Job, rows []Row) error

	// StartBulkJob lets workers have a draft. It is refused with ErrAnotherRuns while
	// another job of the operator runs, with ErrOutdated where one was started since
	// this draft was checked, with ErrSuspended while the operator is not active, and with
	// operation.ErrMaintenance in maintenance. False if it is no draft, or none of the operator's.
	StartBulkJob(ctx context.Context, operatorID int64, id string, now time.Time) (started bool, err error)

	// CancelBulkJob cancels the rows that have not begun, and the job with them. A
	// draft is finished by it. False if the job is over, or none of the operator's.
	CancelBulkJob(ctx context.Context, operatorID int64, id string, now time.Time) (cancelled bool, err error)

	// InterruptIdleBulkJobs interrupts the running jobs that have been due since before
	// a moment, and counts them.
	InterruptIdleBulkJobs(ctx context.Context, since, now time.Time) (interrupted int, err error)

	// InterruptSuspendedBulkJobs interrupts the running job of an operator that is not
	// active; false if the operator is active.
	InterruptSuspendedBulkJobs(ctx context.Context, operatorID int64, now time.Time) (suspended bool, err error)

	// ContinueBulkJob lets workers have an interrupted job again; it is refused with
	// operation.ErrMaintenance in maintenance, and with ErrSuspended while the operator is
	// not active. False if the job is not interrupted.
	ContinueBulkJob(ctx context.Context, operatorID int64, id, actor string, now time.Time) (continued bool, err error)

	// InterruptedBulkJobs reads the jobs of all operators that wait for a person,
	// without their progress.
	InterruptedBulkJobs(ctx context.Context) ([]Job, error)

	// BulkJob reads one of an operator's jobs; BulkJobs the latest of them that were
	// started, the last one first.
	BulkJob(ctx context.Context, operatorID int64, id string) (job Job, found bool, err error)
	BulkJobs(ctx context.Context, operatorID int64, most int) ([]Job, error)

	// BulkRows reads rows of a job in their order.
	BulkRows(ctx context.Context, operatorID int64, id string, page Page) ([]Row, error)

	// BulkJobsDue reports whether there is a job to take, without taking it.
	BulkJobsDue(ctx context.Context, now time.Time) (bool, error)

	// ClaimBulkJob takes the job that has been due for longest into the given hands,
	// under a new epoch; false if none is due.
	ClaimBulkJob(ctx context.Context, claim Claim) (job Job, found bool, err error)

	// TakeOverBulkJobs makes every job due at once, for a node that knows that it is
	// the only one.
	TakeOverBulkJobs(ctx context.Context, now time.Time) error

	// TakeBulkRows keeps a job in the given hands for longer and returns rows to run:
	// those that had begun in other hands first, and then queued ones, which have
	// begun from then on. The job is returned as it stands, without its progress;
	// false if it has left the hands or was interrupted.
	TakeBulkRows(ctx context.Context, hold Hold, most int) (job Job, rows []Row, held bool, err error)

	// SettleBulkRow writes what came of a row, if the job is still in the given hands
	// and the row is not settled. An operation that there is outweighs any refusal,
	// whoever found it. False if nothing was written.
	SettleBulkRow(ctx context.Context, hold Hold, outcome Outcome) (settled bool, err error)

	// AstrayBulkRows reads some rows of a job that had begun and were given up, refused
	// or cancelled, although there is an operation of their key.
	AstrayBulkRows(ctx context.Context, operatorID int64, id string, most int) ([]Row, error)

	// OpenBulkJobs counts the jobs of all operators that run, or wait for reviews.
	OpenBulkJobs(ctx context.Context) (int, error)

	// ReleaseBulkJob lets go of a job. One with nothing left to begin or to wait for
	// is finished.
	ReleaseBulkJob(ctx context.Context, hold Hold, release Release) error

	// PurgeBulkDrafts forgets so many drafts that nobody started since a moment.
	PurgeBulkDrafts(ctx context.Context, before time.Time, most int) (purged int, err error)

	Operator(ctx context.Context, id int64) (subscription.Operator, error)
	Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error)
}

// What starting a job is refused with.
var (
	ErrAnotherRuns error = refuse("Another bulk renewal is running. Wait until it is finished, or cancel it.")
	ErrMaintenance error = refuse("New operations are stopped for maintenance. Nothing was charged; try again later.")
	ErrSuspended   error = refuse("This operator's account is suspended: you can look at everything and change nothing. Ask your MSO.")
	ErrOutdated    error = refuse("Another bulk renewal was started since this list was checked. Check the list again.")
)

// Page is a part of a job's rows.
type Page struct {
	// State picks out the rows of one state; empty for all.
	State RowState
	// After is the number of the row before the first one.
	After int
	Limit int
}

// Claim is who takes a job, and for how long.
type Claim struct {
	Now   time.Time
	Node  string
	Until time.Time
}

// Hold is a job in somebody's hands.
type Hold struct {
	OperatorID int64
	JobID      string
	Epoch      int64
	Now        time.Time
	// Until is when the job is anybody's again if nothing is heard.
	Until time.Time
}

// Outcome is what came of a row.
type Outcome struct {
	Number      int
	State       RowState
	Code        fault.Code
	Message     string
	OperationID string
	Amount      money.Amount
	Expiry      time.Time
}

// Release is when a job that was let go is to be taken up again.
type Release struct {
	// Again is for one with rows left to run, and Why is what it waits for, if it
	// waits; Review is for one of which only reviews are left.
	Again  time.Time
	Why    string
	Review time.Time
}
