// Package bulk renews many subscribers of an operator as one job. A job is checked,
// kept, and only then run; every row has a key of its own that is fixed before it
// runs, so that whoever takes a job up again, after a crash or on another node, finds
// by the key what was charged already. It decides nothing about a renewal: each row
// goes through operation.Process like any other request of the panel.
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

// MaxRows is the most that one job may have.
const MaxRows = 5000

// JobState is where a job stands.
type JobState string

// A draft was checked and waits for somebody to start it. A job that was cancelled
// runs until what had begun is known, and is finished then.
const (
	Draft    JobState = "draft"
	Running  JobState = "running"
	Finished JobState = "finished"
)

// Interruption is why a running job waits for a person. What it was about to renew may
// have been renewed meanwhile: in the original of a store that was restored from a copy,
// or by somebody who did not wait.
type Interruption string

// A job is interrupted by maintenance mode, by the suspension of its operator, or because
// no node has worked on it for longer than IdleLimit when one starts.
const (
	ByMaintenance Interruption = "maintenance"
	BySuspension  Interruption = "suspension"
	ByDowntime    Interruption = "downtime"
)

// IdleLimit is how long a job may have been due, with no node to take it, and still go
// on by itself when one starts.
const IdleLimit = time.Hour

// RowState is where a row stands.
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

// Job is a list of renewals.
type Job struct {
	OperatorID int64
	// ID is unique among the operator's jobs.
	ID string
	// Actor is whose job it is, as the operations' actor has it.
	Actor string
	// Title says for people where the list came from, such as a file's name.
	Title       string
	State       JobState
	CreatedAt   time.Time
	StartedAt   time.Time
	CancelledAt time.Time
	EndedAt     time.Time // when nothing was left to begin or to wait for but reviews
	// PauseReason says why a running job is waiting; empty if it is not.
	PauseReason string

	// Interrupted is why a running job waits until a person continues or cancels it, and
	// InterruptedAt since when; empty if it does not. ContinuedBy is who continued it last.
	Interrupted   Interruption
	InterruptedAt time.Time
	ContinuedBy   string
	ContinuedAt   time.Time

	// Epoch counts the hands that the job went through; Node is the last ones. DueAt
	// is from when on it is anybody's: the end of a lease or of a pause, or zero if
	// there is nothing left to do.
	Epoch int64
	Node  string
	DueAt time.Time

	Progress Progress
}

// Waits reports whether the job was interrupted, and waits for a person to continue or
// cancel it.
func (j Job) Waits() bool {
	return j.State == Running && j.Interrupted != "" && j.CancelledAt.IsZero()
}

// SortByInterruption puts the jobs first that have waited longest.
func SortByInterruption(jobs []Job) {
	slices.SortFunc(jobs, func(a, b Job) int {
		return cmp.Or(a.InterruptedAt.Compare(b.InterruptedAt), cmp.Compare(a.OperatorID, b.OperatorID), cmp.Compare(a.ID, b.ID))
	})
}

// Progress is how many rows stand where, and what they cost.
type Progress struct {
	Rows                                                int
	Queued, Running, Done, Refused, InReview, Cancelled int
	// Outstanding is what the rows cost that are still to be settled or to begin, as
	// they were quoted; Charged and Held are what operations have cost and hold.
	Outstanding, Charged, Held money.Amount
}

// Settled is how many rows there is nothing left to wait for of, reviews aside.
func (p Progress) Settled() int { return p.Rows - p.Queued - p.Running }

// Percent is how far a job has come, from 0 to 100.
func (p Progress) Percent() int {
	if p.Rows == 0 {
		return 100
	}
	return 100 * p.Settled() / p.Rows
}

// Add counts rows of one state in: how many they are, what they were quoted at, and
// what their operations' amounts come to.
func (p *Progress) Add(state RowState, rows int, quoted, amount money.Amount) {
	p.Rows += rows
	switch state {
	case RowQueued:
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
	Line   int // of the file that it came from; 0 if it came from none
	// SubscriberID and Mobile name the customer: the id if there is one. Both are as
	// they were found when the job was checked, or else as they were given.
	SubscriberID string
	Mobile       string
	CustomerName string
	PlanID       string
	Kind         operation.Kind
	// IdempotencyKey is the operation's, and never changes.
	IdempotencyKey string
	// Quoted is the price when the job was checked; ExpiryQuoted what it would bring.
	Quoted       money.Amount
	ExpiryQuoted time.Time

	State RowState
	// Code and Message say what came of the row; while it is queued, what stood in
	// its way when the job was checked, if that may have passed by then.
	Code    fault.Code
	Message string
	// OperationID is the operation that the row became; Amount is what that costs or
	// holds, Expiry what it brought.
	OperationID string
	Amount      money.Amount
	Expiry      time.Time
	BegunAt     time.Time
	EndedAt     time.Time
}

// Refusal is a no in words for whoever asked.
type Refusal struct {
	Text string
	// Form and Args are Text taken apart, for whoever says it in another language.
	Form string
	Args []any
}

func (r *Refusal) Error() string { return r.Text }

func refuse(format string, args ...any) *Refusal {
	return &Refusal{Text: fmt.Sprintf(format, args...), Form: format, Args: args}
}

// ErrNoJob is what a look-up of a job returns that the operator does not have.
var ErrNoJob = errors.New("there is no such bulk renewal")

var idAlphabet = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// newID makes a job's id. It cannot be guessed, so that no key of the API's callers
// happens to be that of a row.
func newID() string {
	var raw [10]byte
	// crypto/rand does not fail; it ends the program instead.
	_, _ = rand.Read(raw[:])
	return idAlphabet.EncodeToString(raw[:])
}

// idUnder is the id of the job that an order makes under a voucher: the same form
// with the same list comes to the same job. As nobody guesses the voucher, nobody
// guesses the id.
func idUnder(o Order) string {
	sum := sha256.New()
	_ = json.NewEncoder(sum).Encode([]any{o.Voucher, o.Kind, o.PlanID, o.Wishes}) // a hash takes everything
	return idAlphabet.EncodeToString(sum.Sum(nil)[:10])
}

// keyOf is the key that a row's operation is asked for under.
func keyOf(jobID string, number int) string { return fmt.Sprintf("bulk-%s-%d", jobID, number) }

// request is what a row asks for. It is made of what never changes of a row, so that
// asking again is the same request.
func (r Row) request(job Job) operation.Request {
	fields := map[string]string{"plan_id": r.PlanID}
	if r.SubscriberID != "" {
		fields["subscriber_id"] = r.SubscriberID
	} else {
		fields["mobile"] = r.Mobile
	}
	// A map of texts always becomes the same JSON: its names are sorted.
	content, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return operation.Request{
		OperatorID: job.OperatorID, Channel: operation.Web, Actor: job.Actor, IdempotencyKey: r.IdempotencyKey,
		Kind: r.Kind, Fields: fields, Content: content,
	}
}
