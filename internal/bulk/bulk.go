// Package bulk renews many subscribers of an operator as one job. A job is checked and
// stored before it runs. Every row has its own idempotency key from the start, so that a
// node that resumes a job, after a crash or a takeover, finds what was charged already. It
// decides nothing about a renewal: each row goes through operation.Process like any other
// request of the panel.
package bulk

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

// MaxRows is how many rows a job may have.
const MaxRows = 5000

// JobState is the state of a job.
type JobState string

// A draft was checked and waits to be started. A cancelled job runs until the outcome of
// the rows that had begun is known, and is finished then.
const (
	Draft    JobState = "draft"
	Running  JobState = "running"
	Finished JobState = "finished"
)

// Interruption is why a running job waits for a person. Its remaining rows may have been
// renewed meanwhile, by hand or, after a restore from a backup, in the original store.
type Interruption string

// A job is interrupted by maintenance mode, by the suspension of its operator, or by a
// starting node if it was due for longer than IdleLimit.
const (
	ByMaintenance Interruption = "maintenance"
	BySuspension  Interruption = "suspension"
	ByDowntime    Interruption = "downtime"
)

// IdleLimit is how long a job may have been due, with no node running, and still resume
// by itself.
const IdleLimit = time.Hour

// RowState is the state of a row.
type RowState string

// A refused row has cost nothing; its code says why. A row in review has an operation
// whose outcome the provider has not confirmed: its money is held.
const (
	RowQueued    RowState = "queued"
	RowRunning   RowState = "running"
	RowDone      RowState = "done"
	RowRefused   RowState = "refused"
	RowInReview  RowState = "in_review"
	RowCancelled RowState = "cancelled"
)

// Job is a bulk renewal.
type Job struct {
	OperatorID int64
	// ID is unique among the operator's jobs.
	ID string
	// Actor is who made the job, and the actor of its operations.
	Actor string
	// Title says for people where the list came from, such as a file's name.
	Title       string
	State       JobState
	CreatedAt   time.Time
	StartedAt   time.Time
	CancelledAt time.Time
	EndedAt     time.Time // when nothing but reviews was left
	// PauseReason says why a running job is paused; empty if it is not.
	PauseReason string

	// Interrupted is why a running job waits until a person continues or cancels it, and
	// InterruptedAt since when; empty if it does not. ContinuedBy is who continued it last.
	Interrupted   Interruption
	InterruptedAt time.Time
	ContinuedBy   string
	ContinuedAt   time.Time

	// Epoch counts the claims of the job; Node is the last owner. DueAt is from when any
	// node may claim it: the end of a lease or of a pause, or zero if nothing is left to do.
	Epoch int64
	Node  string
	DueAt time.Time

	Progress Progress
}

// Discarded reports whether the job was cancelled before it was started.
func (j Job) Discarded() bool { return j.State == Finished && j.StartedAt.IsZero() }

// Waits reports whether the job was interrupted and waits for a person.
func (j Job) Waits() bool {
	return j.State == Running && j.Interrupted != "" && j.CancelledAt.IsZero()
}

// SortByInterruption sorts jobs, the longest interrupted first.
func SortByInterruption(jobs []Job) {
	slices.SortFunc(jobs, func(a, b Job) int {
		return cmp.Or(a.InterruptedAt.Compare(b.InterruptedAt), cmp.Compare(a.OperatorID, b.OperatorID), cmp.Compare(a.ID, b.ID))
	})
}

// Progress counts the rows by state, and their amounts.
type Progress struct {
	Rows                                                int
	Queued, Running, Done, Refused, InReview, Cancelled int
	// Outstanding is the quoted price of the rows that are not settled; Charged and Held
	// are the amounts of their operations.
	Outstanding, Charged, Held money.Amount
	// Cheapest is the lowest quoted price of a queued row.
	Cheapest money.Amount
}

// Settled counts the rows that are neither queued nor running.
func (p Progress) Settled() int { return p.Rows - p.Queued - p.Running }

// Percent is the share of settled rows, from 0 to 100.
func (p Progress) Percent() int {
	if p.Rows == 0 {
		return 100
	}
	return 100 * p.Settled() / p.Rows
}

