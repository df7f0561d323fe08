package postgres

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coaxhq/coax/internal/operation"
)

// operatorQueue holds the items of one operator that are kept out of shared batches:
// one of their rows was locked, or an item of their batch failed. One worker tries them,
// on one connection: the row of the wallet or rate counter serializes an operator's writes
// anyway. When the queue is empty and the last try did not time out on a lock, the
// operator returns to shared batches.
type operatorQueue[Request, Result any] struct {
	items   []*item[Request, Result]
	working bool
	// tried: the first, brief try is over.
	tried bool
	// blocked: the last try timed out on a lock.
	blocked bool
}

// divert moves the items of operators that have a queue into it, and returns the rest.
func (b *batcher[Request, Result]) divert(batch []*item[Request, Result]) []*item[Request, Result] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.operators) == 0 {
		return batch
	}
	rest := batch[:0]
	for _, e := range batch {
		if q := b.operators[b.operator(e.request)]; q != nil {
			b.push(b.operator(e.request), q, e)
		} else {
			rest = append(rest, e)
		}
	}
	return rest
}

// separate moves all items of a failed batch to the queues of their operators.
func (b *batcher[Request, Result]) separate(batch []*item[Request, Result], err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range batch {
		if lockTimedOut(err) {
			e.lockErr = err
		}
		id := b.operator(e.request)
		q := b.operators[id]
		if q == nil {
			q = &operatorQueue[Request, Result]{}
			b.operators[id] = q
		}
		b.push(id, q, e)
	}
}

func (b *batcher[Request, Result]) push(operatorID int64, q *operatorQueue[Request, Result], e *item[Request, Result]) {
	if b.locks.total > 0 {
		e.lockTimer = time.AfterFunc(b.locks.total, func() { e.abandoned.Store(true) })
	}
	q.items = append(q.items, e)
	if !q.working {
		q.working = true
		b.workers.Go(func() { b.work(operatorID, q) })
	}
}

// work empties an operator's queue.
func (b *batcher[Request, Result]) work(operatorID int64, q *operatorQueue[Request, Result]) {
	for {
		batch := b.pull(operatorID, q)
		if batch == nil {
			return
		}
		b.requeue(q, b.attempt(q, batch))
	}
}

// pull takes the items of the next try; if there are none, the worker ends.
func (b *batcher[Request, Result]) pull(operatorID int64, q *operatorQueue[Request, Result]) []*item[Request, Result] {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := q.items[:0]
	for _, e := range q.items {
		switch {
		case !e.abandoned.Load():
			left = append(left, e)
		case e.lockErr != nil:
			answer([]*item[Request, Result]{e}, e.lockErr)
		default: // it got no slot in time
			answer([]*item[Request, Result]{e}, errBusy)
		}
	}
	clear(q.items[len(left):])
	if len(left) == 0 {
		q.items, q.working = nil, false
		if !q.blocked {
			delete(b.operators, operatorID)
		}
		return nil
	}
	batch := append([]*item[Request, Result](nil), left[:min(len(left), b.maxItems)]...)
	q.items = left[len(batch):]
	return batch
}

// requeue puts items back, with the one that waited for a lock at the end.
func (b *batcher[Request, Result]) requeue(q *operatorQueue[Request, Result], left []*item[Request, Result]) {
	if len(left) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q.items = append(append(append([]*item[Request, Result](nil), left[1:]...), q.items...), left[0])
}

// attempt tries items together, and if that fails one after the other. It returns what is
// left: the item whose lock timed out, and those behind it.
func (b *batcher[Request, Result]) attempt(q *operatorQueue[Request, Result], batch []*item[Request, Result]) []*item[Request, Result] {
	err := b.tryAlone(q, batch)
	if len(batch) == 1 || !lockTimedOut(err) && !causedByOneItem(err) {
		if lockTimedOut(err) {
			return batch
		}
		answer(batch, err)
		return nil
	}
	for i := range batch {
		one := batch[i : i+1]
		err := b.tryAlone(q, one)
		switch {
		case lockTimedOut(err):
			return batch[i:]
		case errors.Is(err, operation.ErrUnavailable), pgconn.Timeout(err): // the other items would fail, too
			answer(batch[i:], err)
			return nil
		}
		answer(one, err)
	}
	return nil
}

// tryAlone runs items of one operator in a transaction, when there is a slot.
func (b *batcher[Request, Result]) tryAlone(q *operatorQueue[Request, Result], batch []*item[Request, Result]) error {
	b.locks.queues <- struct{}{}
	defer func() { <-b.locks.queues }()
	timeout := b.locks.solo
	if !q.tried {
		timeout = b.locks.probe
	}
	err := b.commit(batch, timeout)
	q.tried, q.blocked = true, lockTimedOut(err)
	if q.blocked {
		for _, e := range batch {
			e.lockErr = err
		}
	}
	return err
}
