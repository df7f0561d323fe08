package operation

import (
	"context"
	"time"
)

// Provider is the outside party that does what operators pay for.
//
// There is no error to return: that nobody knows is an answer, too. Every call
// names a reference, and a provider applies a reference at most once.
type Provider interface {
	// Apply asks for an order to be carried out, once, and never asks again by
	// itself.
	Apply(ctx context.Context, order Order) Reply
	// Status asks what became of a reference.
	Status(ctx context.Context, order Order) Reply
	// Void tells the provider never to carry out a reference. Confirmed then
	// means that it had been carried out before, Rejected that it never was
	// and never will be.
	Void(ctx context.Context, order Order) Reply
}

// Order is what the provider is asked to do.
type Order struct {
	// Reference names this order alone: the main component's is the transaction
	// id, the add-on's that with -2 behind it, or a higher number.
	Reference    string
	Kind         Kind
	SubscriberID string
	Mobile       string
	Name         string
	Email        string
	// Password is the customer's app password, on activation only. It is kept
	// nowhere.
	Password  string
	Component string
	Months    int
	// StartDate is the day the cycle begins; ExpiresAt is when it ends.
	StartDate time.Time
	ExpiresAt time.Time
}

// Outcome is what an answer comes to.
type Outcome int

// Unknown comes first: code that forgets to decide must not refund.
const (
	Unknown Outcome = iota
	Confirmed
	Rejected
)

func (v Outcome) String() string {
	switch v {
	case Confirmed:
		return "confirmed"
	case Rejected:
		return "rejected"
	}
	return "unknown"
}

// ParseOutcome reads what String has written.
func ParseOutcome(text string) Outcome {
	switch text {
	case "confirmed":
		return Confirmed
	case "rejected":
		return Rejected
	}
	return Unknown
}

// Reply is what came back, judged strictly.
type Reply struct {
	Outcome Outcome
	// NotSent: not a byte of the request reached the provider, so that it
	// cannot have done anything. The verdict is then Rejected.
	NotSent bool
	// NotFound: the provider says, on Status, that it does not know the
	// reference. The verdict is then Unknown: it may not know it yet.
	NotFound bool
	// Mismatch: what came back was about something else than was asked. The
	// verdict is then Unknown.
	Mismatch bool
	// Transaction is the provider's own number, if it gave one.
	Transaction string
	// Message is the provider's word for people; Detail is ours, for staff. A
	// rejection with a message is the provider's own no; one without is a void.
	Message string
	Detail  string
}