// Add adds rows of one state, with their lowest quote and the sums of their quotes and of their
// operations' amounts.
func (p *Progress) Add(state RowState, rows int, cheapest, quoted, amount money.Amount) {
	p.Rows += rows
	switch state {
	case RowQueued:
		p.Cheapest = cheapest
		p.Queued += rows
		p.Outstanding = p.Outstanding.Add(quoted)
	case RowRunning:
		p.Running += rows
		p.Outstanding = p.Outstanding.Add(quoted)
	case RowDone:
		p.Done += rows
		p.Charged = p.Charged.Add(amount)
	case RowRefused:
		p.Refused += rows
	case RowInReview:
		p.InReview += rows
		p.Held = p.Held.Add(amount)
	case RowCancelled:
		p.Cancelled += rows
	}
}

// Row is one renewal of a job.
type Row struct {
	Number int // from 1
	Line   int // of the uploaded file; 0 if there is none
	// SubscriberID and Mobile identify the customer; the id takes precedence. Both are as
	// found when the job was checked, or else as they were given.
	SubscriberID string
	Mobile       string
	CustomerName string
	PlanID       string
	Kind         operation.Kind
	// IdempotencyKey is the operation's, and never changes.
	IdempotencyKey string
	// Quoted and ExpiryQuoted are the price and the new expiry when the job was checked.
	Quoted       money.Amount
	ExpiryQuoted time.Time
	// NotRenewedSince is the selection's: every later check of the row keeps it.
	NotRenewedSince time.Time

	State RowState
	// Code and Message are the row's result; while it is queued, a transient refusal found
	// when the job was checked.
	Code    fault.Code
	Message string
	// OperationID is the row's operation; Amount is what it costs or holds, Expiry the new
	// expiry.
	OperationID string
	Amount      money.Amount
	Expiry      time.Time
	BegunAt     time.Time
	EndedAt     time.Time
}

// firstTried is since when a renewal of the row's subscriber replaces this one.
func (r Row) firstTried(job Job) time.Time {
	for _, moment := range []time.Time{r.NotRenewedSince, r.BegunAt} {
		if !moment.IsZero() {
			return moment
		}
	}
	return job.CreatedAt
}

// NotRenewed reports whether the row ended without a renewal and without a charge.
func (r Row) NotRenewed() bool { return r.State == RowRefused || r.State == RowCancelled }

// Refusal is a refused request, with a message for the person.
type Refusal struct {
	Text string
	// Form and Args are the format and arguments of Text, for translation.
	Form string
	Args []any
}

func (r *Refusal) Error() string { return r.Text }

func refuse(format string, args ...any) *Refusal {
	return &Refusal{Text: fmt.Sprintf(format, args...), Form: format, Args: args}
}

// ErrNoJob is returned for a job that the operator does not have.
var ErrNoJob = errors.New("there is no such bulk renewal")

var idAlphabet = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// newID generates a job's id. It cannot be guessed, so that no API client uses the
// idempotency key of a row.
func newID() string {
	var raw [10]byte
	// crypto/rand does not fail; it ends the program instead.
	_, _ = rand.Read(raw[:])
	return idAlphabet.EncodeToString(raw[:])
}

// idForVoucher derives the job's id from an order with a voucher: the same form with the
// same list makes the same job. The voucher, and so the id, cannot be guessed.
func idForVoucher(o Order) string {
	sum := sha256.New()
	_ = json.NewEncoder(sum).Encode([]any{o.Voucher, o.Kind, o.PlanID, o.Selections}) // writing to a hash does not fail
	return idAlphabet.EncodeToString(sum.Sum(nil)[:10])
}

// keyOf is the idempotency key of a row.
func keyOf(jobID string, number int) string { return fmt.Sprintf("bulk-%s-%d", jobID, number) }

// request returns a row's request. It uses only what never changes of a row, so that a
// repetition is a replay.
func (r Row) request(job Job) operation.Request {
	fields := map[string]string{"plan_id": r.PlanID}
	if r.SubscriberID != "" {
		fields["subscriber_id"] = r.SubscriberID
	} else {
		fields["mobile"] = r.Mobile
	}
	// A map has a stable JSON encoding: its keys are sorted.
	content, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return operation.Request{
		OperatorID: job.OperatorID, Channel: operation.Web, Actor: job.Actor, IdempotencyKey: r.IdempotencyKey,
		Kind: r.Kind, Fields: fields, Content: content,
	}
}
