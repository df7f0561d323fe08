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
	// leaseSlack is what a node has beside the provider's time to write down
	// what came of a call.
	leaseSlack = 5 * time.Second
	// reserveAttempts bounds how often a request is judged anew because the
	// facts moved under it. Each attempt that fails means that somebody else's
	// succeeded.
	reserveAttempts = 50
	// ambiguousAttempts bounds how often a commit is tried again that may or
	// may not have taken hold; trying again finds out.
	ambiguousAttempts = 3
)

// Prices says what a plan costs, from the offer of it that was read with the other
// facts. It refuses with PLANS_UNAVAILABLE where prices are not verified, and with
// INVALID_PLAN where there is no such plan. Where they had to be verified first, the
// facts are old, and are to be read again.
type Prices interface {
	Price(ctx context.Context, offer subscription.Offer) (plan subscription.Plan, again bool, err error)
}

// Config is what a processor is told beside its parts.
type Config struct {
	Now            func() time.Time
	Node           string
	ProviderName   string
	Timeout        time.Duration // of one provider call
	FirstCheck     time.Duration // before an operation in review is verified
	ActivationTerm subscription.ActivationTerm
	Fingerprints   Fingerprints
}

// Processor carries requests through.
type Processor struct {
	store    Store
	prices   Prices
	provider Provider
	breaker  *Breaker
	config   Config
}

// NewProcessor returns a processor.
func NewProcessor(store Store, prices Prices, provider Provider, breaker *Breaker, config Config) *Processor {
	return &Processor{store: store, prices: prices, provider: provider, breaker: breaker, config: config}
}

// Result is what became of a request.
type Result struct {
	Operation
	// Replayed: the key was known, and nothing was done.
	Replayed bool
	// Password is the customer's, if the service made it up: it is given here
	// once, and kept nowhere.
	Password string
}

// lease is how long a node may take over one provider call.
func (p *Processor) lease() time.Duration { return p.config.Timeout + leaseSlack }

// Process carries one request through the contract's eight steps, of which
// access has done the first. An operation that failed or is in review is a
// result, not an error: the error is for what never became an operation, and
// for what only settling can still find out.
func (p *Processor) Process(ctx context.Context, r Request) (Result, error) {
	op, w, replay, err := p.reserve(ctx, r)
	if err != nil || replay {
		return Result{Operation: op, Replayed: replay}, err
	}

	// From here on money has moved: a caller who hangs up changes nothing.
	ctx = context.WithoutCancel(ctx)
	if err := failpoint.Hit("P.before"); err != nil {
		return Result{}, err
	}
	password := ""
	if op.Kind == Activate && w.password == "" {
		password = newPassword()
		w.password = password
	}

	// 7. Call the provider. Nothing is held or locked meanwhile.
	settlement := p.ask(ctx, op, w)
	if err := failpoint.Hit("P.after"); err != nil {
		return Result{}, err
	}

	// 8. Settle. Silence is not a refusal.
	done, err := p.settle(ctx, settlement)
	if err == nil {
		err = failpoint.Hit("S.after")
	}
	if err != nil {
		// The store still has it as open. Repeating is answered with that,
		// and review ends it.
		return Result{}, fmt.Errorf("settle %s: %w", op.ID, err)
	}
	switch done.State {
	case Processing:
		// Another node has taken it over and not finished. It will.
		return Result{}, requestInProgress()
	case Failed:
		password = ""
	}
	return Result{Operation: done, Password: password}, nil
}

