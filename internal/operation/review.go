package operation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/failpoint"
)

// reviewPoll is how often an idle Reviewer asks the store whether something is due.
const reviewPoll = 250 * time.Millisecond

// ReviewConfig holds the settings of a Reviewer.
type ReviewConfig struct {
	Now  func() time.Time
	Node string
	// Timeout limits one provider call. FirstCheck is the wait before the first check; it
	// doubles with each check up to MaxInterval. RefundAfter is how long a provider must have
	// been reporting an operation as not found before it is voided and refunded.
	Timeout     time.Duration
	FirstCheck  time.Duration
	MaxInterval time.Duration
	RefundAfter time.Duration
	ClientKeys  ClientKeys
	// OnError receives errors; what failed is tried again.
	OnError func(error)
	// Begin is called before an operation is followed up, and what it returns afterwards; what
	// is review, add-on or late check. It may be nil.
	Begin func(ctx context.Context, what string, op Operation) (context.Context, func(error))
}

// Reviewer follows up operations in review, operations that a crash left open, missing add-ons,
// refunds that the provider has not acknowledged, and reversals. It never sends a main order again.
type Reviewer struct {
	store    ReviewStore
	provider Provider
	config   ReviewConfig
	queues   []*queue
	freed    chan struct{} // a worker has finished
}

// NewReviewer returns a Reviewer.
func NewReviewer(store ReviewStore, provider Provider, config ReviewConfig) *Reviewer {
	r := &Reviewer{store: store, provider: provider, config: config, freed: make(chan struct{}, 1)}
	r.queues = []*queue{
		{
			what: "review", workers: reviewWorkers, perOperator: reviewsPerOperator, due: func(d Due) bool { return d.Reviews },
			claim: r.claimReviews, follow: r.review,
		}, {
			what: "add-on", workers: otherWorkers, perOperator: othersPerOperator, due: func(d Due) bool { return d.Addons },
			claim: store.ClaimAddons, follow: r.followAddon,
		}, {
			what: "late check", workers: otherWorkers, perOperator: othersPerOperator, due: func(d Due) bool { return d.LateChecks },
			claim: store.ClaimLateChecks, follow: r.checkLate,
		}, {
			what: "reversal", workers: otherWorkers, perOperator: othersPerOperator, due: func(d Due) bool { return d.Reversals },
			claim: r.claimReversals, follow: r.reverse,
		},
	}
	return r
}

// Run follows up until ctx ends, and then finishes what it has claimed. A free worker gets new
// work at once; Run waits only if nothing is due.
func (r *Reviewer) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	ticker := time.NewTicker(reviewPoll)
	defer ticker.Stop()
	onError := func(err error) {
		if ctx.Err() == nil {
			r.config.OnError(err)
		}
	}
	for ctx.Err() == nil {
		if r.start(ctx, &working, onError) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-r.freed:
		}
	}
}

// RunOnce follows up what is due now, as far as there are free workers, and returns how many
// operations that was.
func (r *Reviewer) RunOnce(ctx context.Context) (done int, err error) {
	var working sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	done = r.start(ctx, &working, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	})
	working.Wait()
	return done, errors.Join(errs...)
}

// start claims due operations for the free workers, starts them, and returns how many.
func (r *Reviewer) start(ctx context.Context, working *sync.WaitGroup, onError func(error)) (started int) {
	due, err := r.store.Due(ctx, r.config.Now())
	if err != nil {
		onError(err)
		return 0
	}
	for _, q := range r.queues {
		if !q.due(due) {
			continue
		}
		now := r.config.Now()
		// Time for two calls, status and void, and for saving their outcome.
		claim := Claim{Now: now, Node: r.config.Node, Until: now.Add(2*r.config.Timeout + 2*leaseSlack)}
		claimed, err := q.take(ctx, claim)
		if err != nil {
			onError(err)
		}
		started += len(claimed)
		// Claimed operations are followed up to the end, even if the loop stops.
		ctx := context.WithoutCancel(ctx)
		for _, op := range claimed {
			working.Go(func() {
				defer r.release(q, op)
				if err := r.follow(ctx, q, op); err != nil {
					onError(err)
				}
			})
		}
	}
	return started
}

func (r *Reviewer) follow(ctx context.Context, q *queue, op Operation) error {
	if r.config.Begin == nil {
		return q.follow(ctx, op)
	}
	ctx, ended := r.config.Begin(ctx, q.what, op)
	err := q.follow(ctx, op)
	ended(err)
	return err
}

