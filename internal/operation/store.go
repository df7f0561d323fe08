package operation

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Store is the storage of operations. Each method is one transaction. A method that is given
// provider calls also raises, in the same transaction, the exceptions of mismatched replies.
type Store interface {
	// OperationByKey finds the operation of an idempotency key.
	OperationByKey(ctx context.Context, operatorID int64, key string) (op Operation, found bool, err error)

	// AdoptedByKey finds an adopted operation by what it has in place of its key.
	AdoptedByKey(ctx context.Context, operatorID int64, adopted []string) (op Operation, found bool, err error)

	// ClaimAdopted gives an adopted operation its key, unless it has one already, and returns it
	// as it is then.
	ClaimAdopted(ctx context.Context, claim KeyClaim) (Operation, error)

	// Snapshot reads everything that the checks of a request need, at one moment.
	Snapshot(ctx context.Context, query SnapshotQuery) (Snapshot, error)

	// Reserve claims the key and the customer, debits the price and records the operation as
	// processing. If anything in the draft's snapshot has changed, maintenance mode included,
	// it does nothing and returns ErrStale.
	Reserve(ctx context.Context, draft Draft) (Operation, error)

	// Settle moves an operation to its new state, with all that follows from it. If the
	// operation has another epoch or is not open, it saves only the provider calls and their
	// exceptions, and returns the operation as it is.
	Settle(ctx context.Context, settlement Settlement) (op Operation, settled bool, err error)

	// OperationByID finds one of an operator's operations.
	OperationByID(ctx context.Context, operatorID int64, id string) (op Operation, found bool, err error)

	// SubscriptionOf reads one of an operator's subscribers by id or, if that is empty, by
	// mobile.
	SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (s Subscription, found bool, err error)

	// ExtendLease extends the lease of an open operation; false if it has another epoch.
	ExtendLease(ctx context.Context, id string, epoch int64, until time.Time) (owned bool, err error)
}

// ReviewStore is what a Reviewer needs of the store.
type ReviewStore interface {
	Store

	// TakeOver ends every lease at once, and makes open reversals due. It is for a node that knows it is the only one:
	// whatever is processing was left open by an earlier process.
	TakeOver(ctx context.Context, now time.Time) error

	// Due reports which kinds of follow-up have something to claim.
	Due(ctx context.Context, now time.Time) (Due, error)

	// ClaimReviews makes the node the owner of operations in review that are due, and of
	// processing operations whose lease has ended, which are in review from then on. Each gets
	// a new epoch, so that its previous owner can no longer settle it. This and the other
	// claims observe the claim's limits and serve the operators in turn.
	ClaimReviews(ctx context.Context, claim Claim) ([]Operation, error)

	// Postpone releases a claimed operation until its next check; false if it has another
	// epoch.
	Postpone(ctx context.Context, p Postponement) (owned bool, err error)

	// ClaimAddons claims missing add-ons that are due.
	ClaimAddons(ctx context.Context, claim Claim) ([]Operation, error)

	// SettleAddon saves the outcome of a claimed add-on. If that has another epoch, only the
	// provider calls are saved.
	SettleAddon(ctx context.Context, s AddonSettlement) error

	// ClaimLateChecks claims refunded operations for which the provider has not acknowledged
	// a void.
	ClaimLateChecks(ctx context.Context, claim Claim) ([]Operation, error)

	// CloseLateCheck saves the outcome of a late check, and ends the checks or schedules the
	// next.
	CloseLateCheck(ctx context.Context, c LateCheck) error

	// ClaimReversals claims pending reversals that are due, and returns their operations. From then
	// on they may have been sent to the provider.
	ClaimReversals(ctx context.Context, claim Claim) ([]Operation, error)

	// PendingReversal reads the reversal of an operation that the provider is asked about: it is open, or
	// a person has settled it as not undone and the provider has not confirmed that.
	PendingReversal(ctx context.Context, operationID string) (r Reversal, pending bool, err error)

	// SettleReversal saves what came of asking the provider: the reversal is carried out, with
	// all that goes back, or refused, or due again later. Of a reversal that has an outcome it saves
	// the provider calls, and whether the answer confirms or contradicts a person. Repeated, it changes
	// nothing.
	SettleReversal(ctx context.Context, answer ReversalAnswer) error
}

// Due tells which kinds of follow-up have work that is due.
type Due struct{ Reviews, Addons, LateChecks, Reversals bool }

// Any reports whether any of them has.
func (d Due) Any() bool { return d.Reviews || d.Addons || d.LateChecks || d.Reversals }

// Claim says which node claims follow-ups, and how many at most.
type Claim struct {
	Now  time.Time
	Node string
	// Until is the end of the lease.
	Until time.Time
	Limit int
	// PerOperator limits the operations that the node owns of one operator, Held included;
	// zero is no limit. Held are the ids that it owns, by operator: they are not claimed
	// again, even if the clock jumped past the end of their lease.
	PerOperator int
	Held        map[int64][]string
	// After is the operator that was served last: those with higher ids come first.
	After int64
}