// reserve is the steps up to the reservation. They are taken again, from the
// top, when something they rest on moved before the reservation was made.
func (p *Processor) reserve(ctx context.Context, r Request) (op Operation, w wish, replay bool, err error) {
	id, doubts := newID(p.config.Now()), 0
	patience := patience{length: p.lease()}
	for range reserveAttempts {
		// The shape needs no look at anything, so it is judged first, and
		// answered in its turn.
		var misshapen error
		w, misshapen = validate(r)

		// 2. Idempotency: a known key keeps its result, whatever has changed
		// since. A known key with another body is refused before that body is
		// judged.
		facts, err := p.facts(ctx, r, w, misshapen == nil)
		var known Operation
		if err == nil && facts.KnownID != "" {
			var found bool
			if known, found, err = p.store.OperationByKey(ctx, r.OperatorID, r.IdempotencyKey); err == nil && !found {
				continue // it was there for a moment, and its server with it
			}
		}
		if err != nil && doubts > 0 && patience.pause() {
			continue // a doubt is not left behind while it can be resolved
		}
		switch {
		case err != nil:
			return op, w, false, unavailable(fmt.Errorf("read the facts: %w", err))
		case facts.KnownID == id:
			// Our own reservation, whose commit nobody could vouch for. What was
			// read may still vanish; a commit of our own on top of it may not.
			return p.confirmReservation(ctx, known, w)
		case facts.KnownID != "":
			return known, w, true, p.judgeReplay(r, known)
		case facts.Maintenance:
			return op, w, false, inMaintenance()
		}

		// 3 to 5. Shape, price, customer, balance. That the key is free and
		// everything else were true at one moment, so no request is refused
		// because of its own twin.
		draft, again, err := p.consider(ctx, id, r, w, misshapen, facts)
		if err != nil {
			return op, w, false, err
		}
		if again {
			continue
		}

		// 6. Reserve: all or nothing.
		if err := failpoint.Hit("R.before"); err != nil {
			return op, w, false, err
		}
		op, err = p.store.Reserve(ctx, draft)
		switch {
		case err == nil && p.config.Now().Before(op.LeaseUntil):
			return op, w, false, nil
		case err == nil:
			// The commit took longer than the lease, as one that waits for a
			// standby may: somebody else may hold the operation already.
			return p.confirmReservation(ctx, op, w)
		case errors.Is(err, ErrMoved):
			continue
		case errors.Is(err, ErrAmbiguous) && doubts < ambiguousAttempts:
			// Money may have moved: a caller who hangs up changes nothing.
			ctx = context.WithoutCancel(ctx)
			doubts++
			continue
		case doubts > 0 && errors.Is(err, ErrUnavailable) && patience.pause():
			continue
		}
		return op, w, false, unavailable(fmt.Errorf("reserve: %w", err))
	}
	return op, w, false, unavailable(errors.New("the facts moved faster than the request could be judged"))
}

// facts reads what a request is judged on. Of one that is misshapen only the key and
// maintenance mode count; it names no customer and no plan to look up.
func (p *Processor) facts(ctx context.Context, r Request, w wish, shapely bool) (Snapshot, error) {
	if !shapely {
		return p.store.Snapshot(ctx, SnapshotQuery{OperatorID: r.OperatorID, IdempotencyKey: r.IdempotencyKey, Kind: Renew, Provider: p.config.ProviderName})
	}
	now := p.config.Now()
	return p.store.Snapshot(ctx, SnapshotQuery{
		OperatorID: r.OperatorID, IdempotencyKey: r.IdempotencyKey, Kind: r.Kind,
		SubscriberID: w.subscriberID, Mobile: w.mobile, PlanID: w.planID, Provider: p.config.ProviderName,
		Now: now, DuplicatesSince: now.Add(-duplicateWindow),
	})
}

// consider takes a new request through everything that can refuse it, and drafts the
// operation that it asks for. Where prices had to be verified first, the facts are to
// be read again. What can be said of a request that only money or the provider stand
// in the way of is in the draft, beside the refusal.
func (p *Processor) consider(ctx context.Context, id string, r Request, w wish, misshapen error, facts Snapshot) (d Draft, again bool, err error) {
	if misshapen != nil {
		return d, false, misshapen
	}
	plan, again, err := p.prices.Price(ctx, facts.Offer)
	if err != nil || again {
		return d, again, err
	}
	// The time is taken once the facts are there, so that everything they show
	// lies before it, however long the node slept over the reading.
	now := p.config.Now()
	if err := judgeCustomer(r.OperatorID, r.Kind, plan, facts, now); err != nil {
		return d, false, err
	}
	if d, err = p.draft(id, r, w, plan, facts, now); err != nil {
		return d, false, err
	}
	if err := judgeBalance(facts.Balance, plan.Price); err != nil {
		return d, false, err
	}
	return d, false, p.breaker.Allow()
}

func (p *Processor) confirmReservation(ctx context.Context, op Operation, w wish) (Operation, wish, bool, error) {
	// Money has moved: a caller who hangs up changes nothing.
	ctx = context.WithoutCancel(ctx)
	var held bool
	err := persist(p.lease(), func() (err error) {
		held, err = p.store.ExtendLease(ctx, op.ID, op.Epoch, p.config.Now().Add(p.lease()))
		return err
	})
	if err != nil {
		return op, w, false, unavailable(fmt.Errorf("confirm the reservation of %s: %w", op.ID, err))
	}
	if !held {
		return op, w, false, requestInProgress()
	}
	return op, w, false, nil
}

