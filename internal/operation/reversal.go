package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/money"
)

// A reversal undoes a successful operation, as when the wrong customer was renewed: the provider takes
// the order back, the money returns to the wallet, and the subscriber has the expiry from before. The
// operation stays a success; the reversal is an entry of its own.
//
// Its reference is carried out at most once by the provider, so that it can be sent again until the
// answer is definite. Any node may send it at any time, and any definite answer settles it. A person
// can settle one that the provider leaves unknown; whoever is first decides. After a person has settled
// it as not undone, the provider is told never to carry it out, until it has said so.

// ReversalState is the state of a reversal.
type ReversalState string

// Reversed and ReversalRefused are final.
const (
	// ReversalRequested: the provider has certainly not received it yet.
	ReversalRequested ReversalState = "requested"
	// ReversalAsked: the provider is being asked, or its answer is not known.
	ReversalAsked   ReversalState = "asked"
	Reversed        ReversalState = "reversed"
	ReversalRefused ReversalState = "refused"
)

// Open reports whether the outcome is not known yet.
func (s ReversalState) Open() bool { return s == ReversalRequested || s == ReversalAsked }

// Reversal is a request of staff to undo an operation.
type Reversal struct {
	Reference    string
	OperationID  string
	OperatorID   int64
	SubscriberID string
	// Amount and Commission go back to the operator.
	Amount     money.Amount
	Commission money.Amount
	State      ReversalState
	Actor      string
	Reason     string

	RequestedAt time.Time
	// Asks counts how often the provider was or may have been asked, and AskedAt is when it first was
	// since the request; zero if it has certainly not received it since.
	Asks    int
	AskedAt time.Time
	// NextAt is when it is asked, or told never to carry it out; zero if it has given its answer.
	NextAt      time.Time
	CompletedAt time.Time

	ProviderTransaction string
	// Message is why it was refused, or that a person settled it.
	Message string
	// Unsupported: the provider cannot undo orders.
	Unsupported bool
	// ByPerson: a person settled it, in place of the provider's answer. Voided: the provider has said
	// that it will never carry it out under this reference.
	ByPerson, Voided bool

	// SettledBy is the person who settled it, and Evidence what they had; only a history has them.
	SettledBy, Evidence string
}

// The messages of reversals that a person settled. Operators read them.
const (
	UndoneByReview    = "Staff found out from the provider that it was undone."
	NotUndoneByReview = "Staff found out from the provider that it was not undone."
)

// MayBeCarriedOut reports whether a person has settled the reversal as not undone, and the provider may
// carry it out all the same. A new request then has its reference: under another one the provider would
// refuse to undo the order twice.
func (r Reversal) MayBeCarriedOut() bool {
	return r.State == ReversalRefused && r.ByPerson && !r.Voided
}

// IsReversalReference tells the references of reversals from the ids of operations.
func IsReversalReference(text string) bool { return strings.HasPrefix(text, ReversalPrefix) }

// ReversalPrefix begins the reference of every reversal.
const ReversalPrefix = "RV"

// NewReversalReference returns a reference for a reversal.
func NewReversalReference(now time.Time) string {
	return ReversalPrefix + strings.TrimPrefix(newID(now), "CX")
}

// Reversed reports whether the operation was undone. Its state stays Success.
func (o Operation) Reversed() bool { return !o.ReversedAt.IsZero() }

// DisplayState is the state as people see it: reversed, once the operation was undone. The API shows State.
func (o Operation) DisplayState() string {
	if o.Reversed() {
		return string(Reversed)
	}
	return string(o.State)
}

// NetCharged is what the operation has cost in the end: nothing if it failed or was reversed.
func (o Operation) NetCharged() money.Amount {
	if o.Reversed() {
		return money.Amount{}
	}
	return o.Charged()
}

// ReversalText is the description of the ledger line that takes the operation's charge back.
func (o Operation) ReversalText() string {
	return "Reversal: " + strings.TrimSuffix(o.LedgerText(), apiMark)
}

// ReversalOrder asks the provider to undo one operation: the order of its main component and, if that
// was delivered, of its add-on, both or neither.
type ReversalOrder struct {
	Reference string
	// Order and Addon are the references of the orders to undo; Addon is empty if there is none.
	Order, Addon string
	SubscriberID string
	Mobile       string
}

func reversalOrder(op Operation, r Reversal) ReversalOrder {
	order := ReversalOrder{Reference: r.Reference, Order: op.ID, SubscriberID: op.SubscriberID, Mobile: op.Mobile}
	if op.AddonState == AddonSuccess {
		order.Addon = op.AddonReference()
	}
	return order
}

// Reverser is a provider that can be asked to undo an order. Confirmed means that it was undone,
// Rejected that it was not and never will be under this reference.
type Reverser interface {
	Reverse(ctx context.Context, order ReversalOrder) Reply
	// VoidReversal says that a reversal is never to be carried out. Rejected means that it will not be,
	// Confirmed that it was.
	VoidReversal(ctx context.Context, order ReversalOrder) Reply
}