// Capacity is how many more operations of an operator may be claimed.
func (c Claim) Capacity(operatorID int64) int {
	if c.PerOperator == 0 {
		return c.Limit
	}
	return min(c.Limit, max(0, c.PerOperator-len(c.Held[operatorID])))
}

// Postponement schedules the next check of an operation in review.
type Postponement struct {
	OperationID string
	Epoch       int64
	NextCheckAt time.Time
	// NeedsPerson lists the operation for a person.
	NeedsPerson bool
	Node        string
	Calls       []ProviderCall
}

// AddonSettlement is the outcome of an add-on's follow-up.
type AddonSettlement struct {
	OperationID string
	// Epoch is the one under which the add-on was claimed.
	Epoch int64
	State AddonState
	// Attempt counts definite rejections; it is part of the next reference.
	Attempt int
	NextAt  time.Time // zero if there is nothing left to do
	// NeedsPerson lists the add-on for a person.
	NeedsPerson bool
	At          time.Time
	Node        string
	Calls       []ProviderCall
}

// LateException returns the exception to raise if the add-on has another owner by now and the
// provider's reply contradicts the add-on's present state.
func (s AddonSettlement) LateException(op Operation) (e Exception, contradicts bool) {
	switch {
	case op.AddonState == AddonClosed && s.State == AddonSuccess:
		return AddonClosedAndConfirmed(op.ID, s.At), true
	case op.AddonState == AddonSuccess && s.State == AddonFailed && s.Attempt == op.AddonAttempt+1: // of the same reference
		return AddonConfirmedAndRejected(op.ID, s.At), true
	}
	return e, false
}

// AddonConfirmedAndRejected is the exception of an add-on that the provider both confirmed and
// rejected under one reference.
func AddonConfirmedAndRejected(id string, at time.Time) Exception {
	return Exception{OperationID: id, Kind: AddonContradiction, Detail: "the provider confirmed the add-on and rejected it under one reference", At: at}
}

// AddonClosedAndConfirmed is the exception of an add-on that a person closed as missing and the
// provider then confirmed.
func AddonClosedAndConfirmed(id string, at time.Time) Exception {
	return Exception{OperationID: id, Kind: AddonContradiction, Detail: "a person closed the add-on as missing; the provider says that it was carried out", At: at}
}

// LateCheck is the outcome of voiding an operation that was refunded already.
type LateCheck struct {
	OperationID string
	// Check is the number of the check. If there was another since, only the calls and the
	// exception are saved.
	Check  int
	NextAt time.Time // of the next check; zero if this was the last
	Node   string
	Calls  []ProviderCall
	// Exception is raised if it is not nil.
	Exception *Exception
}

// ExceptionKind is the kind of a contradiction between us and the provider.
type ExceptionKind string

// No exception moves money: a person decides.
const (
	// LateSuccess: refunded, but carried out.
	LateSuccess ExceptionKind = "LATE_SUCCESS"
	// RejectedAfterSuccess: charged, but not carried out.
	RejectedAfterSuccess ExceptionKind = "REJECTED_AFTER_SUCCESS"
	// DuplicateEffect: carried out twice, under two transaction numbers of the provider.
	DuplicateEffect ExceptionKind = "DUPLICATE_EFFECT"
	// WrongAnswer: a reply was about another order.
	WrongAnswer ExceptionKind = "WRONG_ANSWER"
	// AddonContradiction: the add-on was confirmed after a person closed it, or was both
	// confirmed and rejected.
	AddonContradiction ExceptionKind = "ADDON_CONTRADICTION"
	// VoidUnanswered: a person refunded it, and the provider never answered the void.
	VoidUnanswered ExceptionKind = "VOID_UNANSWERED"
	// ReversalContradiction: the provider's answer to a reversal came after it was settled, and says
	// the opposite.
	ReversalContradiction ExceptionKind = "REVERSAL_CONTRADICTION"
)

// Exception is a contradiction that a person has to resolve.
type Exception struct {
	OperationID string
	Kind        ExceptionKind
	Detail      string
	At          time.Time
}

// ErrStale is returned by Reserve if the draft's snapshot is out of date.
var ErrStale = errors.New("the draft's snapshot is out of date")

// SnapshotQuery names the key, customer and plan of a request.
type SnapshotQuery struct {
	OperatorID     int64
	IdempotencyKey string
	// AdoptedKeys are what an adopted operation may have in place of that key.
	AdoptedKeys []string
	Kind        Kind
	// SubscriberID and Mobile identify the customer. An activation has a mobile and optionally
	// a preferred id.
	SubscriberID string
	Mobile       string
	PlanID       string
	// Provider is the one whose catalogue must have the plan.
	Provider string
	// Now decides whether a mobile or an id of a deleted operator is free again.
	Now time.Time
	// DuplicatesSince is the earliest renewal that counts as a duplicate.
	DuplicatesSince time.Time
}

