package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coaxhq/coax/internal/operation"
)

const (
	// maxQueue is the length of a batcher's queue.
	maxQueue = 1024
	// queueTimeout is how long a caller waits in the queue. A batch whose COMMIT waits for
	// the standby has no deadline; callers behind it get errBusy and can retry.
	queueTimeout = 10 * time.Second
)

var (
	errClosed = errors.New("the store is closed")
	errBusy   = fmt.Errorf("%w in time", operation.ErrUnavailable)
)

// commitOrder lets the batchers of a node commit one after the other. While one batch
// commits, the other batchers' callers queue up, so that batches are larger and fewer: a
// batch costs the server as much as several items.
//
// It is not needed for correctness. If a batch hangs, on a locked row or a lost standby, the
// other batchers go on after maxWait.
type commitOrder struct {
	free    chan struct{}
	maxWait time.Duration
}

// maxOrderWait is about the duration of a few batches on a busy machine.
const maxOrderWait = 20 * time.Millisecond

func newCommitOrder(maxWait time.Duration) *commitOrder {
	o := &commitOrder{free: make(chan struct{}, 1), maxWait: maxWait}
	o.free <- struct{}{}
	return o
}

// acquire waits for its turn to commit, for at most maxWait.
func (o *commitOrder) acquire() (release func()) {
	if o == nil {
		return func() {}
	}
	timeout := time.NewTimer(o.maxWait)
	defer timeout.Stop()
	select {
	case <-o.free:
		return func() { o.free <- struct{}{} }
	case <-timeout.C:
		return func() {}
	}
}

// batcher runs items of one kind together: while one batch commits, callers queue up, and
// the next batch takes them all. There is one batcher for each kind: several would make
// batches smaller, and a statement costs the server as much as several rows.
//
// A shared batch waits only briefly for a row lock. Then its items move to the
// queues of their operators; see operatorQueue.
type batcher[Request, Result any] struct {
	batcherOptions[Request, Result]
	queue    chan *item[Request, Result]
	stopping chan struct{}
	stopped  chan struct{}
	stopOnce sync.Once

	mu        sync.Mutex
	operators map[int64]*operatorQueue[Request, Result]
	// workers run the queues of operators.
	workers sync.WaitGroup
}

// batcherOptions say how the items of a kind are run.
type batcherOptions[Request, Result any] struct {
	observe Observer
	// name is one of Batchers, if there is an Observer.
	name string
	// order is shared by the batchers that commit one after the other; nil for none.
	order *commitOrder
	// maxItems limits the size of a batch, and so how long its first item waits.
	maxItems int
	// operator returns the operator whose rows an item locks.
	operator func(Request) int64
	locks    *lockWaits
	// run runs a batch in one transaction, which waits at most lockTimeout for any lock.
	// It is called again, with all or some of the items, if it was certainly rolled back.
	run func(batch []*item[Request, Result], lockTimeout time.Duration) error
	// discardable items matter only to a caller who still waits: on a timeout it gets
	// errBusy although a batch has the item. For other items the outcome is awaited.
	discardable bool
}

// item is one caller's request and its result.
type item[Request, Result any] struct {
	request Request
	result  Result
	err     error
	state   atomic.Int32
	done    chan struct{}
	// abandoned: the caller has cancelled or timed out, so an item whose transaction was
	// rolled back is not tried again.
	abandoned atomic.Bool
	// lockTimer abandons the item after lock_timeout; lockErr is the error of its last lock
	// timeout.
	lockTimer *time.Timer
	lockErr   error
}

const (
	waiting int32 = iota
	taken         // a batch has it: it runs even if the caller cancels
	dropped       // the caller cancelled first: it never runs
)

func newBatcher[Request, Result any](options batcherOptions[Request, Result]) *batcher[Request, Result] {
	b := &batcher[Request, Result]{
		batcherOptions: options, queue: make(chan *item[Request, Result], maxQueue),
		stopping: make(chan struct{}), stopped: make(chan struct{}), operators: map[int64]*operatorQueue[Request, Result]{},
	}
	go b.loop()
	return b
}

// do runs a request in a batch and returns its result.
func (b *batcher[Request, Result]) do(ctx context.Context, request Request) (Result, error) {
	e := &item[Request, Result]{request: request, done: make(chan struct{})}
	if err := b.submit(ctx, e); err != nil {
		var none Result
		return none, err
	}
	return e.result, nil
}

