package operation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/failpoint"
)

// reviewPoll is how often the store is asked whether something is due while there
// is nothing to do.
const reviewPoll = 250 * time.Millisecond

// ReviewConfig is how patiently operations are followed up.
type ReviewConfig struct {
	Now  func() time.Time
	Node string
	// Timeout is of one provider call. FirstCheck is the first wait, doubled
	// from check to check up to MaxInterval. RefundAfter is how long a provider
	// must keep saying that it does not know an operation to be believed.
	Timeout     time.Duration
	FirstCheck  time.Duration
	MaxInterval time.Duration
	RefundAfter time.Duration
	// Problem is told what could not be done; it will be tried again.
	Problem func(error)
}

// Reviewer follows up what is open or doubtful: operations in review, those that
// a crash left behind, add-ons that are missing, refunds that may have been
// premature. It asks and never sends an operation again.
type Reviewer struct {
	store    ReviewStore
	provider Provider
	config   ReviewConfig
	queues   []*queue
	freed    chan struct{} // a worker has ended
}

// NewReviewer returns a reviewer.
func NewReviewer(store ReviewStore, provider Provider, config ReviewConfig) *Reviewer {
	r := &Reviewer{store: store, provider: provider, config: config, freed: make(chan struct{}, 1)}
	r.queues = []*queue{
		{
			workers: reviewWorkers, perOperator: reviewsPerOperator, due: func(d Due) bool { return d.Reviews },
			claim: r.claimReviews, follow: r.review,
		}, {
			workers: otherWorkers, perOperator: othersPerOperator, due: func(d Due) bool { return d.Addons },
			claim: store.ClaimAddons, follow: r.followAddon,
		}, {
			workers: otherWorkers, perOperator: othersPerOperator, due: func(d Due) bool { return d.LateChecks },
			claim: store.ClaimLateChecks, follow: r.checkLate,
		},
	}
	return r
}

// Run follows up until ctx ends, and then finishes what it has begun. Workers are
// refilled as they end; only where there is nothing to start does it wait.
func (r *Reviewer) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	ticker := time.NewTicker(reviewPoll)
	defer ticker.Stop()
	problem := func(err error) {
		if ctx.Err() == nil {
			r.config.Problem(err)
		}
	}
	for ctx.Err() == nil {
		if r.start(ctx, &working, problem) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-r.freed:
		}
	}
}

// RunOnce does what is due now, as far as there are workers for it, and says how
// much that was.
func (r *Reviewer) RunOnce(ctx context.Context) (done int, err error) {
	var working sync.WaitGroup
	var mu sync.Mutex
	var problems []error
	done = r.start(ctx, &working, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		problems = append(problems, err)
	})
	working.Wait()
	return done, errors.Join(problems...)
}

// start claims what is due for the workers that are free, sets them to work, and
// says how many.
func (r *Reviewer) start(ctx context.Context, working *sync.WaitGroup, problem func(error)) (started int) {
	due, err := r.store.Due(ctx, r.config.Now())
	if err != nil {
		problem(err)
		return 0
	}
	for _, q := range r.queues {
		if !q.due(due) {
			continue
		}
		now := r.config.Now()
		// Two calls, a question and a void, and time to write down what they came to.
		claim := Claim{Now: now, Node: r.config.Node, Until: now.Add(2*r.config.Timeout + 2*leaseSlack)}
		claimed, err := q.take(ctx, claim)
		if err != nil {
			problem(err)
		}
		started += len(claimed)
		// What was claimed is carried through, whoever stops the loop.
		ctx := context.WithoutCancel(ctx)
		for _, op := range claimed {
			working.Go(func() {
				defer r.release(q, op)
				if err := q.follow(ctx, op); err != nil {
					problem(err)
				}
			})
		}
	}
	return started
}

func (r *Reviewer) release(q *queue, op Operation) {
	q.release(op)
	select {
	case r.freed <- struct{}{}:
	default: // it is known already
	}
}