// ReversalAnswer is what came of asking the provider.
type ReversalAnswer struct {
	Reference   string
	OperationID string
	State       ReversalState
	At          time.Time
	Node        string
	// ByPerson: it is a person's answer. Voided: the provider was told never to carry it out, and will not.
	ByPerson, Voided bool
	// NextAt is when it is asked again, while the state is open.
	NextAt time.Time
	// NotSent: the provider has certainly not received this call.
	NotSent             bool
	ProviderTransaction string
	Message             string
	Unsupported         bool
	Calls               []ProviderCall
}

// Contradiction returns the exception to raise if an answer comes after the reversal was settled, and
// says the opposite.
func (r Reversal) Contradiction(a ReversalAnswer) (e Exception, contradicts bool) {
	if r.State.Open() || a.State.Open() || a.State == r.State {
		return e, false
	}
	e = Exception{OperationID: r.OperationID, Kind: ReversalContradiction, At: a.At}
	if a.State == Reversed {
		e.Detail = r.Reference + " was settled as not undone; the provider says that it was undone"
	} else {
		e.Detail = r.Reference + " was settled as undone; the provider says that it was not"
	}
	for _, more := range []string{a.ProviderTransaction, a.Message} {
		if more != "" {
			e.Detail += ": " + more
		}
	}
	return e, true
}

// NeverCarriedOut is why a reversal is refused that was voided before the provider carried it out.
const NeverCarriedOut = "It was called off at the provider before. Ask for it again."

// unsupportedReversal is why a provider without the call refuses.
const unsupportedReversal = "The provider cannot undo orders."

// claimReversals claims open reversals that are due, and returns their operations.
func (r *Reviewer) claimReversals(ctx context.Context, c Claim) ([]Operation, error) {
	claimed, err := r.store.ClaimReversals(ctx, c)
	if err == nil && len(claimed) > 0 {
		err = failpoint.Hit("X.claimed")
	}
	if err != nil {
		return nil, err // a claim that was committed all the same is due again later
	}
	return claimed, nil
}

// reverse asks the provider to undo an operation whose reversal is open, and settles it if the answer
// is definite. It voids a reversal that a person has settled as not undone.
func (r *Reviewer) reverse(ctx context.Context, op Operation) error {
	reversal, pending, err := r.store.PendingReversal(ctx, op.ID)
	if err != nil || !pending {
		return err
	}
	if !reversal.State.Open() {
		return r.voidReversal(ctx, op, reversal)
	}
	order := reversalOrder(op, reversal)
	reply, call := recordCall(r.config.Now, "reverse", Order{Reference: order.Reference}, func() Reply {
		if reverser, can := r.provider.(Reverser); can {
			return reverser.Reverse(ctx, order)
		}
		return Reply{Outcome: Rejected, Unsupported: true}
	})
	// A provider that has lost the call since it was asked may have carried the reversal out before.
	if reply.Unsupported && reversal.Asks > 1 {
		reply.Outcome = Unknown
		call.Reply.Outcome = Unknown
	}
	if err := failpoint.Hit("X.answered"); err != nil {
		return err
	}
	now := r.config.Now()
	answer := ReversalAnswer{
		Reference: reversal.Reference, OperationID: op.ID, State: ReversalAsked, At: now, Node: r.config.Node,
		NotSent: reply.NotSent, ProviderTransaction: reply.Transaction, Message: reply.Message, Calls: []ProviderCall{call},
	}
	switch {
	case reply.Outcome == Confirmed:
		answer.State = Reversed
	case reply.Outcome == Rejected && !reply.NotSent:
		answer.State, answer.Unsupported = ReversalRefused, reply.Unsupported
		if reply.Unsupported {
			answer.Message = unsupportedReversal
		}
	default:
		answer.NextAt = now.Add(r.backoff(reversal.Asks))
	}
	return r.settleReversal(ctx, answer)
}

func (r *Reviewer) settleReversal(ctx context.Context, answer ReversalAnswer) error {
	err := retry(r.config.Timeout+leaseSlack, func() error { return r.store.SettleReversal(ctx, answer) })
	if err != nil {
		return fmt.Errorf("settle the reversal %s of %s: %w", answer.Reference, answer.OperationID, err)
	}
	return failpoint.Hit("X.settled")
}

// voidReversal tells the provider never to carry out a reversal that a person has settled as not undone. If
// it was carried out, that is an exception.
func (r *Reviewer) voidReversal(ctx context.Context, op Operation, reversal Reversal) error {
	order := reversalOrder(op, reversal)
	reply, call := recordCall(r.config.Now, "void", Order{Reference: order.Reference}, func() Reply {
		if reverser, can := r.provider.(Reverser); can {
			return reverser.VoidReversal(ctx, order)
		}
		return Reply{}
	})
	now := r.config.Now()
	answer := ReversalAnswer{
		Reference: reversal.Reference, OperationID: op.ID, State: ReversalAsked, At: now, Node: r.config.Node,
		ProviderTransaction: reply.Transaction, Calls: []ProviderCall{call},
	}
	switch reply.Outcome {
	case Confirmed:
		answer.State = Reversed
	case Rejected:
		answer.State, answer.Voided, answer.Message = ReversalRefused, true, NeverCarriedOut
	default:
		answer.NextAt = now.Add(r.backoff(reversal.Asks))
	}
	return r.settleReversal(ctx, answer)
}

// ErrReversalChanged is returned by a store whose rows do not allow a reversal to be written as it was
// requested.
var ErrReversalChanged = errors.New("the operation or its subscriber is not as it was when the reversal was requested")
