package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

const (
	// leaseSlack is the time that a node has, beyond the provider's timeout, to save the
	// outcome of a call.
	leaseSlack = 5 * time.Second
	// reserveAttempts limits how often a request is checked again because its snapshot was
	// stale. Each failed attempt means that another request succeeded.
	reserveAttempts = 50
	// commitUnknownAttempts limits how often a write is tried whose commit outcome is unknown.
	// Trying again finds out.
	commitUnknownAttempts = 3
)

// Prices looks up what a plan costs, in the offer that was read with the snapshot. It refuses
// with PLANS_UNAVAILABLE while prices are not verified, and with INVALID_PLAN if the plan cannot
// be bought. stale reports that prices were verified only now: the snapshot must be read again.
type Prices interface {
	Price(ctx context.Context, offer subscription.Offer) (plan subscription.Plan, stale bool, err error)
}

// Config holds the settings of a Processor.
type Config struct {
	Now            func() time.Time
	Node           string
	ProviderName   string
	Timeout        time.Duration // of one provider call
	FirstCheck     time.Duration // before an operation in review is first checked
	ActivationTerm subscription.ActivationTerm
	Fingerprints   FingerprintKeys
	ClientKeys     ClientKeys
}

// Processor processes requests for operations.
type Processor struct {
	store    Store
	prices   Prices
	provider Provider
	breaker  *Breaker
	config   Config
}

// NewProcessor returns a Processor.
func NewProcessor(store Store, prices Prices, provider Provider, breaker *Breaker, config Config) *Processor {
	return &Processor{store: store, prices: prices, provider: provider, breaker: breaker, config: config}
}

// Result is the outcome of a request.
type Result struct {
	Operation
	// Replayed: the key was known, and nothing was done.
	Replayed bool
	// Password is the customer's, if the service generated it. It is returned only here and
	// never stored.
	Password string
}

// lease is how long an operation belongs to this node for one provider call.
func (p *Processor) lease() time.Duration { return p.config.Timeout + leaseSlack }

// Process takes one request through the contract's processing order:
//
//  1. authenticate: done by package access, before
//  2. idempotency: a known key returns its stored result
//  3. validate the request, look up the price
//  4. business checks
//  5. balance check
//  6. reserve: the first commit
//  7. call the provider
//  8. settle: the second commit
//
// An operation that failed or is in review is a result, not an error. An error means that there
// is no operation, or that its outcome could not be saved and is left to review.
func (p *Processor) Process(ctx context.Context, r Request) (Result, error) {
	op, in, replay, err := p.reserve(ctx, r) // steps 2 to 6
	if err != nil || replay {
		return Result{Operation: op, Replayed: replay}, err
	}

	// The money is debited: from here on a caller who hangs up cancels nothing.
	ctx = context.WithoutCancel(ctx)
	if err := failpoint.Hit("P.before"); err != nil {
		return Result{}, err
	}
	password := ""
	if op.Kind == Activate && in.password == "" {
		password = newPassword()
		in.password = password
	}

	// 7. Call the provider. No lock and no transaction is held meanwhile.
	settlement := p.callProvider(ctx, op, in)
	if err := failpoint.Hit("P.after"); err != nil {
		return Result{}, err
	}

	// 8. Settle as success, failed or needs_review.
	done, err := p.settle(ctx, settlement)
	if err == nil {
		err = failpoint.Hit("S.after")
	}
	if err != nil {
		// The operation is still open in the store: a retry gets REQUEST_IN_PROGRESS, and
		// review settles it.
		return Result{}, fmt.Errorf("settle %s: %w", op.ID, err)
	}
	switch done.State {
	case Processing:
		// Our lease expired and another node took the operation over; it is not settled yet.
		return Result{}, requestInProgress()
	case Failed:
		password = ""
	}
	return Result{Operation: done, Password: password}, nil
}