func (r *Reviewer) claimReviews(ctx context.Context, c Claim) ([]Operation, error) {
	claimed, err := r.store.ClaimReviews(ctx, c)
	if err == nil && len(claimed) > 0 {
		err = failpoint.Hit("V.claimed")
	}
	if err != nil {
		return nil, err // what was claimed all the same is anybody's again later
	}
	return claimed, nil
}

// review asks the provider what became of an operation, and settles it if the
// answer is definite.
func (r *Reviewer) review(ctx context.Context, op Operation) error {
	answer, calls := r.question(ctx, op)
	if err := failpoint.Hit("V.answered"); err != nil {
		return err
	}
	switch {
	case answer.Outcome == Confirmed:
		return r.settle(ctx, op, Success, answer, "", "the provider says that it was carried out", calls)
	case answer.Outcome == Rejected && answer.Message != "":
		return r.settle(ctx, op, Failed, answer, ProviderRejected, "the provider says that it was rejected", calls)
	case answer.Outcome == Rejected:
		return r.settle(ctx, op, Failed, answer, NotConfirmed, "the provider says that it will never be carried out", calls)
	}
	return r.postpone(ctx, op, answer, calls)
}

// question asks for the status. A provider that has not known the operation for
// long enough is told never to carry it out, before anything is refunded.
func (r *Reviewer) question(ctx context.Context, op Operation) (Reply, []ProviderCall) {
	order := orderOf(op)
	answer, call := asked(r.config.Now, "status", order, func() Reply { return r.provider.Status(ctx, order) })
	calls := []ProviderCall{call}
	if !answer.NotFound || r.config.Now().Before(op.ReviewSince.Add(r.config.RefundAfter)) {
		return answer, calls
	}
	answer, call = asked(r.config.Now, "void", order, func() Reply { return r.provider.Void(ctx, order) })
	return answer, append(calls, call)
}

