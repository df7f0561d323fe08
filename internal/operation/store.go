package operation

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Store is what operations need kept. Each method is one business fact. With the
// calls that a method is given, it raises the exceptions of those whose answer was
// about something else, in the same commit.
type Store interface {
	// OperationByKey finds the operation that an operator's key stands for.
	OperationByKey(ctx context.Context, operatorID int64, key string) (op Operation, found bool, err error)

	// Snapshot reads, in one snapshot, what a request is judged on.
	Snapshot(ctx context.Context, question SnapshotQuery) (Snapshot, error)

	// Reserve makes a draft true as a whole: the key claimed, the customer
	// free and claimed, the price debited, the operation recorded as
	// processing. If anything the draft rests on has changed since its facts
	// were read, nothing happens and the error is ErrMoved. That maintenance mode
	// is off is part of it: once it was switched on, nothing is reserved any more.
	Reserve(ctx context.Context, draft Draft) (Operation, error)

	// Settle moves an operation that is still open in the given hands, with
	// all that follows from it. If it is no longer open there, nothing
	// happens, and the operation is returned as somebody else left it.
	Settle(ctx context.Context, settlement Settlement) (op Operation, settled bool, err error)

	// OperationByID finds one of an operator's operations.
	OperationByID(ctx context.Context, operatorID int64, id string) (op Operation, found bool, err error)

	// SubscriptionOf reads one of an operator's subscribers, by id or, if that
	// is empty, by mobile.
	SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (s Subscription, found bool, err error)

	// ExtendLease keeps an open operation in the given hands for longer; false
	// if it has left them.
	ExtendLease(ctx context.Context, id string, epoch int64, until time.Time) (held bool, err error)
}

// ReviewStore is what following operations up needs kept.
type ReviewStore interface {
	Store

	// TakeOver ends every lease at once, for a node that knows that it is the
	// only one: whatever is processing was left behind by an earlier process.
	TakeOver(ctx context.Context, now time.Time) error

	// Due reports what there is to claim, without claiming it.
	Due(ctx context.Context, now time.Time) (Due, error)

	// ClaimReviews takes operations that wait for somebody into the given hands:
	// those in review whose time has come, and those whose lease has ended while
	// processing, which are in review from then on. Each has a new epoch, so
	// that whoever held it before can no longer settle it. This and the other
	// claims keep the claim's bounds and take the operators in turn.
	ClaimReviews(ctx context.Context, claim Claim) ([]Operation, error)

	// Postpone lets go of a claimed operation until it is looked at again; false
	// if it has left the given hands.
	Postpone(ctx context.Context, p Postponement) (held bool, err error)

	// ClaimAddons takes add-ons that are missing and due.
	ClaimAddons(ctx context.Context, claim Claim) ([]Operation, error)

	// SettleAddon writes what became of a claimed add-on. If it has left the given
	// hands, what the provider said is kept and nothing else changes.
	SettleAddon(ctx context.Context, s AddonSettlement) error

	// ClaimLateChecks takes refunded operations that the provider is still to be
	// told never to carry out, in case it has not or did so after all.
	ClaimLateChecks(ctx context.Context, claim Claim) ([]Operation, error)

	// CloseLateCheck writes what came of telling the provider, and ends it or puts
	// it off to a later moment.
	CloseLateCheck(ctx context.Context, c LateCheck) error
}

// Due is which queues have work whose time has come.
type Due struct{ Reviews, Addons, LateChecks bool }

// Any reports whether any queue has.
func (d Due) Any() bool { return d.Reviews || d.Addons || d.LateChecks }

// Claim is who takes work, and how much.
type Claim struct {
	Now  time.Time
	Node string
	// Until is when the work is anybody's again if nothing is heard.
	Until time.Time
	Limit int
	// PerOperator bounds what is in hand of one operator, Held included; zero
	// is no bound. Held are the ids in hand by operator: they are not claimed
	// again, even if the clock has leapt past the end of their lease.
	PerOperator int
	Held        map[int64][]string
	// After is the operator that was served last: those behind it come first.
	After int64
}

// Room is how many operations of an operator the claim may take.
func (c Claim) Room(operatorID int64) int {
	if c.PerOperator == 0 {
		return c.Limit
	}
	return min(c.Limit, max(0, c.PerOperator-len(c.Held[operatorID])))
}

// Postponement puts an operation in review off.
type Postponement struct {
	OperationID string
	Epoch       int64
	NextCheckAt time.Time
	// NeedsPerson puts the operation on the list for a person.
	NeedsPerson bool
	Node        string
	Calls       []ProviderCall
}

// AddonSettlement is what became of an add-on that was followed up.
type AddonSettlement struct {
	OperationID string
	// Epoch must still be the add-on's.
	Epoch int64
	State AddonState
	// Attempt counts definite rejections; the next reference is named by it.
	Attempt int
	NextAt  time.Time // zero if there is nothing left to do
	// NeedsPerson puts the add-on on the list for a person.
	NeedsPerson bool
	At          time.Time
	Node        string
	Calls       []ProviderCall
}

