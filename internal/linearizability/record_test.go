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

// span is when something was asked and when it was answered, in nanoseconds
// since the history began, and by whom.
type span struct {
	client       int
	begun, ended int64
}

// asked is an operation that a client asked for, and what it was told.
type asked struct {
	span
	wish
	code     fault.Code
	told     told
	replayed bool
	// balance is what INSUFFICIENT_BALANCE says the wallet held, previous what
	// DUPLICATE_REQUEST says came before.
	balance  int64
	previous string
}

// told is an operation as a client was shown it. Result is everything about it
// that may not change, settled, any more.
type told struct {
	id     string
	state  operation.State
	result string
}

// looked is a transaction that was looked up, by its key.
type looked struct {
	span
	operator int64
	key      string
	code     fault.Code
	told     told
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
	line      string // what the ledger says of it, if it happened
	amount    int64
	outcome   creditOutcome
	// What the wallet is said to hold afterwards.
	balance, held int64
}

type creditOutcome string

const (
	credited      creditOutcome = "credited"
	creditedOnce  creditOutcome = "credited before" // a top-up's reference was known
	creditRefused creditOutcome = "refused"
	creditUnknown creditOutcome = "unknown"
)

// knocked is a signed request at the gate.
type knocked struct {
	span
	nonce            string
	minute           int64
	code             fault.Code
	limit, remaining int
	// entry is what the store did, for when the client was told nothing.
	entry entry
}

// switched is a change of the terms on which an operator is let in.
type switched struct {
	span
	limit   int
	blocked bool
}

// fact is something that the store was asked to make true about an operation.
type fact struct {
	span
	id string
	to operation.State // Processing is its reservation
	// body is what a reservation was asked for with.
	body string
	// takenOver: its lease had ended before it was settled.
	takenOver bool
	// certain: the store said that it made it true. Otherwise only the rows as
	// they stand in the end can tell whether it did.
	certain bool
}

// leaseCheck is a node's look for operations whose lease has ended. Those are in review from
// that moment of its clock on, whether or not it claims them.
type leaseCheck struct {
	span
	at      int64
	certain bool
}

// record is one history: everything that anybody was told, and everything that
// the store was asked to make true.
type record struct {
	began time.Time

	mu       sync.Mutex
	asked    []asked
	looked   []looked
	read     []readWallet
	credits  []credit
	knocked  []knocked
	switched []switched
	facts    []fact
	claims   []leaseCheck
	tooLate  []string // operations that somebody wanted to settle and no longer could

	// What was there when it began.
	opened   map[int64]int64  // what an operator's wallet held
	imported map[string]int64 // whose customer a mobile is
	limit    int              // of the operator at the gate

	// What is there in the end, and how it came about.
	final  map[string]operation.Operation
	ledger map[int64]map[string]bool // what the lines of an operator's books say
	made   []fact
}

func (r *record) now() int64 { return int64(time.Since(r.began)) }

// note adds to one of the record's lists.
func note[T any](r *record, list *[]T, item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, item)
}

// show is an operation as it can be compared.
func show(op operation.Operation) told {
	result := fmt.Sprint(op.Kind, op.SubscriberID, op.Mobile, op.PlanID, op.Amount, op.WalletBefore,
		op.ExpiryPrevious.UnixMilli(), op.ExpiryPlanned.UnixMilli(), op.CycleStartsAt.UnixMilli(), op.CreatedAt.UnixMilli())
	if !op.State.Open() {
		result += fmt.Sprint(op.ProviderTransaction, op.Reason, op.ProviderMessage, op.CompletedAt.UnixMilli())
	}
	return told{id: op.ID, state: op.State, result: result}
}

// resolve says how everything came about that is there in the end. What the store
// did not vouch for took hold at some time after it was first asked for.
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
				return fmt.Errorf("operation %s became %s, and nobody asked for that", id, state)
			}
			r.made = append(r.made, f)
		}
	}
	return nil
}

func (r *record) cause(op operation.Operation, to operation.State) (cause fact, found bool) {
	facts := r.facts
	if to == operation.NeedsReview {
		for _, c := range r.claims {
			if c.at == op.ReviewSince.UnixMilli() {
				facts = append(slices.Clip(facts), fact{span: c.span, id: op.ID, to: to, takenOver: true, certain: c.certain})
			}
		}
	}
	for _, f := range facts {
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
