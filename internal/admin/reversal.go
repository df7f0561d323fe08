package admin

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// DefaultReversalAge is how long after its success an operation can be reversed, unless a setting
// says otherwise.
const DefaultReversalAge = 72 * time.Hour

// DefaultReversalWait is how long the provider is asked about a reversal before a person can settle
// it, unless a setting says otherwise.
const DefaultReversalWait = 2 * time.Minute

// unsupportedFor is how long a provider that has no call to undo orders is not asked again.
const unsupportedFor = 24 * time.Hour

// OperationReversed is the audit entry of a reversal that the provider has carried out, by the person
// who asked for it. No role does it: a node does.
const OperationReversed = "operation reversed"

// ReversalSnapshot is what decides whether an operation can be reversed, read at one moment.
type ReversalSnapshot struct {
	Operation operation.Operation
	// Reversal is the one that is open or carried out; nil if there is none.
	Reversal *operation.Reversal
	// Reopens is one that a person has settled as not undone and the provider may carry out all the
	// same: a new request has its reference. Nil if there is none.
	Reopens *operation.Reversal
	// Newest is the operation that the subscriber's newest cycle came of, and OpenOperation the
	// one that is under way; empty if there is none. Forgotten: the subscriber has no number any
	// more, or is not there.
	Newest, OpenOperation string
	Forgotten             bool
	// OpenException is an open exception of the operation; zero if there is none.
	OpenException   int64
	OperatorDeleted bool
	// UnsupportedAt is when the provider last said that it cannot undo orders; zero if it has not,
	// or has undone one since.
	UnsupportedAt time.Time
	// OlderNodes run a release that does not know of reversals.
	OlderNodes []string
}

// FinalRefusal is why the operation can never be reversed any more; nil if it may be.
func (f ReversalSnapshot) FinalRefusal(now time.Time, maxAge time.Duration) *Refusal {
	op := f.Operation
	switch {
	case f.Reversal != nil && f.Reversal.State == operation.Reversed:
		return Refuse("transaction %s was reversed already", op.ID)
	case f.Reversal != nil:
		return nil
	case op.State != operation.Success:
		return Refuse("transaction %s is not a success: there is nothing to reverse", op.ID)
	case f.OperatorDeleted:
		return Refuse("operator %s was deleted: its wallet can take no money back", OperatorID(op.OperatorID))
	case now.Sub(op.CompletedAt) > maxAge:
		return Refuse("transaction %s succeeded more than %d hours ago: it is too late to reverse it", op.ID, int(maxAge.Hours()))
	case f.Forgotten:
		return Refuse("the data of subscriber %s was removed: the provider cannot be told whom this is about", op.SubscriberID)
	case f.OpenOperation == "" && f.Newest != op.ID:
		return Refuse("transaction %s is not the latest of subscriber %s: what came later builds on it", op.ID, op.SubscriberID)
	}
	return nil
}

// Refusal is why the operation cannot be reversed now; nil if it can.
func (f ReversalSnapshot) Refusal(now time.Time, maxAge time.Duration) *Refusal {
	op := f.Operation
	if final := f.FinalRefusal(now, maxAge); final != nil {
		return final
	}
	switch {
	case f.Reversal != nil:
		return Refuse("transaction %s is being reversed: the provider is asked until it answers", op.ID)
	case f.OpenOperation != "":
		return Refuse("transaction %s of the same subscriber is in progress: wait until it has an outcome", f.OpenOperation)
	case op.Addon != "" && op.AddonState != operation.AddonSuccess && op.AddonState != operation.AddonClosed:
		return Refuse("the add-on of transaction %s is still being retried: wait until it is delivered, or end that first", op.ID)
	case f.OpenException != 0:
		return Refuse("exception %d of transaction %s is open: clear it up with the provider and close it first", f.OpenException, op.ID)
	case len(f.OlderNodes) > 0:
		return Refuse("a node of an older release is still running, which does not know of reversals: %s", f.OlderNodes[0])
	case !f.UnsupportedAt.IsZero() && now.Sub(f.UnsupportedAt) < unsupportedFor:
		return Refuse("the provider cannot undo orders: it said so on %s", Moment(f.UnsupportedAt))
	}
	return nil
}