// Contradicts is the exception that there is where the add-on has left the hands of
// whoever followed it up, and the provider's answer goes against how it stands now.
func (s AddonSettlement) Contradicts(op Operation) (e Exception, contradicts bool) {
	switch {
	case op.AddonState == AddonClosed && s.State == AddonSuccess:
		return AddonClosedAndConfirmed(op.ID, s.At), true
	case op.AddonState == AddonSuccess && s.State == AddonFailed && s.Attempt == op.AddonAttempt+1: // of the same reference
		return AddonBothWays(op.ID, s.At), true
	}
	return e, false
}

// AddonBothWays is the exception of an add-on that the provider confirmed and rejected
// under one reference.
func AddonBothWays(id string, at time.Time) Exception {
	return Exception{OperationID: id, Kind: AddonContradiction, Detail: "the provider confirmed the add-on and rejected it under one reference", At: at}
}

// AddonClosedAndConfirmed is the exception of an add-on that a person has closed as
// missing, and the provider says it has delivered.
func AddonClosedAndConfirmed(id string, at time.Time) Exception {
	return Exception{OperationID: id, Kind: AddonContradiction, Detail: "a person closed the add-on as missing; the provider says that it was carried out", At: at}
}

// LateCheck is what came of telling the provider never to carry out an operation
// that was refunded.
type LateCheck struct {
	OperationID string
	// Check is the number of the check; if there has been another one since, only
	// the call and the exception are kept.
	Check int
	Again time.Time // zero if it is over
	Node  string
	Calls []ProviderCall
	// Exception is raised with it, if there is one.
	Exception *Exception
}

// ExceptionKind is what went beyond the rules.
type ExceptionKind string

// LateSuccess is an operation that was refunded and then turned out to have been
// carried out; RejectedAfterSuccess is one that was charged, and the provider says
// that it was never carried out; DuplicateEffect is one that the provider says it
// carried out twice, under two numbers of its own; WrongAnswer is one that it
// answered as if it had been asked something else; AddonContradiction is one whose
// add-on the provider delivered after it was given up, or both confirmed and
// rejected; VoidUnanswered is one that a person refunded, and the provider never
// answered that it will not carry it out. No money moves by itself: a person decides.
const (
	LateSuccess          ExceptionKind = "LATE_SUCCESS"
	RejectedAfterSuccess ExceptionKind = "REJECTED_AFTER_SUCCESS"
	DuplicateEffect      ExceptionKind = "DUPLICATE_EFFECT"
	WrongAnswer          ExceptionKind = "WRONG_ANSWER"
	AddonContradiction   ExceptionKind = "ADDON_CONTRADICTION"
	VoidUnanswered       ExceptionKind = "VOID_UNANSWERED"
)

// Exception is something that only a person can decide.
type Exception struct {
	OperationID string
	Kind        ExceptionKind
	Detail      string
	At          time.Time
}

// ErrMoved is what Reserve returns when the facts are no longer what they were.
var ErrMoved = errors.New("what the draft rests on has changed")

// SnapshotQuery names what a request is about.
type SnapshotQuery struct {
	OperatorID     int64
	IdempotencyKey string
	Kind           Kind
	// SubscriberID and Mobile name the customer; an activation has a mobile,
	// and perhaps an id that it would like.
	SubscriberID string
	Mobile       string
	PlanID       string
	// Provider is whose catalogue the plan must be found in.
	Provider string
	// Now decides whether a number or an id of a deleted operator is free again.
	Now time.Time
	// DuplicatesSince is how far back a renewal counts as the same.
	DuplicatesSince time.Time
}

// Snapshot is how things stood at one moment.
type Snapshot struct {
	// KnownID is the operation that the key stands for; empty if it is new. Then
	// the rest need not be filled.
	KnownID string
	// Maintenance: no new operation is accepted.
	Maintenance bool
	// Offer is how the plan stood in the catalogue.
	Offer subscription.Offer
	// Subscriber is the customer: for an activation whoever has the mobile, of
	// any operator; else the operator's own. Nil if there is none.
	Subscriber *Subscriber
	// Balance is what the operator can spend.
	Balance money.Amount
	// Cycles are the subscriber's, in the order they were bought. Only an advance
	// renewal is judged on them; for anything else they need not be filled: they are
	// one more with every renewal.
	Cycles []subscription.Cycle
	// FreeID is a subscriber id that an activation can have: the one it would
	// like, if that is free.
	FreeID string
	// Duplicate is the latest successful renewal or advance renewal of that
	// subscriber and plan since the question's moment; empty if none.
	Duplicate string
}

// Subscriber is a customer as an operation sees one.
type Subscriber struct {
	ID         string
	OperatorID int64
	Mobile     string
	Name       string
	// Expires is zero while the activation is not settled.
	Expires time.Time
	// OpenOperation is the id of the customer's operation that is processing or in
	// review; empty if there is none. There is at most one.
	OpenOperation string
	// Version grows with everything that happens to the subscriber.
	Version int64
}

