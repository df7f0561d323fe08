package operation

import (
	"context"
	"slices"
	"sync"
)

// How many follow-ups run at once on a node. A worker does nothing but wait for the
// provider, so their number is what the provider's latency asks for: 64 at 200 ms are
// some 300 answers a second. The store takes their results in shared commits. An
// operator has a quarter of them, so that its unknown outcomes, each of which keeps
// a worker until the timeout, leave the rest to others. Add-ons and late checks have
// workers of their own, as they can wait and reviews hold money.
const (
	reviewWorkers      = 64
	reviewsPerOperator = reviewWorkers / 4
	otherWorkers       = 16
	othersPerOperator  = otherWorkers / 4
)

// queue is one kind of follow-up, with workers of its own.
type queue struct {
	workers, perOperator int
	due                  func(Due) bool
	claim                func(context.Context, Claim) ([]Operation, error)
	follow               func(context.Context, Operation) error

	mu    sync.Mutex
	busy  int
	held  map[int64][]string // ids, by operator
	after int64              // the operator that was served last
}

// take claims as much as there are free workers, within each operator's bound.
func (q *queue) take(ctx context.Context, c Claim) ([]Operation, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.Limit, c.PerOperator, c.Held, c.After = q.workers-q.busy, q.perOperator, q.held, q.after
	if c.Limit == 0 {
		return nil, nil
	}
	claimed, err := q.claim(ctx, c)
	if err != nil {
		return nil, err
	}
	if q.held == nil {
		q.held = map[int64][]string{}
	}
	last := uint64(0)
	for _, op := range claimed {
		q.busy++
		q.held[op.OperatorID] = append(q.held[op.OperatorID], op.ID)
		// Places are counted from behind the operator that was served last.
		if place := uint64(op.OperatorID) - uint64(c.After) - 1; place >= last {
			last, q.after = place, op.OperatorID
		}
	}
	return claimed, nil
}

func (q *queue) release(op Operation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy--
	held := q.held[op.OperatorID]
	if at := slices.Index(held, op.ID); len(held) > 1 {
		q.held[op.OperatorID] = slices.Delete(held, at, at+1)
	} else {
		delete(q.held, op.OperatorID)
	}
}