// Snapshot is everything that the checks of a request need, read at one moment.
type Snapshot struct {
	// KnownID is the operation of the key; empty if the key is new. If it is set, the other
	// fields may be empty.
	KnownID string
	// Maintenance: no new operation is accepted.
	Maintenance bool
	// Offer is the plan in the catalogue.
	Offer subscription.Offer
	// Subscriber is the customer: for an activation the one with that mobile under any
	// operator, else the operator's own. Nil if there is none.
	Subscriber *Subscriber
	// Balance is what the operator can spend.
	Balance money.Amount
	// Cycles are the subscriber's, in the order of purchase. Only an advance renewal needs
	// them; for others they may be empty, because they grow with every renewal.
	Cycles []subscription.Cycle
	// FreeID is a free subscriber id for an activation: the preferred one, if that is free.
	FreeID string
	// Duplicate is the id of the latest successful renewal or advance renewal of the same
	// subscriber and plan since DuplicatesSince; empty if there is none.
	Duplicate string
}

// Subscriber is the part of a customer that operations need.
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
	// Version grows with every change of the subscriber.
	Version int64
}

// Subscription is a subscriber with everything that a look-up returns.
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
	// AdoptedKeys are what an adopted operation may have in place of the key: there must be
	// none.
	AdoptedKeys []string
}

// Profile is what is stored of a customer besides name and mobile. The password is not stored.
type Profile struct {
	Email          string
	Address        string
	ConnectionType string
	// Area, BoxNumber and Notes come from the pages only.
	Area, BoxNumber, Notes string
}

// Settlement moves an operation to a new state.
type Settlement struct {
	OperationID string
	// LastRead is the operation as the caller knows it; nil if it does not. It may save the
	// store a read.
	LastRead *Operation
	// Epoch is the caller's; the operation must still have it.
	Epoch int64
	To    State
	At    time.Time
	// Node settles; Actor is the person who decided, if any.
	Node  string
	Actor string
	// Why is the reason, for the operation's history.
	Why string

	ProviderTransaction string
	Reason              Reason // of a failure
	ProviderMessage     string
	AddonState          AddonState
	AddonAttempt        int       // definite rejections of the add-on so far
	AddonNextAt         time.Time // when a missing add-on is ordered again
	NextCheckAt         time.Time // when an operation in review is checked again

	// Calls are the provider calls since the last settlement.
	Calls []ProviderCall
}

// AppliesTo reports whether the operation has the settlement's epoch and may move to its state.
func (s Settlement) AppliesTo(op Operation) bool {
	return op.ID == s.OperationID && op.Epoch == s.Epoch && op.State.CanBecome(s.To)
}

// Apply returns an operation that the settlement applies to, as it is afterwards.
func (s Settlement) Apply(op Operation) Operation {
	op.State = s.To
	switch at := s.At.Truncate(time.Millisecond); {
	case !s.To.Open():
		op.CompletedAt = at
	case op.ReviewSince.IsZero():
		op.ReviewSince = at
	}
	// Late checks after the settlement are counted from zero.
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

// AlreadyApplied reports whether this settlement was made before and is repeated because its
// result was lost.
func (s Settlement) AlreadyApplied(op Operation) bool { return op.Epoch == s.Epoch && op.State == s.To }

// LateExceptions returns the exceptions to raise if the settlement comes too late and its replies,
// for the main component or the add-on, contradict how the operation was settled meanwhile. The
// store saves them with the provider calls in one commit, so that a crash cannot lose them.
func (s Settlement) LateExceptions(op Operation) (all []Exception) {
	reply := Reply{Transaction: s.ProviderTransaction, Message: s.ProviderMessage}
	switch s.To {
	case Success:
		reply.Outcome = Confirmed
	case Failed:
		reply.Outcome = Rejected
	}
	if e, contradicts := contradiction(op, reply, s.At); contradicts {
		all = append(all, e)
	}
	addon := AddonSettlement{OperationID: s.OperationID, State: s.AddonState, Attempt: s.AddonAttempt, At: s.At}
	if e, contradicts := addon.LateException(op); contradicts {
		all = append(all, e)
	}
	return all
}

// ReplyExceptions returns the exceptions to raise if earlier definite replies for the main component,
// recorded by nodes that could no longer settle, contradict this settlement.
func (s Settlement) ReplyExceptions(settled Operation, earlier []Reply) (all []Exception) {
	for _, reply := range earlier {
		if e, contradicts := contradiction(settled, reply, s.At); contradicts {
			all = append(all, e)
		}
	}
	return all
}

// ProviderCall is the record of one call to the provider.
type ProviderCall struct {
	Reference  string
	What       string // activate, renew, advance_renew, status, void
	Component  string
	Reply      Reply
	AskedAt    time.Time
	AnsweredAt time.Time
}

// Mismatch returns the exception to raise if the reply is about another order: a person should
// clear it up with the provider.
func (c ProviderCall) Mismatch(operationID string) (e Exception, mismatch bool) {
	if !c.Reply.Mismatch {
		return e, false
	}
	return Exception{OperationID: operationID, Kind: WrongAnswer, Detail: c.Reference + ": " + c.Reply.Detail, At: c.AnsweredAt}, true
}