// Subscription is a subscriber as a look-up shows one.
type Subscription struct {
	Subscriber
	Profile
	Cycles                  []subscription.Cycle // in the order they were bought
	Provider                string
	CreatedAt               time.Time // when the activation was settled; zero before
	RenewedAt               time.Time
	LastProviderTransaction string
	// Plans has the names of the plans in the subscriber's cycles and pending
	// operations, by id.
	Plans map[string]string
	// Pending are the operations that are processing or in review.
	Pending []Operation
}

// Draft is an operation ready to be reserved.
type Draft struct {
	Operation
	// SubscriberVersion is the version the draft was computed from.
	SubscriberVersion int64
	// Profile is the new customer's, on activation.
	Profile Profile
}

// Profile is what is kept of a customer beside name and mobile. The password is
// not among it.
type Profile struct {
	Email          string
	Address        string
	ConnectionType string
}

// Settlement moves an operation out of the state it is in.
type Settlement struct {
	OperationID string
	// Held is the operation as whoever settles it got it into their hands; nil if
	// they have not seen it. A store that knows it need not look.
	Held *Operation
	// Epoch is the hands the operation must still be in.
	Epoch int64
	To    State
	At    time.Time
	// Node and Actor are who settles; Actor is empty where no person did.
	Node  string
	Actor string
	// Why is a word on the reasons, for the operation's history.
	Why string

	ProviderTransaction string
	Reason              Reason // of a failure
	ProviderMessage     string
	AddonState          AddonState
	AddonAttempt        int       // definite rejections of the add-on so far
	AddonNextAt         time.Time // when an add-on that is missing is tried again
	NextCheckAt         time.Time // when an operation in review is looked at again

	// Calls are what the provider was asked since the last settlement.
	Calls []ProviderCall
}

// Fits reports whether an operation is open in the hands that the settlement names.
func (s Settlement) Fits(op Operation) bool {
	return op.ID == s.OperationID && op.Epoch == s.Epoch && op.State.CanBecome(s.To)
}

// After is an operation that the settlement fits, as the settlement leaves it.
func (s Settlement) After(op Operation) Operation {
	op.State = s.To
	switch at := s.At.Truncate(time.Millisecond); {
	case !s.To.Open():
		op.CompletedAt = at
	case op.ReviewSince.IsZero():
		op.ReviewSince = at
	}
	// Checks count from the beginning for what comes after the settlement.
	op.LeaseUntil, op.NextCheckAt, op.Checks, op.NeedsPerson = time.Time{}, s.NextCheckAt.Truncate(time.Millisecond), 0, false
	op.ProviderTransaction = cmp.Or(s.ProviderTransaction, op.ProviderTransaction)
	op.Reason, op.ProviderMessage = s.Reason, s.ProviderMessage
	op.AddonNextAt = s.AddonNextAt.Truncate(time.Millisecond)
	if op.Addon != "" {
		op.AddonState = cmp.Or(s.AddonState, op.AddonState)
	}
	op.AddonAttempt = max(op.AddonAttempt, s.AddonAttempt)
	return op
}

// Repeats reports whether an operation stands as this very settlement left it:
// its answer was lost, and it is made a second time.
func (s Settlement) Repeats(op Operation) bool { return op.Epoch == s.Epoch && op.State == s.To }

// Contradicts are the exceptions that there are where a settlement comes too late and
// what the provider said, of the main component or the add-on, goes against what was settled meanwhile. Whoever writes
// the evidence down writes this beside it, in the same commit: a node that died
// between the two would leave a contradiction that nobody is told of.
func (s Settlement) Contradicts(op Operation) (all []Exception) {
	said := Reply{Transaction: s.ProviderTransaction, Message: s.ProviderMessage}
	switch s.To {
	case Success:
		said.Outcome = Confirmed
	case Failed:
		said.Outcome = Rejected
	}
	if e, contradicts := contradiction(op, said, s.At); contradicts {
		all = append(all, e)
	}
	addon := AddonSettlement{OperationID: s.OperationID, State: s.AddonState, Attempt: s.AddonAttempt, At: s.At}
	if e, contradicts := addon.Contradicts(op); contradicts {
		all = append(all, e)
	}
	return all
}

// Contradictions are the exceptions that there are where the provider had said
// something definite of the main component before, to a node that could no longer
// settle the operation, and it is now settled otherwise.
func (s Settlement) Contradictions(settled Operation, said []Reply) (all []Exception) {
	for _, answer := range said {
		if e, contradicts := contradiction(settled, answer, s.At); contradicts {
			all = append(all, e)
		}
	}
	return all
}

// ProviderCall is one question to the provider and its answer, as evidence.
type ProviderCall struct {
	Reference  string
	What       string // activate, renew, advance_renew, status, void
	Component  string
	Reply      Reply
	AskedAt    time.Time
	AnsweredAt time.Time
}

// Mismatch is the exception that there is where the provider answered about something
// else: whatever it mixed up, somebody should ask them.
func (c ProviderCall) Mismatch(operationID string) (e Exception, mismatch bool) {
	if !c.Reply.Mismatch {
		return e, false
	}
	return Exception{OperationID: operationID, Kind: WrongAnswer, Detail: c.Reference + ": " + c.Reply.Detail, At: c.AnsweredAt}, true
}
