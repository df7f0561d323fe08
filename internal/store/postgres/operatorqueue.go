package postgres

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coaxhq/coax/internal/operation"
)

// operatorQueue holds the items of one operator that are kept out of shared batches:
// a row of theirs was locked, or they shared a batch with something that failed. One
// worker tries them, on one connection: an operator's writes follow each other in its
// wallet or rate counter anyway. When a try has met no lock and nothing is left, the
// operator is back in shared batches.
type operatorQueue[Asks, Gets any] struct {
	items   []*entrant[Asks, Gets]
	working bool
	// tried: the first, brief try is over.
	tried bool
	// blocked: the last try waited for a lock in vain.
	blocked bool
}

// divert moves the items of operators that have a queue there, and returns the rest.
func (l *lane[Asks, Gets]) divert(batch []*entrant[Asks, Gets]) []*entrant[Asks, Gets] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.operators) == 0 {
		return batch
	}
	rest := batch[:0]
	for _, e := range batch {
		if q := l.operators[l.operator(e.asks)]; q != nil {
			l.push(l.operator(e.asks), q, e)
		} else {
			rest = append(rest, e)
		}
	}
	return rest
}

// separate moves all items of a batch that failed to the queues of their operators.
func (l *lane[Asks, Gets]) separate(batch []*entrant[Asks, Gets], err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range batch {
		if lockTimedOut(err) {
			e.lockErr = err
		}
		id := l.operator(e.asks)
		q := l.operators[id]
		if q == nil {
			q = &operatorQueue[Asks, Gets]{}
			l.operators[id] = q
		}
		l.push(id, q, e)
	}
}

func (l *lane[Asks, Gets]) push(operatorID int64, q *operatorQueue[Asks, Gets], e *entrant[Asks, Gets]) {
	if l.locks.total > 0 {
		e.lockTimer = time.AfterFunc(l.locks.total, func() { e.abandoned.Store(true) })
	}
	q.items = append(q.items, e)
	if !q.working {
		q.working = true
		l.workers.Go(func() { l.work(operatorID, q) })
	}
}

// work empties an operator's queue.
func (l *lane[Asks, Gets]) work(operatorID int64, q *operatorQueue[Asks, Gets]) {
	for {
		batch := l.pull(operatorID, q)
		if batch == nil {
			return
		}
		l.requeue(q, l.attempt(q, batch))
	}
}

// pull takes items to be tried together; none ends the worker.
func (l *lane[Asks, Gets]) pull(operatorID int64, q *operatorQueue[Asks, Gets]) []*entrant[Asks, Gets] {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := q.items[:0]
	for _, e := range q.items {
		switch {
		case !e.abandoned.Load():
			left = append(left, e)
		case e.lockErr != nil:
			answer([]*entrant[Asks, Gets]{e}, e.lockErr)
		default: // there was no slot for it in time
			answer([]*entrant[Asks, Gets]{e}, errBusy)
		}
	}
	clear(q.items[len(left):])
	if len(left) == 0 {
		q.items, q.working = nil, false
		if !q.blocked {
			delete(l.operators, operatorID)
		}
		return nil
	}
	batch := append([]*entrant[Asks, Gets](nil), left[:min(len(left), l.most)]...)
	q.items = left[len(batch):]
	return batch
}

// requeue puts items back: the first one that waited for a lock at the end, so that
// the others have their turn.
func (l *lane[Asks, Gets]) requeue(q *operatorQueue[Asks, Gets], left []*entrant[Asks, Gets]) {
	if len(left) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	q.items = append(append(append([]*entrant[Asks, Gets](nil), left[1:]...), q.items...), left[0])
}

// attempt tries items together, and where that fails one after the other. It returns
// what is left: the item that waited for a lock in vain, and those behind it.
func (l *lane[Asks, Gets]) attempt(q *operatorQueue[Asks, Gets], batch []*entrant[Asks, Gets]) []*entrant[Asks, Gets] {
	err := l.tryAlone(q, batch)
	if len(batch) == 1 || !lockTimedOut(err) && !oneIsToBlame(err) {
		if lockTimedOut(err) {
			return batch
		}
		answer(batch, err)
		return nil
	}
	for i := range batch {
		one := batch[i : i+1]
		err := l.tryAlone(q, one)
		switch {
		case lockTimedOut(err):
			return batch[i:]
		case errors.Is(err, operation.ErrUnavailable), pgconn.Timeout(err): // for the others as well
			answer(batch[i:], err)
			return nil
		}
		answer(one, err)
	}
	return nil
}

// tryAlone carries items of one operator through a transaction, when there is a slot.
func (l *lane[Asks, Gets]) tryAlone(q *operatorQueue[Asks, Gets], batch []*entrant[Asks, Gets]) error {
	l.locks.queues <- struct{}{}
	defer func() { <-l.locks.queues }()
	timeout := l.locks.solo
	if !q.tried {
		timeout = l.locks.probe
	}
	err := l.commit(batch, timeout)
	q.tried, q.blocked = true, lockTimedOut(err)
	if q.blocked {
		for _, e := range batch {
			e.lockErr = err
		}
	}
	return err
}
