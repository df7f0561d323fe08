//go:build long

package linearizability_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// span is when a client's request began and ended, in nanoseconds since the history
// began.
type span struct {
	client       int
	begun, ended int64
}

// opRequest is a client's request for an operation, with its answer.
type opRequest struct {
	span
	selection
	code     fault.Code
	shownOp  shownOp
	replayed bool
	// balance is that of INSUFFICIENT_BALANCE, previous the transaction id of
	// DUPLICATE_REQUEST.
	balance  int64
	previous string
}

// shownOp is an operation as a client was shown it. result is everything that may not
// change once it is settled.
type shownOp struct {
	id     string
	state  operation.State
	result string
}

// lookup is a transaction that was looked up, by its key.
type lookup struct {
	span
	operator int64
	key      string
	code     fault.Code
	shownOp  shownOp
}

// readWallet is a balance that was read.
type readWallet struct {
	span
	operator, balance, held int64
}

// credit is money that staff moved: a top-up, or an adjustment of either sign.
type credit struct {
	span
	operator  int64
	reference string
	line      string // its ledger line, if it was booked
	amount    int64
	outcome   creditOutcome
	// The wallet afterwards, by the answer.
	balance, held int64
}

type creditOutcome string

const (
	credited      creditOutcome = "credited"
	creditedOnce  creditOutcome = "credited before" // a top-up's reference was known
	creditRefused creditOutcome = "refused"
	creditUnknown creditOutcome = "unknown"
)

// authAttempt is a signed request, with its answer.
type authAttempt struct {
	span
	nonce            string
	minute           int64
	code             fault.Code
	limit, remaining int
	// admissionResult is what the store did, for requests without an answer.
	admissionResult admissionResult
}

// termsChange is a change of the terms on which an operator is let in.
type termsChange struct {
	span
	limit   int
	blocked bool
}

// storeWrite is a write of an operation's state that the store was asked for.
type storeWrite struct {
	span
	id string
	to operation.State // Processing is its reservation
	// body is that of the request of a reservation.
	body string
	// takenOver: its lease had ended before it was settled.
	takenOver bool
	// certain: the store confirmed the commit. Otherwise only the final rows show
	// whether it was committed.
	certain bool
}

// leaseCheck is a node's search for operations whose lease has expired. Those are in
// review from that time of its clock on, whether or not it claims them.
type leaseCheck struct {
	span
	at      int64
	certain bool
}

// record is one history: all answers, and all writes that the store was asked for.
type record struct {
	began time.Time

	mu           sync.Mutex
	opRequests   []opRequest
	lookups      []lookup
	read         []readWallet
	credits      []credit
	authAttempts []authAttempt
	termsChanges []termsChange
	storeWrites  []storeWrite
	claims       []leaseCheck
	tooLate      []string // operations that were already settled when another settlement came

	// The state at the start.
	opened   map[int64]int64  // what an operator's wallet held
	imported map[string]int64 // whose customer a mobile is
	limit    int              // rate limit of authOperator

	// The state at the end, and the writes that led to it.
	final     map[string]operation.Operation
	ledger    map[int64]map[string]bool // what the lines of an operator's books say
	effective []storeWrite
}

func (r *record) now() int64 { return int64(time.Since(r.began)) }

// note adds to one of the record's lists.
func note[T any](r *record, list *[]T, item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, item)
}

// show returns the comparable part of an operation.
func show(op operation.Operation) shownOp {
	result := fmt.Sprint(op.Kind, op.SubscriberID, op.Mobile, op.PlanID, op.Amount, op.WalletBefore,
		op.ExpiryPrevious.UnixMilli(), op.ExpiryPlanned.UnixMilli(), op.CycleStartsAt.UnixMilli(), op.CreatedAt.UnixMilli())
	if !op.State.Open() {
		result += fmt.Sprint(op.ProviderTransaction, op.Reason, op.ProviderMessage, op.CompletedAt.UnixMilli())
	}
	return shownOp{id: op.ID, state: op.State, result: result}
}

// resolve finds the write behind every state of the final rows. A write that the store
// did not confirm took effect at some time after it was first requested.
func (r *record) resolve() error {
	for id, op := range r.final {
		passed := []operation.State{operation.Processing}
		if !op.ReviewSince.IsZero() {
			passed = append(passed, operation.NeedsReview)
		}
		if !op.State.Open() {
			passed = append(passed, op.State)
		}
		for _, state := range passed {
			f, found := r.cause(op, state)
			if !found {
				return fmt.Errorf("operation %s became %s, and no write explains that", id, state)
			}
			r.effective = append(r.effective, f)
		}
	}
	return nil
}

func (r *record) cause(op operation.Operation, to operation.State) (cause storeWrite, found bool) {
	storeWrites := r.storeWrites
	if to == operation.NeedsReview {
		for _, c := range r.claims {
			if c.at == op.ReviewSince.UnixMilli() {
				storeWrites = append(slices.Clip(storeWrites), storeWrite{span: c.span, id: op.ID, to: to, takenOver: true, certain: c.certain})
			}
		}
	}
	for _, f := range storeWrites {
		switch {
		case f.id != op.ID || f.to != to:
		case f.certain:
			return f, true
		case !found || f.begun < cause.begun:
			f.ended = never
			cause, found = f, true
		}
	}
	return cause, found
}