// reserve takes steps 2 to 6. It starts again with a new snapshot if the one that it checked
// was stale when the reservation was made.
func (p *Processor) reserve(ctx context.Context, r Request) (op Operation, in input, replay bool, err error) {
	id, unknownCommits := newID(p.config.Now()), 0
	retries := retryBudget{limit: p.lease()}
	for range reserveAttempts {
		// Validation reads nothing, so it runs first. Its error is returned in step 3 only:
		// a known key has precedence.
		var invalid error
		in, invalid = validate(r)

		// 2. Idempotency. A known key returns its stored result, whatever has changed since.
		// A known key with another body is refused before that body is validated.
		snapshot, err := p.readSnapshot(ctx, r, in, invalid == nil)
		var known Operation
		if err == nil && snapshot.KnownID != "" {
			var found bool
			if known, found, err = p.operationOf(ctx, r.OperatorID, r.IdempotencyKey); err == nil && !found {
				continue // a failover lost it between the two reads
			}
		}
		if err != nil && unknownCommits > 0 && retries.pause() {
			continue // the outcome of our commit must be found out, if it can be
		}
		switch {
		case err != nil:
			return op, in, false, unavailable(fmt.Errorf("read snapshot: %w", err))
		case snapshot.KnownID == id:
			// Our own reservation, whose commit outcome was unknown. A failover may still lose
			// what was read, but not what we commit on top of it.
			return p.confirmReservation(ctx, known, in)
		case snapshot.KnownID != "" && known.KeyUnknown():
			known, err = p.claimAdopted(ctx, r, in, invalid, known)
			return known, in, true, err
		case snapshot.KnownID != "":
			return known, in, true, p.checkReplay(r, known)
		case snapshot.Maintenance:
			return op, in, false, inMaintenance(in, invalid)
		}

		// 3 to 5. The checks see the key as free and everything else in one snapshot, so
		// that no request is refused because of a concurrent copy of itself.
		draft, stale, err := p.prepare(ctx, id, r, in, invalid, snapshot)
		if err != nil {
			return op, in, false, err
		}
		if stale {
			continue
		}

		// 6. Reserve: debit the price and record the operation, or do nothing.
		if err := failpoint.Hit("R.before"); err != nil {
			return op, in, false, err
		}
		op, err = p.store.Reserve(ctx, draft)
		switch {
		case err == nil && p.config.Now().Before(op.LeaseUntil):
			return op, in, false, nil
		case err == nil:
			// The commit took longer than the lease, as one that waits for a standby may:
			// another node may own the operation already.
			return p.confirmReservation(ctx, op, in)
		case errors.Is(err, ErrStale):
			continue
		case errors.Is(err, ErrCommitUnknown) && unknownCommits < commitUnknownAttempts:
			// Money may have moved: a caller who hangs up cancels nothing.
			ctx = context.WithoutCancel(ctx)
			unknownCommits++
			continue
		case unknownCommits > 0 && errors.Is(err, ErrUnavailable) && retries.pause():
			continue
		}
		return op, in, false, unavailable(fmt.Errorf("reserve: %w", err))
	}
	return op, in, false, unavailable(errAlwaysStale)
}

var errAlwaysStale = errors.New("every snapshot was stale before the request could be reserved")

// readSnapshot reads what the checks need. For an invalid request that is only the key and
// maintenance mode: it names no customer and no plan to look up.
func (p *Processor) readSnapshot(ctx context.Context, r Request, in input, valid bool) (Snapshot, error) {
	adopted := p.config.ClientKeys.Adopted(r.OperatorID, r.IdempotencyKey)
	if !valid {
		return p.store.Snapshot(ctx, SnapshotQuery{OperatorID: r.OperatorID, IdempotencyKey: r.IdempotencyKey, AdoptedKeys: adopted, Kind: Renew, Provider: p.config.ProviderName})
	}
	now := p.config.Now()
	return p.store.Snapshot(ctx, SnapshotQuery{
		OperatorID: r.OperatorID, IdempotencyKey: r.IdempotencyKey, AdoptedKeys: adopted, Kind: r.Kind,
		SubscriberID: in.subscriberID, Mobile: in.mobile, PlanID: in.planID, Provider: p.config.ProviderName,
		Now: now, DuplicatesSince: now.Add(-duplicateWindow),
	})
}

