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
	// maxQueue bounds how many callers wait at a lane's door.
	maxQueue = 1024
	// lanePatience is how long a caller waits there. A batch whose COMMIT waits for
	// the standby goes on without a deadline; whoever comes behind it is told to
	// come again.
	lanePatience = 10 * time.Second
)

var (
	errClosed = errors.New("the store is closed")
	errBusy   = fmt.Errorf("%w in time", operation.ErrUnavailable)
)

// baton lets the lanes of a node commit one after the other. While one batch is on
// its way, all other lanes' callers gather, so that batches are larger and fewer;
// and the server spends on a batch what it spends on several facts.
//
// It is a courtesy and guards nothing: a batch that stands still, for a row that
// somebody holds or a standby that is gone, must not keep the other lanes.
type baton struct {
	free chan struct{}
	// courtesy is how long a lane waits for it.
	courtesy time.Duration
}

// courtesy is what a few batches take on a busy machine.
const courtesy = 20 * time.Millisecond

func newBaton(courtesy time.Duration) *baton {
	b := &baton{free: make(chan struct{}, 1), courtesy: courtesy}
	b.free <- struct{}{}
	return b
}

// take waits for the baton, and goes without it if it does not come.
func (b *baton) take() (passOn func()) {
	if b == nil {
		return func() {}
	}
	patience := time.NewTimer(b.courtesy)
	defer patience.Stop()
	select {
	case <-b.free:
		return func() { b.free <- struct{}{} }
	case <-patience.C:
		return func() {}
	}
}

// lane makes facts of one kind true together: while one batch is on its way to
// the disk, callers queue up, and the next one takes them all. There is one lane
// for each kind: several would make batches smaller, and the server spends on a
// statement what it spends on several rows.
//
// A shared batch waits only briefly for a row lock. Then its items move to the
// queues of their operators; see operatorQueue.
type lane[Asks, Gets any] struct {
	laneOptions[Asks, Gets]
	queue    chan *entrant[Asks, Gets]
	stopping chan struct{}
	stopped  chan struct{}
	stopOnce sync.Once

	mu        sync.Mutex
	operators map[int64]*operatorQueue[Asks, Gets]
	// workers empty the queues of operators.
	workers sync.WaitGroup
}

// laneOptions is how the facts of a kind are made true.
type laneOptions[Asks, Gets any] struct {
	observe Observer
	// baton is shared with the lanes that commit in turn. Nil: with none.
	baton *baton
	// most bounds how long the first fact of a batch can wait for the last one.
	most int
	// operator is whose rows an item locks.
	operator func(Asks) int64
	locks    *lockWaits
	// together carries a batch through one transaction, which waits no longer than
	// lockTimeout for any lock. It is called again, with all or some of the batch,
	// after a definite rollback.
	together func(batch []*entrant[Asks, Gets], lockTimeout time.Duration) error
	// fleeting facts matter only to a caller who still listens: one who has lost
	// patience is told so although a batch has the fact. Of any other the outcome is
	// waited for.
	fleeting bool
}

// entrant is one fact that waits to be made true.
type entrant[Asks, Gets any] struct {
	asks  Asks
	gets  Gets
	err   error
	state atomic.Int32
	done  chan struct{}
	// abandoned: the caller has hung up or waited for too long, so that an item whose
	// transaction was rolled back is not tried again.
	abandoned atomic.Bool
	// lockTimer abandons the item when lock_timeout is over, and lockErr is what the
	// server said when it last timed out.
	lockTimer *time.Timer
	lockErr   error
}

const (
	waiting int32 = iota
	taken         // a batch has it: it runs, whether or not the caller still listens
	dropped       // the caller hung up first: it never runs
)

func openLane[Asks, Gets any](options laneOptions[Asks, Gets]) *lane[Asks, Gets] {
	l := &lane[Asks, Gets]{
		laneOptions: options, queue: make(chan *entrant[Asks, Gets], maxQueue),
		stopping: make(chan struct{}), stopped: make(chan struct{}), operators: map[int64]*operatorQueue[Asks, Gets]{},
	}
	go l.loop()
	return l
}