func (r *Reviewer) settle(ctx context.Context, op Operation, to State, answer Reply, reason Reason, why string, calls []ProviderCall) error {
	now := r.config.Now()
	s := Settlement{
		OperationID: op.ID, Epoch: op.Epoch, To: to, At: now, Node: r.config.Node, Why: why, Reason: reason,
		ProviderTransaction: answer.Transaction, ProviderMessage: answer.Message, AddonState: op.AddonState, Calls: calls,
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
	if _, err := settleFor(ctx, r.store, s, r.config.Timeout+leaseSlack); err != nil {
		return err
	}
	return failpoint.Hit("V.settled")
}

// postpone waits twice as long as before. An operation whose outcome stays
// unknowable is put on the list for a person; it is asked about all the same.
func (r *Reviewer) postpone(ctx context.Context, op Operation, answer Reply, calls []ProviderCall) error {
	now := r.config.Now()
	_, err := r.store.Postpone(ctx, Postponement{
		OperationID: op.ID, Epoch: op.Epoch, NextCheckAt: now.Add(r.backoff(op.Checks)),
		NeedsPerson: !answer.NotFound && !now.Before(op.ReviewSince.Add(r.config.RefundAfter)),
		Node:        r.config.Node, Calls: calls,
	})
	return err
}

// followAddon gets a combo's second component. Where the last answer is not
// known, what became of it is asked first, and only a reference that the
// provider does not know is sent again; after a definite rejection the next
// attempt has a reference of its own. One that is still missing when the wait has
// grown to its longest is put on the list for a person, and followed up all the same.
func (r *Reviewer) followAddon(ctx context.Context, op Operation) error {
	s := AddonSettlement{OperationID: op.ID, Epoch: op.AddonEpoch, Attempt: op.AddonAttempt, Node: r.config.Node}
	order := addonOrderOf(op)
	var answer Reply
	var call ProviderCall
	send := op.AddonState == AddonFailed
	if !send {
		answer, call = asked(r.config.Now, "status", order, func() Reply { return r.provider.Status(ctx, order) })
		s.Calls = append(s.Calls, call)
		send = answer.NotFound
	}
	if send {
		answer, call = asked(r.config.Now, string(order.Kind), order, func() Reply { return r.provider.Apply(ctx, order) })
		s.Calls = append(s.Calls, call)
		if answer.NotSent {
			// That this call did not leave says nothing of an earlier one with
			// the same reference.
			answer.Outcome = Unknown
			s.Calls[len(s.Calls)-1].Reply.Outcome = Unknown
		}
	}
	switch answer.Outcome {
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

// backoff is how long to wait after so many questions: twice as long each time.
func (r *Reviewer) backoff(questions int) time.Duration {
	wait := max(r.config.FirstCheck, reviewPoll)
	for range questions {
		if wait *= 2; wait >= r.config.MaxInterval {
			break
		}
	}
	return min(wait, r.config.MaxInterval)
}

// lateChecks is how often the provider is told never to carry out an operation that
// was refunded, if it does not answer.
const lateChecks = 3

// checkLate makes sure that an operation which was refunded without the provider's
// own no is never carried out. If it turns out to have been carried out after all, or
// if the provider never says that it was not, a person decides.
func (r *Reviewer) checkLate(ctx context.Context, op Operation) error {
	order := orderOf(op)
	answer, call := asked(r.config.Now, "void", order, func() Reply { return r.provider.Void(ctx, order) })
	now := r.config.Now()
	check := LateCheck{OperationID: op.ID, Check: op.Checks, Node: r.config.Node, Calls: []ProviderCall{call}}
	switch e, contradicts := contradiction(op, answer, now); {
	case contradicts:
		check.Exception = &e
	case answer.Outcome == Unknown && op.Checks < lateChecks:
		check.Again = now.Add(r.config.MaxInterval)
	case answer.Outcome == Unknown && op.Reason == RejectedByReview:
		// After a void of review's own the provider has said so once.
		check.Exception = &Exception{
			OperationID: op.ID, Kind: VoidUnanswered, At: now,
			Detail: fmt.Sprintf("refunded by a person; told %d times never to carry it out, the provider did not answer", op.Checks),
		}
	}
	return r.store.CloseLateCheck(ctx, check)
}

// contradiction is the exception that there is where a definite answer of the
// provider goes against what has been settled: it carried out what was refunded, did
// not carry out what was charged, or carried it out under another number.
func contradiction(op Operation, answer Reply, now time.Time) (e Exception, contradicts bool) {
	e = Exception{OperationID: op.ID, At: now}
	switch {
	case answer.Outcome == Confirmed && op.State == Failed:
		e.Kind = LateSuccess
		e.Detail = "refunded as " + string(op.Reason) + "; the provider says that it was carried out as " + answer.Transaction
	case answer.Outcome == Rejected && op.State == Success:
		e.Kind = RejectedAfterSuccess
		e.Detail = "charged; the provider says that it was not carried out"
		if answer.Message != "" {
			e.Detail += ": " + answer.Message
		}
	case answer.Outcome == Confirmed && op.State == Success && op.ProviderTransaction != "" && answer.Transaction != op.ProviderTransaction:
		e.Kind = DuplicateEffect
		e.Detail = "settled as " + op.ProviderTransaction + "; the provider also says that it was carried out as " + answer.Transaction
	default:
		return e, false
	}
	return e, true
}

// asked puts one question and writes down what came of it.
func asked(now func() time.Time, what string, order Order, ask func() Reply) (Reply, ProviderCall) {
	at := now()
	answer := ask()
	return answer, ProviderCall{
		Reference: order.Reference, What: what, Component: order.Component, Reply: answer, AskedAt: at, AnsweredAt: now(),
	}
}

// settleFor settles, and goes on trying for a while: the second try either does it
// or finds it done. What is not settled then is found by its lease.
func settleFor(ctx context.Context, store Store, s Settlement, length time.Duration) (op Operation, err error) {
	err = persist(length, func() (err error) {
		op, _, err = store.Settle(ctx, s)
		return err
	})
	return op, err
}
