package operation

import (
	"context"
	"time"
)

// Provider is the third party that delivers what operators pay for.
//
// No method returns an error: an unknown outcome is a Reply. Every call names a reference, and a
// provider carries out a reference at most once.
type Provider interface {
	// Apply sends an order once. It never sends it again by itself.
	Apply(ctx context.Context, order Order) Reply
	// Status asks what became of a reference.
	Status(ctx context.Context, order Order) Reply
	// Void tells the provider never to carry out a reference. Confirmed means that it was
	// carried out before, Rejected that it was not and never will be.
	Void(ctx context.Context, order Order) Reply
}

// Order is what the provider has to do for one component.
type Order struct {
	// Reference identifies the order: the transaction id for the main component; for the
	// add-on the same with -2 appended, and with a number after rejections.
	Reference string
	// ClientKey is the same for all orders of one operation; see ClientKeys.
	ClientKey    string
	Kind         Kind
	SubscriberID string
	Mobile       string
	Name         string
	Email        string
	// Password is the customer's app password, on activation only. It is never stored.
	Password  string
	Component string
	Months    int
	// StartDate is the day the cycle begins; ExpiresAt is when it ends.
	StartDate time.Time
	ExpiresAt time.Time
}

// Outcome is the meaning of a reply.
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

// ParseOutcome parses what String returns.
func ParseOutcome(text string) Outcome {
	switch text {
	case "confirmed":
		return Confirmed
	case "rejected":
		return Rejected
	}
	return Unknown
}

// Reply is a provider's reply after strict checks.
type Reply struct {
	Outcome Outcome
	// NotSent: no byte of the request reached the provider, so it cannot have done
	// anything. The outcome is Rejected.
	NotSent bool
	// NotFound: the provider does not know the reference that Status asked for. The outcome
	// is Unknown: it may receive the order yet.
	NotFound bool
	// Unsupported: the provider has no such call, and has done nothing. The outcome is Rejected.
	Unsupported bool
	// Mismatch: the reply is about another order. The outcome is Unknown.
	Mismatch bool
	// Transaction is the provider's transaction number, if it gave one.
	Transaction string
	// Message is the provider's, for people; Detail is ours, for staff. A rejection with a
	// message is the provider's decision; one without a message follows from a void.
	Message string
	Detail  string
}