func (b *batcher[Request, Result]) submit(ctx context.Context, e *item[Request, Result]) error {
	select {
	case <-ctx.Done():
		// Checked separately: a select takes any of the cases that are ready.
		return ctx.Err()
	case <-b.stopping:
		return errClosed
	default:
	}
	timeout := time.NewTimer(queueTimeout)
	defer timeout.Stop()
	select {
	case b.queue <- e:
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return errBusy
	case <-b.stopping:
		return errClosed
	}
	select {
	case <-e.done:
		return e.err
	case <-timeout.C:
		if e.state.CompareAndSwap(waiting, dropped) || b.discardable {
			e.abandoned.Store(true)
			return errBusy
		}
	case <-ctx.Done():
		if e.state.CompareAndSwap(waiting, dropped) {
			return ctx.Err()
		}
	case <-b.stopped:
		// The loop empties the queue before it ends; an item that was queued after that
		// never ran.
		if e.state.CompareAndSwap(waiting, dropped) {
			return errClosed
		}
	}
	e.abandoned.Store(true)
	<-e.done
	return e.err
}

func (b *batcher[Request, Result]) loop() {
	defer close(b.stopped)
	for {
		var first *item[Request, Result]
		select {
		case first = <-b.queue:
		case <-b.stopping:
			select {
			case first = <-b.queue:
			default:
				return
			}
		}
		release := b.order.acquire()
		b.runBatch(b.gather(first))
		release()
	}
}

// gather returns first and the queued items, and drops those whose callers have cancelled.
func (b *batcher[Request, Result]) gather(first *item[Request, Result]) []*item[Request, Result] {
	batch := []*item[Request, Result]{first}
	for more := true; more && len(batch) < b.maxItems; {
		select {
		case e := <-b.queue:
			batch = append(batch, e)
		default:
			more = false
		}
	}
	kept := batch[:0]
	for _, e := range batch {
		if e.state.CompareAndSwap(waiting, taken) {
			kept = append(kept, e)
		}
	}
	return kept
}

// runBatch commits a batch and returns the results. If it failed because of one item or of
// a lock, its items move to the queues of their operators, which run beside later batches.
func (b *batcher[Request, Result]) runBatch(batch []*item[Request, Result]) {
	batch = b.divert(batch)
	if len(batch) == 0 {
		return
	}
	err := b.commit(batch, b.locks.shared)
	if !lockTimedOut(err) && (len(batch) == 1 || !causedByOneItem(err)) {
		answer(batch, err)
		return
	}
	b.separate(batch, err)
}

func (b *batcher[Request, Result]) commit(batch []*item[Request, Result], lockTimeout time.Duration) error {
	if b.observe != nil {
		defer b.observe.Batch(b.name, len(batch))()
	}
	return b.run(batch, lockTimeout)
}

// answer returns the result to the callers of a batch.
func answer[Request, Result any](batch []*item[Request, Result], err error) {
	for _, e := range batch {
		if e.lockTimer != nil {
			e.lockTimer.Stop()
		}
		e.err = transient(err)
		close(e.done)
	}
}

// causedByOneItem reports whether a batch may have failed because of one of its items. An
// unknown outcome, an unavailable store or a timeout concerns them all.
func causedByOneItem(err error) bool {
	return err != nil && !errors.Is(err, operation.ErrCommitUnknown) && !errors.Is(err, operation.ErrUnavailable) && !pgconn.Timeout(err)
}

// recovered runs a batch or a transaction and returns a panic as an error. Everything that a
// batcher's goroutine runs goes through it: a panic there would end the node.
func recovered[T any](run func(T) error, with T) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a statement of the store panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return run(with)
}

// queued returns how many items wait, in the batcher's queue and in the queues of operators.
func (b *batcher[Request, Result]) queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	queued := len(b.queue)
	for _, q := range b.operators {
		queued += len(q.items)
	}
	return queued
}

// stop refuses new items, and returns when all queued ones are done.
func (b *batcher[Request, Result]) stop() {
	b.stopOnce.Do(func() { close(b.stopping) })
	<-b.stopped
	b.workers.Wait()
}