func (r *Reviewer) release(q *queue, op Operation) {
	q.release(op)
	select {
	case r.freed <- struct{}{}:
	default: // already signalled
	}
}

func (r *Reviewer) claimReviews(ctx context.Context, c Claim) ([]Operation, error) {
	claimed, err := r.store.ClaimReviews(ctx, c)
	if err == nil && len(claimed) > 0 {
		err = failpoint.Hit("V.claimed")
	}
	if err != nil {
		return nil, err // a claim that was committed all the same expires with its lease
	}
	return claimed, nil
}

// review asks the provider for the outcome of an operation, and settles it if the reply is
// definite.
func (r *Reviewer) review(ctx context.Context, op Operation) error {
	reply, calls := r.queryOutcome(ctx, op)
	if err := failpoint.Hit("V.answered"); err != nil {
		return err
	}
	switch {
	case reply.Outcome == Confirmed:
		return r.settle(ctx, op, Success, reply, "", "the provider says that it was carried out", calls)
	case reply.Outcome == Rejected && reply.Message != "":
		return r.settle(ctx, op, Failed, reply, ProviderRejected, "the provider says that it was rejected", calls)
	case reply.Outcome == Rejected:
		return r.settle(ctx, op, Failed, reply, NotConfirmed, "the provider says that it will never be carried out", calls)
	}
	return r.postpone(ctx, op, reply, calls)
}

// queryOutcome asks for the status. An operation that the provider has not known for RefundAfter
// is voided, so that it cannot be carried out after the refund.
func (r *Reviewer) queryOutcome(ctx context.Context, op Operation) (Reply, []ProviderCall) {
	order := mainOrder(op, r.config.ClientKeys)
	reply, call := recordCall(r.config.Now, "status", order, func() Reply { return r.provider.Status(ctx, order) })
	calls := []ProviderCall{call}
	if !reply.NotFound || r.config.Now().Before(op.ReviewSince.Add(r.config.RefundAfter)) {
		return reply, calls
	}
	reply, call = recordCall(r.config.Now, "void", order, func() Reply { return r.provider.Void(ctx, order) })
	return reply, append(calls, call)
}

func (r *Reviewer) settle(ctx context.Context, op Operation, to State, reply Reply, reason Reason, why string, calls []ProviderCall) error {
	now := r.config.Now()
	s := Settlement{
		OperationID: op.ID, Epoch: op.Epoch, To: to, At: now, Node: r.config.Node, Why: why, Reason: reason,
		ProviderTransaction: reply.Transaction, ProviderMessage: reply.Message, AddonState: op.AddonState, Calls: calls,
	}
	if to == Failed && s.ProviderMessage == "" {
		s.ProviderMessage = "The provider did not carry out the request."
	}
	if to == Success && op.Addon != "" {
		s.AddonNextAt = now
	}
	if reason == NotConfirmed {
		s.NextCheckAt = now.Add(r.config.MaxInterval)
	}
	if _, err := settleWithRetry(ctx, r.store, s, r.config.Timeout+leaseSlack); err != nil {
		return err
	}
	return failpoint.Hit("V.settled")
}

// postpone schedules the next check after twice the wait. An operation whose outcome stays unknown
// for RefundAfter is listed for a person; the checks go on all the same.
func (r *Reviewer) postpone(ctx context.Context, op Operation, reply Reply, calls []ProviderCall) error {
	now := r.config.Now()
	_, err := r.store.Postpone(ctx, Postponement{
		OperationID: op.ID, Epoch: op.Epoch, NextCheckAt: now.Add(r.backoff(op.Checks)),
		NeedsPerson: !reply.NotFound && !now.Before(op.ReviewSince.Add(r.config.RefundAfter)),
		Node:        r.config.Node, Calls: calls,
	})
	return err
}

