package operation

import (
	"context"
	"slices"
	"sync"
)

// Limits of the follow-ups that run at once on a node. A worker mostly waits for the provider:
// 64 workers at 200 ms make some 300 calls a second, and the store writes their results in shared
// commits. One operator gets at most a quarter of the workers, because each of its unknown outcomes
// occupies one until the timeout. Add-ons and late checks have their own workers: they can wait,
// while reviews hold money.
const (
	reviewWorkers      = 64
	reviewsPerOperator = reviewWorkers / 4
	otherWorkers       = 16
	othersPerOperator  = otherWorkers / 4
)

// queue is one kind of follow-up with its own workers.
type queue struct {
	what                 string
	workers, perOperator int
	due                  func(Due) bool
	claim                func(context.Context, Claim) ([]Operation, error)
	follow               func(context.Context, Operation) error

	mu    sync.Mutex
	busy  int
	held  map[int64][]string // ids of claimed operations, by operator
	after int64              // the operator that was served last
}

// take claims one operation for each free worker, within the limit of each operator.
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
		// Operators are served in turn, so distances count from the one served last.
		if distance := uint64(op.OperatorID) - uint64(c.After) - 1; distance >= last {
			last, q.after = distance, op.OperatorID
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