// LaterOperation is the later operation of the subscriber that has to be reversed first; empty if there is
// none.
func (f ReversalSnapshot) LaterOperation() string {
	if f.Forgotten || f.OpenOperation != "" || f.Newest == f.Operation.ID {
		return ""
	}
	return f.Newest
}

// ReversalRequest asks for the reversal of an operation.
type ReversalRequest struct {
	TransactionID string
	// Reference is the reversal's own, under which the provider carries it out once, or has done so.
	Reference string
	MaxAge    time.Duration
}

// WithReversalAge returns a copy of the service that reverses operations until so long after their
// success.
func (s *Service) WithReversalAge(age time.Duration) *Service {
	bound := *s
	bound.reversalAge = age
	return &bound
}

func (s *Service) reversalRequest(transactionID string, at time.Time) ReversalRequest {
	return ReversalRequest{
		TransactionID: transactionID, Reference: operation.NewReversalReference(at), MaxAge: cmp.Or(s.reversalAge, DefaultReversalAge),
	}
}

// WhyNotReversible returns why an operation cannot be reversed now; nil if it can.
func (s *Service) WhyNotReversible(ctx context.Context, transactionID string) (*Refusal, error) {
	facts, err := s.store.ReversalSnapshot(ctx, transactionID)
	if err != nil {
		return nil, err
	}
	return facts.Refusal(s.now(), cmp.Or(s.reversalAge, DefaultReversalAge)), nil
}

// ReversalFilter selects reversals.
type ReversalFilter struct {
	// Open selects those without an outcome, the oldest first. A period selects those that were carried
	// out from From until before Before, in that order, of one operator if OperatorID is not zero.
	// Otherwise all are listed, the newest first, or those older than the one with the reference After.
	Open         bool
	From, Before time.Time
	OperatorID   int64
	After        string
	// Limit is how many are listed at most.
	Limit int
}

// Reversals lists reversals.
func (s *Service) Reversals(ctx context.Context, filter ReversalFilter) ([]operation.Reversal, error) {
	return s.store.Reversals(ctx, filter)
}

// Reversal reads a reversal by its reference.
func (s *Service) Reversal(ctx context.Context, reference string) (operation.Reversal, error) {
	return s.store.Reversal(ctx, reference)
}

// ReversalSettlement is what a person found out about a reversal that the provider leaves unknown.
type ReversalSettlement struct {
	Reference string
	Undone    bool
	// Wait is how long the provider is asked before.
	Wait time.Duration
}

// Refusal is why the reversal cannot be settled at a moment; nil if it can.
func (d ReversalSettlement) Refusal(r operation.Reversal, now time.Time) *Refusal {
	from := r.RequestedAt
	if !r.AskedAt.IsZero() {
		from = r.AskedAt
	}
	switch from = from.Add(d.Wait); {
	case r.State == operation.Reversed:
		return Refuse("reversal %s has an outcome already: it was undone", r.Reference)
	case !r.State.Open():
		return Refuse("reversal %s has an outcome already: it was not undone", r.Reference)
	case d.Undone && r.AskedAt.IsZero():
		return Refuse("the provider was not asked about reversal %s yet: it cannot have undone it", r.Reference)
	case now.Before(from):
		return Refuse("the provider is still being asked about reversal %s: a person can settle it from %s on", r.Reference, Moment(from))
	}
	return nil
}

// WithReversalWait returns a copy of the service that settles a reversal once the provider was asked
// for so long.
func (s *Service) WithReversalWait(wait time.Duration) *Service {
	bound := *s
	bound.reversalWait = wait
	return &bound
}

func (s *Service) reversalSettlement(reference string, undone bool) ReversalSettlement {
	return ReversalSettlement{Reference: reference, Undone: undone, Wait: s.reversalWait}
}

// NeedsPerson reports whether a reversal waits for a person: the provider was asked for long enough
// and gave no definite answer.
func (s *Service) NeedsPerson(r operation.Reversal) bool {
	return s.reversalSettlement(r.Reference, false).Refusal(r, s.now()) == nil
}