// prepare takes steps 3 to 5 for a new key and returns the operation to reserve. If only the
// balance or the breaker refuses, the draft comes beside the error, for Preview. stale means that
// the snapshot must be read again; see Prices.
func (p *Processor) prepare(ctx context.Context, id string, r Request, in input, invalid error, snapshot Snapshot) (d Draft, stale bool, err error) {
	// 3. Validation error, or the price.
	if invalid != nil {
		return d, false, invalid
	}
	plan, stale, err := p.prices.Price(ctx, snapshot.Offer)
	if err != nil || stale {
		return d, stale, err
	}
	// The time is taken after the snapshot, so that everything in it is in the past even if the
	// node was suspended while reading.
	now := p.config.Now()

	// 4. Business checks.
	if err := checkCustomer(r.OperatorID, r.Kind, plan, snapshot, now); err != nil {
		return d, false, err
	}
	if d, err = p.draft(id, r, in, plan, snapshot, now); err != nil {
		return d, false, err
	}

	// 5. Balance. Then the breaker, so that no money is held while the provider is down.
	if err := checkBalance(snapshot.Balance, plan.Price); err != nil {
		return d, false, err
	}
	return d, false, p.breaker.Allow()
}

// confirmReservation makes sure by a commit of its own that the operation exists and belongs to
// this node.
func (p *Processor) confirmReservation(ctx context.Context, op Operation, in input) (Operation, input, bool, error) {
	// Money has moved: a caller who hangs up cancels nothing.
	ctx = context.WithoutCancel(ctx)
	var owned bool
	err := retry(p.lease(), func() (err error) {
		owned, err = p.store.ExtendLease(ctx, op.ID, op.Epoch, p.config.Now().Add(p.lease()))
		return err
	})
	if err != nil {
		return op, in, false, unavailable(fmt.Errorf("confirm the reservation of %s: %w", op.ID, err))
	}
	if !owned {
		return op, in, false, requestInProgress()
	}
	return op, in, false, nil
}

// checkReplay refuses another request under a known key, and a replay of an operation that is
// still processing.
func (p *Processor) checkReplay(r Request, known Operation) error {
	same, err := matches(p.config.Fingerprints, r, known.Fingerprint)
	switch {
	case err != nil:
		return err
	case !same:
		return keyReused()
	case known.State == Processing:
		return requestInProgress()
	}
	return nil
}

// callProvider sends the order of the main component and then that of the add-on, if any, and
// returns the settlement that follows from the replies.
func (p *Processor) callProvider(ctx context.Context, op Operation, in input) Settlement {
	order := mainOrder(op, p.config.ClientKeys)
	order.Email, order.Password = in.profile.Email, in.password
	reply, call := p.apply(ctx, order)
	s := Settlement{
		OperationID: op.ID, LastRead: &op, Epoch: op.Epoch, Node: p.config.Node, AddonState: op.AddonState,
		ProviderTransaction: reply.Transaction, ProviderMessage: reply.Message, Calls: []ProviderCall{call},
	}
	switch reply.Outcome {
	case Confirmed:
		s.To, s.Why = Success, "the provider confirmed"
		if op.Addon != "" {
			p.callAddon(ctx, op, in, &s)
		}
	case Rejected:
		s.To, s.Reason, s.Why = Failed, ProviderRejected, "the provider rejected"
		if reply.NotSent {
			s.Reason, s.Why = ProviderUnreachable, "the request never left"
		}
		if s.ProviderMessage == "" {
			s.ProviderMessage = "The provider could not carry out the request."
		}
	default:
		s.To, s.Why = NeedsReview, "the provider's answer is not known"
	}
	s.At = p.config.Now()
	if s.To == NeedsReview {
		s.NextCheckAt = s.At.Add(p.config.FirstCheck)
	}
	if s.To == Success && op.Addon != "" && s.AddonState != AddonSuccess {
		s.AddonNextAt = s.At.Add(p.config.FirstCheck)
	}
	return s
}

