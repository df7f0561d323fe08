// Package operation processes the three operations that debit a wallet: activation, renewal and
// advance renewal. Only this package decides that an operation changes its state. It knows no HTTP
// and no SQL; it declares the Store, Provider and Prices that it needs.
package operation

import (
	"errors"
	"fmt"
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

// Channel is how a request came in. The rules are the same for both.
type Channel string

// The API, or the operator's web panel.
const (
	API Channel = "api"
	Web Channel = "web"
)

// State is an operation's state.
type State string

// An operation whose outcome is unknown is in needs_review, its money held, until the provider
// or a person says what happened.
const (
	Processing  State = "processing"
	Success     State = "success"
	Failed      State = "failed"
	NeedsReview State = "needs_review"
)

// next lists every transition that is allowed.
var next = map[State][]State{
	Processing:  {Success, Failed, NeedsReview},
	NeedsReview: {Success, Failed},
}

// CanBecome reports whether the transition is allowed.
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
	ProviderUnreachable Reason = "PROVIDER_UNREACHABLE" // no byte of the request was sent
	NotConfirmed        Reason = "NOT_CONFIRMED"        // review ended without confirmation
	RejectedByReview    Reason = "REJECTED_BY_REVIEW"   // a person decided
)

// AddonState is the state of a combo's second component; empty for a plan without one.
type AddonState string

// An add-on is ordered after the main component was confirmed, and followed up until it is
// confirmed or a person closes it.
const (
	AddonWaiting AddonState = "waiting"
	AddonSuccess AddonState = "success"
	AddonFailed  AddonState = "failed"
	AddonUnknown AddonState = "unknown"
	AddonClosed  AddonState = "closed"
)

// Operation is one activation, renewal or advance renewal.
type Operation struct {
	ID             string
	OperatorID     int64
	IdempotencyKey string
	Fingerprint    Fingerprint
	Kind           Kind
	Channel        Channel
	// Actor made the request: an API key or a panel login.
	Actor        string
	SubscriberID string
	CustomerName string
	Mobile       string

	// The plan as it was at the reservation.
	PlanID      string
	PlanVersion int64
	PlanName    string
	PlanMonths  int
	Main        string
	Addon       string

	Amount        money.Amount
	CommissionBPS int
	WalletBefore  money.Amount

	// Computed at the reservation and applied at the settlement, however much later.
	ExpiryPrevious time.Time // zero for an activation
	ExpiryPlanned  time.Time
	CycleStartsAt  time.Time

	State State
	// Epoch counts the owners of the operation. A settlement names the epoch of its owner
	// and has no effect under an older one.
	Epoch       int64
	Node        string
	LeaseUntil  time.Time
	ReviewSince time.Time
	Checks      int
	NextCheckAt time.Time
	NeedsPerson bool

	AddonState   AddonState
	AddonAttempt int // definite rejections
	// AddonEpoch counts the owners of the add-on's follow-up, as Epoch does for the
	// operation; AddonChecks counts the follow-ups.
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
	// CarriedOutAt is when the provider carried out an adopted operation, by its clock; zero
	// for any other.
	CarriedOutAt time.Time
	// ReversedAt is when a successful operation was undone; zero if it was not.
	ReversedAt time.Time
}

// WalletAfter is the balance after this operation's debit or, if it failed, after the refund.
func (o Operation) WalletAfter() money.Amount {
	if o.State == Failed {
		return o.WalletBefore
	}
	return o.WalletBefore.Sub(o.Amount)
}

// Charged is the amount of a successful operation; zero for any other.
func (o Operation) Charged() money.Amount {
	if o.State == Success {
		return o.Amount
	}
	return money.Amount{}
}

// AddonReference is the reference of the add-on's last order, or of its first one to come.
func (o Operation) AddonReference() string {
	if o.AddonAttempt > 0 {
		return fmt.Sprintf("%s-2.%d", o.ID, o.AddonAttempt)
	}
	return o.ID + "-2"
}

// AddonMissing reports whether the main component was delivered and the add-on was not.
func (o Operation) AddonMissing() bool {
	return o.State == Success && o.Addon != "" && o.AddonState != AddonSuccess
}

// ErrCommitUnknown is returned by a store that cannot say whether a commit took effect, because
// the disk or the connection failed meanwhile. The caller must find out before it goes on.
var ErrCommitUnknown = errors.New("it is not known whether the commit took effect")

// ErrUnavailable is returned by a store that could not be reached, or that rolled back a write
// which waited too long for a lock. Nothing was done; the caller may try again.
var ErrUnavailable = errors.New("the store is not available")