// through makes a fact true, and returns what came of it.
func (l *lane[Asks, Gets]) through(ctx context.Context, asks Asks) (Gets, error) {
	e := &entrant[Asks, Gets]{asks: asks, done: make(chan struct{})}
	if err := l.enter(ctx, e); err != nil {
		var none Gets
		return none, err
	}
	return e.gets, nil
}

func (l *lane[Asks, Gets]) enter(ctx context.Context, e *entrant[Asks, Gets]) error {
	select {
	case <-ctx.Done():
		// Asked on its own: of two cases that are both ready, the select below
		// takes either.
		return ctx.Err()
	case <-l.stopping:
		return errClosed
	default:
	}
	patience := time.NewTimer(lanePatience)
	defer patience.Stop()
	select {
	case l.queue <- e:
	case <-ctx.Done():
		return ctx.Err()
	case <-patience.C:
		return errBusy
	case <-l.stopping:
		return errClosed
	}
	select {
	case <-e.done:
		return e.err
	case <-patience.C:
		if e.state.CompareAndSwap(waiting, dropped) || l.fleeting {
			e.abandoned.Store(true)
			return errBusy
		}
	case <-ctx.Done():
		if e.state.CompareAndSwap(waiting, dropped) {
			return ctx.Err()
		}
	case <-l.stopped:
		// The loop empties the queue before it ends; a fact that slipped in behind
		// that was never run.
		if e.state.CompareAndSwap(waiting, dropped) {
			return errClosed
		}
	}
	e.abandoned.Store(true)
	<-e.done
	return e.err
}

func (l *lane[Asks, Gets]) loop() {
	defer close(l.stopped)
	for {
		var first *entrant[Asks, Gets]
		select {
		case first = <-l.queue:
		case <-l.stopping:
			select {
			case first = <-l.queue:
			default:
				return
			}
		}
		passOn := l.baton.take()
		l.carry(l.gather(first))
		passOn()
	}
}

// gather adds whoever has queued up, and drops who has hung up.
func (l *lane[Asks, Gets]) gather(first *entrant[Asks, Gets]) []*entrant[Asks, Gets] {
	batch := []*entrant[Asks, Gets]{first}
	for more := true; more && len(batch) < l.most; {
		select {
		case e := <-l.queue:
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

// carry makes a batch true and answers every caller. Where an item was in the way of
// the others, or waits for a lock, each operator's items go on in a queue of their own,
// beside the batches that follow.
func (l *lane[Asks, Gets]) carry(batch []*entrant[Asks, Gets]) {
	batch = l.divert(batch)
	if len(batch) == 0 {
		return
	}
	err := l.commit(batch, l.locks.shared)
	if !lockTimedOut(err) && (len(batch) == 1 || !oneIsToBlame(err)) {
		answer(batch, err)
		return
	}
	l.separate(batch, err)
}

func (l *lane[Asks, Gets]) commit(batch []*entrant[Asks, Gets], lockTimeout time.Duration) error {
	if l.observe != nil {
		defer l.observe.Batch(len(batch))()
	}
	return l.together(batch, lockTimeout)
}

// answer tells the callers of a batch what came of it.
func answer[Asks, Gets any](batch []*entrant[Asks, Gets], err error) {
	for _, e := range batch {
		if e.lockTimer != nil {
			e.lockTimer.Stop()
		}
		e.err = transient(err)
		close(e.done)
	}
}

// oneIsToBlame reports whether a batch may have failed because of one of its facts.
// What is not known to have failed, never reached the store, or was not answered in
// time, has befallen them all.
func oneIsToBlame(err error) bool {
	return err != nil && !errors.Is(err, operation.ErrAmbiguous) && !errors.Is(err, operation.ErrUnavailable) && !pgconn.Timeout(err)
}

// contained runs a fact; one that panics has failed, as on the other store, and
// is undone.
func contained[T any](run func(T) error, with T) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the fact panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return run(with)
}

// queued is how many items no transaction has: those in the lane, and those in the
// queues of operators.
func (l *lane[Asks, Gets]) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	queued := len(l.queue)
	for _, q := range l.operators {
		queued += len(q.items)
	}
	return queued
}

// stop lets nobody in any more, and returns when everybody who was has been
// answered.
func (l *lane[Asks, Gets]) stop() {
	l.stopOnce.Do(func() { close(l.stopping) })
	<-l.stopped
	l.workers.Wait()
}
