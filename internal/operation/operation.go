// Package operation carries the three wallet-debiting operations from request
// to result. It alone moves an operation between its states. It knows no HTTP
// and no SQL: it declares the store, the provider and the price list it needs.
package operation

import (
	"errors"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// Kind is what an operation does.
type Kind string

// The three operations that cost money.
const (
	Activate     Kind = "activate"
	Renew        Kind = "renew"
	AdvanceRenew Kind = "advance_renew"
)

// Channel is the door an operation came through. The rules are the same.
type Channel string

// The API, or the operator's web panel.
const (
	API Channel = "api"
	Web Channel = "web"
)

// State is where an operation stands.
type State string

// Silence has a state of its own: what nobody knows is in review, its money
// held, until the provider or a person says what happened.
const (
	Processing  State = "processing"
	Success     State = "success"
	Failed      State = "failed"
	NeedsReview State = "needs_review"
)

// next is where each state may lead. There is no other way.
var next = map[State][]State{
	Processing:  {Success, Failed, NeedsReview},
	NeedsReview: {Success, Failed},
}

// CanBecome reports whether an operation may go from one state to another.
func (s State) CanBecome(to State) bool {
	for _, allowed := range next[s] {
		if allowed == to {
			return true
		}
	}
	return false
}

// Open reports whether the operation's money is still held.
func (s State) Open() bool { return len(next[s]) > 0 }

// Reason is why an operation failed.
type Reason string

// A failure always has one of these reasons.
const (
	ProviderRejected    Reason = "PROVIDER_REJECTED"
	ProviderUnreachable Reason = "PROVIDER_UNREACHABLE" // the request provably never left
	NotConfirmed        Reason = "NOT_CONFIRMED"        // review ended without confirmation
	RejectedByReview    Reason = "REJECTED_BY_REVIEW"   // a person decided
)

// AddonState is where a combo's second component stands; empty for a plan that
// has none.
type AddonState string

// An add-on is asked for once the main component is confirmed, and followed up
// until it works or a person closes it.
const (
	AddonWaiting AddonState = "waiting"
	AddonSuccess AddonState = "success"
	AddonFailed  AddonState = "failed"
	AddonUnknown AddonState = "unknown"
	AddonClosed  AddonState = "closed"
)

// Operation is one activation, renewal or advance renewal, as it stands.
type Operation struct {
	ID             string
	OperatorID     int64
	IdempotencyKey string
	Fingerprint    Fingerprint
	Kind           Kind
	Channel        Channel
	// Actor is who asked: a key of the API, or a login of the panel.
	Actor        string
	SubscriberID string
	CustomerName string
	Mobile       string

	// What was bought, as it was at the reservation.
	PlanID      string
	PlanVersion int64
	PlanName    string
	PlanMonths  int
	Main        string
	Addon       string

	Amount        money.Amount
	CommissionBPS int
	WalletBefore  money.Amount

	// What the operation means for the subscription was computed at the
	// reservation and is applied at settlement, however much later that is.
	ExpiryPrevious time.Time // zero for an activation
	ExpiryPlanned  time.Time
	CycleStartsAt  time.Time

	State State
	// Epoch counts the hands the operation went through. Whoever settles it
	// names the epoch it holds.
	Epoch       int64
	Node        string
	LeaseUntil  time.Time
	ReviewSince time.Time
	Checks      int
	NextCheckAt time.Time
	NeedsPerson bool

	AddonState   AddonState
	AddonAttempt int // definite rejections
	// AddonEpoch counts who followed the add-on up, as Epoch does for the
	// operation; AddonChecks how often that was.
	AddonEpoch       int64
	AddonChecks      int
	AddonNextAt      time.Time
	AddonNeedsPerson bool

	Provider            string
	ProviderTransaction string
	Reason              Reason
	ProviderMessage     string

	CreatedAt   time.Time
	CompletedAt time.Time
}

// WalletAfter is the balance after this operation's debit, which a refund has
// undone.
func (o Operation) WalletAfter() money.Amount {
	if o.State == Failed {
		return o.WalletBefore
	}
	return o.WalletBefore.Sub(o.Amount)
}

// Charged is what the operation has cost for good.
func (o Operation) Charged() money.Amount {
	if o.State == Success {
		return o.Amount
	}
	return money.Amount{}
}

// AddonMissing reports whether the main component is there and the add-on is
// not.
func (o Operation) AddonMissing() bool {
	return o.State == Success && o.Addon != "" && o.AddonState != AddonSuccess
}

// ErrAmbiguous is what a store returns when it cannot say whether a fact took
// hold: the disk or the connection failed while it was being committed. The
// fact must be looked up again before anything is built on it.
var ErrAmbiguous = errors.New("it is not known whether the commit took hold")

// ErrUnavailable is what a store returns when it could not be reached, or undid a
// write that waited for a lock for too long: nothing was done, and the same may be
// tried again.
var ErrUnavailable = errors.New("the store is not available")