// callAddon orders the add-on. Whatever comes of it, the operation stays a success.
func (p *Processor) callAddon(ctx context.Context, op Operation, in input, s *Settlement) {
	owned, err := p.store.ExtendLease(ctx, op.ID, op.Epoch, p.config.Now().Add(p.lease()))
	if err != nil || !owned {
		return // the Reviewer orders it later
	}
	order := addonOrder(op, p.config.ClientKeys)
	order.Email, order.Password = in.profile.Email, in.password
	reply, call := p.apply(ctx, order)
	s.Calls = append(s.Calls, call)
	switch reply.Outcome {
	case Confirmed:
		s.AddonState = AddonSuccess
	case Rejected:
		s.AddonState, s.AddonAttempt = AddonFailed, 1
	default:
		s.AddonState = AddonUnknown
	}
}

func (p *Processor) apply(ctx context.Context, order Order) (Reply, ProviderCall) {
	reply, call := recordCall(p.config.Now, string(order.Kind), order, func() Reply { return p.provider.Apply(ctx, order) })
	p.breaker.Record(reply)
	return reply, call
}

// mainOrder is the order of the main component.
func mainOrder(op Operation, keys ClientKeys) Order {
	return Order{
		Reference: op.ID, ClientKey: keys.ofOperation(op), Kind: op.Kind,
		SubscriberID: op.SubscriberID, Mobile: op.Mobile, Name: op.CustomerName,
		Component: op.Main, Months: op.PlanMonths, StartDate: op.CycleStartsAt, ExpiresAt: op.ExpiryPlanned,
	}
}

// addonOrder is the order of the add-on. It has its own reference, and a new one after each
// definite rejection.
func addonOrder(op Operation, keys ClientKeys) Order {
	order := mainOrder(op, keys)
	order.Reference, order.Component = op.AddonReference(), op.Addon
	return order
}

// settle saves the outcome. If this node's lease expired and another owner has settled, that
// settlement stands; the store raises an exception if our reply contradicts it.
func (p *Processor) settle(ctx context.Context, s Settlement) (Operation, error) {
	return settleWithRetry(ctx, p.store, s, p.lease())
}

func requestInProgress() error {
	return fault.New(fault.RequestInProgress, "A request with this Idempotency-Key is still being processed. Follow it with GET /transaction.")
}

// ErrMaintenance is the cause of a refusal because of maintenance mode.
var ErrMaintenance = errors.New("maintenance mode is on")

// maintenanceError is ErrMaintenance with the plan that was asked for; empty for an invalid request.
type maintenanceError struct{ planID string }

func (e maintenanceError) Error() string        { return ErrMaintenance.Error() }
func (e maintenanceError) Is(target error) bool { return target == ErrMaintenance }

// PlanInMaintenance returns the plan that a request asked for which was refused because of maintenance
// mode; empty for other errors. If the request is a repeated one that this store has forgotten, it
// tells what was sold.
func PlanInMaintenance(err error) (planID string) {
	if err == nil {
		return ""
	}
	var refused maintenanceError
	if errors.As(err, &refused) {
		return refused.planID
	}
	return ""
}

// MaintenanceMessage is the message of a refusal because of maintenance mode.
const MaintenanceMessage = "The service is in maintenance and accepts no new operations. Nothing was charged; retry later with the same Idempotency-Key."

func inMaintenance(in input, invalid error) error {
	var cause maintenanceError
	if invalid == nil {
		cause.planID = in.planID
	}
	return fault.New(fault.ServiceUnavailable, MaintenanceMessage).Because(cause)
}

func unavailable(cause error) error {
	return fault.New(fault.ServiceUnavailable, "The service is temporarily unavailable. Retry with backoff and the same Idempotency-Key.").Because(cause)
}