// judgeReplay tells a repetition from another request under the same key, and
// one that is over from one that still runs.
func (p *Processor) judgeReplay(r Request, known Operation) error {
	same, err := p.config.Fingerprints.matches(r, known.Fingerprint)
	switch {
	case err != nil:
		return err
	case !same:
		return fault.New(fault.IdempotencyKeyReused, "This Idempotency-Key was used for another request. Use a new key for a new business action.")
	case known.State == Processing:
		return requestInProgress()
	}
	return nil
}

// ask calls the provider, for a combo twice, and says what is to be settled.
func (p *Processor) ask(ctx context.Context, op Operation, w wish) Settlement {
	order := orderOf(op)
	order.Email, order.Password = w.profile.Email, w.password
	answer, call := p.apply(ctx, order)
	s := Settlement{
		OperationID: op.ID, Held: &op, Epoch: op.Epoch, Node: p.config.Node, AddonState: op.AddonState,
		ProviderTransaction: answer.Transaction, ProviderMessage: answer.Message, Calls: []ProviderCall{call},
	}
	switch answer.Outcome {
	case Confirmed:
		s.To, s.Why = Success, "the provider confirmed"
		if op.Addon != "" {
			p.askAddon(ctx, op, w, &s)
		}
	case Rejected:
		s.To, s.Reason, s.Why = Failed, ProviderRejected, "the provider rejected"
		if answer.NotSent {
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

// askAddon asks for the second component, which nothing but itself can fail.
func (p *Processor) askAddon(ctx context.Context, op Operation, w wish, s *Settlement) {
	held, err := p.store.ExtendLease(ctx, op.ID, op.Epoch, p.config.Now().Add(p.lease()))
	if err != nil || !held {
		return // the add-on waits; whoever settles the operation follows it up
	}
	order := addonOrderOf(op)
	order.Email, order.Password = w.profile.Email, w.password
	answer, call := p.apply(ctx, order)
	s.Calls = append(s.Calls, call)
	switch answer.Outcome {
	case Confirmed:
		s.AddonState = AddonSuccess
	case Rejected:
		s.AddonState, s.AddonAttempt = AddonFailed, 1
	default:
		s.AddonState = AddonUnknown
	}
}

func (p *Processor) apply(ctx context.Context, order Order) (Reply, ProviderCall) {
	answer, call := asked(p.config.Now, string(order.Kind), order, func() Reply { return p.provider.Apply(ctx, order) })
	p.breaker.Record(answer)
	return answer, call
}

// orderOf is what the provider is asked for the main component.
func orderOf(op Operation) Order {
	return Order{
		Reference: op.ID, Kind: op.Kind, SubscriberID: op.SubscriberID, Mobile: op.Mobile, Name: op.CustomerName,
		Component: op.Main, Months: op.PlanMonths, StartDate: op.CycleStartsAt, ExpiresAt: op.ExpiryPlanned,
	}
}

// addonOrderOf is what it is asked for the add-on, under a reference of its own:
// another one after each definite rejection.
func addonOrderOf(op Operation) Order {
	order := orderOf(op)
	order.Reference, order.Component = op.ID+"-2", op.Addon
	if op.AddonAttempt > 0 {
		order.Reference += fmt.Sprintf(".%d", op.AddonAttempt)
	}
	return order
}

// settle writes the outcome. Somebody else may have settled meanwhile, if this
// node slept through its lease: then what they decided stands, and where the
// provider's word goes against it, the store has raised an exception.
func (p *Processor) settle(ctx context.Context, s Settlement) (Operation, error) {
	return settleFor(ctx, p.store, s, p.lease())
}

func requestInProgress() error {
	return fault.New(fault.RequestInProgress, "A request with this Idempotency-Key is still being processed. Follow it with GET /transaction.")
}

// ErrMaintenance is the cause of a refusal because of maintenance mode.
var ErrMaintenance = errors.New("maintenance mode is on")

func inMaintenance() error {
	return fault.New(fault.ServiceUnavailable, "The service is in maintenance and accepts no new operations. Nothing was charged; retry later with the same Idempotency-Key.").
		Because(ErrMaintenance)
}

func unavailable(cause error) error {
	return fault.New(fault.ServiceUnavailable, "The service is temporarily unavailable. Retry with backoff and the same Idempotency-Key.").Because(cause)
}