// followAddon orders a combo's add-on. If the outcome of the last order is unknown, it asks for the
// status first and sends the same reference again only if the provider does not know it. After a
// definite rejection the next order has a new reference. An add-on that is still missing when the
// wait has reached MaxInterval is listed for a person, and followed up all the same.
func (r *Reviewer) followAddon(ctx context.Context, op Operation) error {
	s := AddonSettlement{OperationID: op.ID, Epoch: op.AddonEpoch, Attempt: op.AddonAttempt, Node: r.config.Node}
	order := addonOrder(op, r.config.ClientKeys)
	var reply Reply
	var call ProviderCall
	send := op.AddonState == AddonFailed
	if !send {
		reply, call = recordCall(r.config.Now, "status", order, func() Reply { return r.provider.Status(ctx, order) })
		s.Calls = append(s.Calls, call)
		send = reply.NotFound
	}
	if send {
		reply, call = recordCall(r.config.Now, string(order.Kind), order, func() Reply { return r.provider.Apply(ctx, order) })
		s.Calls = append(s.Calls, call)
		if reply.NotSent {
			// An earlier call with the same reference may have reached the provider.
			reply.Outcome = Unknown
			s.Calls[len(s.Calls)-1].Reply.Outcome = Unknown
		}
	}
	switch reply.Outcome {
	case Confirmed:
		s.State = AddonSuccess
	case Rejected:
		s.State, s.Attempt = AddonFailed, op.AddonAttempt+1
	default:
		s.State = AddonUnknown
	}
	s.At = r.config.Now()
	if s.State != AddonSuccess {
		wait := r.backoff(op.AddonChecks)
		s.NextAt, s.NeedsPerson = s.At.Add(wait), wait == r.config.MaxInterval
	}
	return r.store.SettleAddon(ctx, s)
}

// backoff returns the wait after a number of checks; it doubles with each.
func (r *Reviewer) backoff(checks int) time.Duration {
	wait := max(r.config.FirstCheck, reviewPoll)
	for range checks {
		if wait *= 2; wait >= r.config.MaxInterval {
			break
		}
	}
	return min(wait, r.config.MaxInterval)
}

// lateChecks limits how often a refunded operation is voided while the provider does not answer.
const lateChecks = 3

// checkLate voids an operation that was refunded without the provider's rejection. If it was carried
// out after all, or if the provider never answers, an exception is raised for a person to decide.
func (r *Reviewer) checkLate(ctx context.Context, op Operation) error {
	order := mainOrder(op, r.config.ClientKeys)
	reply, call := recordCall(r.config.Now, "void", order, func() Reply { return r.provider.Void(ctx, order) })
	now := r.config.Now()
	check := LateCheck{OperationID: op.ID, Check: op.Checks, Node: r.config.Node, Calls: []ProviderCall{call}}
	switch e, contradicts := contradiction(op, reply, now); {
	case contradicts:
		check.Exception = &e
	case reply.Outcome == Unknown && op.Checks < lateChecks:
		check.NextAt = now.Add(r.config.MaxInterval)
	case reply.Outcome == Unknown && op.Reason == RejectedByReview:
		// A refund as NOT_CONFIRMED follows a void that the provider has confirmed.
		check.Exception = &Exception{
			OperationID: op.ID, Kind: VoidUnanswered, At: now,
			Detail: fmt.Sprintf("refunded by a person; told %d times never to carry it out, the provider did not answer", op.Checks),
		}
	}
	return r.store.CloseLateCheck(ctx, check)
}

// contradiction returns the exception to raise if a definite reply contradicts how the operation
// was settled: it was refunded but carried out, charged but not carried out, or carried out under
// another transaction number.
func contradiction(op Operation, reply Reply, now time.Time) (e Exception, contradicts bool) {
	e = Exception{OperationID: op.ID, At: now}
	switch {
	case reply.Outcome == Confirmed && op.State == Failed:
		e.Kind = LateSuccess
		e.Detail = "refunded as " + string(op.Reason) + "; the provider says that it was carried out as " + reply.Transaction
	case reply.Outcome == Rejected && op.State == Success:
		e.Kind = RejectedAfterSuccess
		e.Detail = "charged; the provider says that it was not carried out"
		if reply.Message != "" {
			e.Detail += ": " + reply.Message
		}
	case reply.Outcome == Confirmed && op.State == Success && op.ProviderTransaction != "" && reply.Transaction != op.ProviderTransaction:
		e.Kind = DuplicateEffect
		e.Detail = "settled as " + op.ProviderTransaction + "; the provider also says that it was carried out as " + reply.Transaction
	default:
		return e, false
	}
	return e, true
}

// recordCall makes one provider call and returns the reply and the record of the call.
func recordCall(now func() time.Time, what string, order Order, call func() Reply) (Reply, ProviderCall) {
	at := now()
	reply := call()
	return reply, ProviderCall{
		Reference: order.Reference, What: what, Component: order.Component, Reply: reply, AskedAt: at, AnsweredAt: now(),
	}
}

// settleWithRetry settles, and tries again within the limit: a second attempt settles or finds the
// operation settled. What is still open afterwards is claimed for review when its lease ends.
func settleWithRetry(ctx context.Context, store Store, s Settlement, limit time.Duration) (op Operation, err error) {
	err = retry(limit, func() (err error) {
		op, _, err = store.Settle(ctx, s)
		return err
	})
	return op, err
}