// SettleReversal settles a reversal whose outcome the provider leaves unknown: undone, it is carried
// out as if the provider had confirmed it; otherwise the operation stays as it was. An answer of the
// provider that comes later and says the opposite becomes an exception.
func (s *Service) SettleReversal(ctx context.Context, reference string, undone bool, reason string) (operation.Reversal, error) {
	action, err := s.newReasonedAction(ReversalSettle, reason)
	if err != nil {
		return operation.Reversal{}, err
	}
	if s.limited {
		r, err := s.store.Reversal(ctx, reference)
		if err != nil {
			return r, err
		}
		if err := s.checkAmount(r.Amount); err != nil {
			return r, err
		}
	}
	return s.store.SettleReversalByReview(ctx, action, s.reversalSettlement(reference, undone))
}

// SubmitReversalSettlement settles a reversal, or proposes that where its amount needs approval.
func (s *Service) SubmitReversalSettlement(ctx context.Context, reference string, undone bool, reason string) (ActionResult, error) {
	action, err := s.newReasonedAction(ReversalSettle, reason)
	if err != nil {
		return ActionResult{}, err
	}
	r, err := s.store.Reversal(ctx, reference)
	if err != nil {
		return ActionResult{}, err
	}
	if refusal := s.reversalSettlement(reference, undone).Refusal(r, action.At); refusal != nil {
		return ActionResult{}, refusal
	}
	wanted := Proposal{
		Kind: ProposedSettlement, OperatorID: r.OperatorID, Amount: r.Amount, TransactionID: r.Reference, Confirm: undone, Reason: action.Reason,
	}
	if why := s.aboveLimit(r.Amount); why != nil {
		return s.proposeBecause(ctx, why, wanted)
	}
	settled, err := s.SettleReversal(ctx, reference, undone, reason)
	if why := asApprovalNeeded(err); why != nil {
		return s.proposeBecause(ctx, why, wanted)
	}
	return ActionResult{Reversal: settled}, err
}

// SubmitReversal asks for the reversal of an operation, or proposes it where its amount needs approval.
// The provider is asked by a node, and the money goes back once it has confirmed.
func (s *Service) SubmitReversal(ctx context.Context, transactionID, reason string) (ActionResult, error) {
	action, err := s.newReasonedAction(OperationReverse, reason)
	if err != nil {
		return ActionResult{}, err
	}
	facts, err := s.store.ReversalSnapshot(ctx, transactionID)
	if err != nil {
		return ActionResult{}, err
	}
	request, op := s.reversalRequest(transactionID, action.At), facts.Operation
	if refusal := facts.Refusal(action.At, request.MaxAge); refusal != nil {
		return ActionResult{}, refusal
	}
	wanted := Proposal{Kind: ProposedReversal, OperatorID: op.OperatorID, Amount: op.Amount, TransactionID: op.ID, Reason: action.Reason}
	if why := s.aboveLimit(op.Amount); why != nil {
		return s.proposeBecause(ctx, why, wanted)
	}
	reversal, err := s.store.RequestReversal(ctx, action, request)
	if why := asApprovalNeeded(err); why != nil {
		return s.proposeBecause(ctx, why, wanted)
	}
	return ActionResult{Reversal: reversal}, err
}

// AdoptReversal asks for a reversal that the provider says it has carried out, as after a restore, under
// its reference: the provider is asked once more, and its answer settles it. How old the operation is
// does not matter.
func (s *Service) AdoptReversal(ctx context.Context, transactionID, reference, reason string) error {
	action, err := s.newReasonedAction(OperationReverse, reason)
	if err != nil {
		return err
	}
	if !operation.IsReversalReference(reference) {
		return Refuse("reference %s is not one of a reversal", reference)
	}
	_, err = s.store.RequestReversal(ctx, action, ReversalRequest{TransactionID: transactionID, Reference: reference, MaxAge: math.MaxInt64})
	if asApprovalNeeded(err) != nil {
		return Refuse("the reversal of transaction %s is above the limit for one person: carry it out on the command line, with coax reconcile --adopt", transactionID)
	}
	return err
}

// ReversalSubject is what the audit entries of an operation's reversals are about.
func ReversalSubject(operationID string) string { return "operation " + operationID }

// ReversalState describes a reversal for the audit log.
func ReversalState(r operation.Reversal) map[string]any {
	return map[string]any{
		"reference": r.Reference, "status": r.State, "amount": r.Amount, "commission": r.Commission, "subscriber": r.SubscriberID,
	}
}
