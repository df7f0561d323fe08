package bulk

import (
	"context"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Store holds jobs. Each method is one transaction.
type Store interface {
	// SaveBulkJob stores a draft and its rows.
	SaveBulkJob(ctx context.Context, job Job, rows []Row) error

	// StartBulkJob makes a draft due for workers. It returns ErrAnotherRuns while another
	// job of the operator runs, ErrOutdated if one was started since this draft was checked,
	// ErrSuspended while the operator is not active, and operation.ErrMaintenance in
	// maintenance. False if it is no draft, or none of the operator's.
	StartBulkJob(ctx context.Context, operatorID int64, id string, now time.Time) (started bool, err error)

	// CancelBulkJob cancels the job and its rows that have not begun. It finishes a draft.
	// False if the job is finished, or none of the operator's.
	CancelBulkJob(ctx context.Context, operatorID int64, id string, now time.Time) (cancelled bool, err error)

	// InterruptIdleBulkJobs interrupts the running jobs that have been due since before a
	// moment, and counts them.
	InterruptIdleBulkJobs(ctx context.Context, since, now time.Time) (interrupted int, err error)

	// InterruptSuspendedBulkJobs interrupts the running job of an operator that is not
	// active; false if the operator is active.
	InterruptSuspendedBulkJobs(ctx context.Context, operatorID int64, now time.Time) (suspended bool, err error)

	// ContinueBulkJob makes an interrupted job due again. It returns
	// operation.ErrMaintenance in maintenance, and ErrSuspended while the operator is not
	// active. False if the job is not interrupted.
	ContinueBulkJob(ctx context.Context, operatorID int64, id, actor string, now time.Time) (continued bool, err error)

	// InterruptedBulkJobs reads the jobs of all operators that wait for a person,
	// without their progress.
	InterruptedBulkJobs(ctx context.Context) ([]Job, error)

	// BulkJob reads one of an operator's jobs; BulkJobs the latest started ones, newest
	// first.
	BulkJob(ctx context.Context, operatorID int64, id string) (job Job, found bool, err error)
	BulkJobs(ctx context.Context, operatorID int64, before time.Time, limit int) ([]Job, error)

	// BulkDrafts reads an operator's latest drafts that were made after a moment, newest
	// first.
	BulkDrafts(ctx context.Context, operatorID int64, since time.Time, limit int) ([]Job, error)

	// BulkRows reads rows of a job in their order.
	BulkRows(ctx context.Context, operatorID int64, id string, page Page) ([]Row, error)

	// RecentlyRenewedRows reads the queued rows of a job whose subscribers were renewed after a
	// moment, in their order.
	RecentlyRenewedRows(ctx context.Context, operatorID int64, id string, since time.Time) ([]RenewedRow, error)

	// BulkJobsDue reports whether a job is due, without claiming it.
	BulkJobsDue(ctx context.Context, now time.Time) (bool, error)

	// ClaimBulkJob gives the node a lease on the job that has been due for longest, under
	// a new epoch; false if none is due.
	ClaimBulkJob(ctx context.Context, claim Claim) (job Job, found bool, err error)

	// TakeOverBulkJobs makes every job due immediately, for a node that is the only one.
	TakeOverBulkJobs(ctx context.Context, now time.Time) error

	// TakeBulkRows extends a lease and returns rows to run: first those that had begun under
	// an earlier epoch, then queued ones, which it marks as begun. It returns the present
	// job, without its progress; false if the lease was lost or the job interrupted.
	TakeBulkRows(ctx context.Context, lease Lease, limit int) (job Job, rows []Row, held bool, err error)

	// SettleBulkRow writes a row's outcome, if the lease's epoch is current and the row is
	// not settled. An outcome with an operation replaces a refusal under any epoch. False if
	// nothing was written.
	SettleBulkRow(ctx context.Context, lease Lease, outcome Outcome) (settled bool, err error)

	// OrphanedBulkRows reads some rows of a job that had begun and were refused or
	// cancelled although an operation with their key exists.
	OrphanedBulkRows(ctx context.Context, operatorID int64, id string, limit int) ([]Row, error)

	// OpenBulkJobs counts the jobs of all operators that are running, or wait for reviews.
	OpenBulkJobs(ctx context.Context) (int, error)

	// ReleaseBulkJob ends a lease. A job with no rows left to run is finished.
	ReleaseBulkJob(ctx context.Context, lease Lease, release Release) error

	// PurgeBulkDrafts deletes at most limit drafts that were made before a moment.
	PurgeBulkDrafts(ctx context.Context, before time.Time, limit int) (purged int, err error)

	Operator(ctx context.Context, id int64) (subscription.Operator, error)
	Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error)
}

// Refusals to start a job.
var (
	ErrAnotherRuns error = refuse("Another bulk renewal is running. Wait until it is finished, or cancel it.")
	ErrMaintenance error = refuse("New operations are stopped for maintenance. Nothing was charged; try again later.")
	ErrSuspended   error = refuse("This operator's account is suspended: you can view everything but change nothing. Ask your MSO.")
	ErrOutdated    error = refuse("Another bulk renewal was started since this list was checked. Check the list again.")
)

// RenewedRow is a row of a list whose subscriber was renewed shortly before.
type RenewedRow struct {
	Number int
	// RenewedAt is the subscriber's last renewal, Expires the present expiry.
	RenewedAt, Expires time.Time
}

// Page is a part of a job's rows.
type Page struct {
	// State selects the rows of one state; empty for all.
	State RowState
	// After is the number of the last row of the page before.
	After int
	Limit int
}

// Claim is a node's claim of a job, until the end of its lease.
type Claim struct {
	Now   time.Time
	Node  string
	Until time.Time
}

// Lease is a node's lease on a job.
type Lease struct {
	OperatorID int64
	JobID      string
	Epoch      int64
	Now        time.Time
	// Until is the end of the lease, unless it is extended.
	Until time.Time
}

// Outcome is the result of a row.
type Outcome struct {
	Number      int
	State       RowState
	Code        fault.Code
	Message     string
	OperationID string
	Amount      money.Amount
	Expiry      time.Time
}

// Release is when a released job is due again.
type Release struct {
	// Again is for a job with rows left to run, and Why the reason of a pause; Review is
	// for a job with only reviews left.
	Again  time.Time
	Why    string
	Review time.Time
}
