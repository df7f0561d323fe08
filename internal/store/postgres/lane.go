package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/operation"
)

const (
	// laneCount is how many batches of admissions are under way at a time. An
	// operator's requests all go the same way, so that no two batches of a node
	// wait for each other's counters.
	laneCount = 4
	// maxBatch bounds how long the first admission of a batch can wait for the
	// last one.
	maxBatch = 256
	// maxQueue bounds how many callers wait at a lane's door.
	maxQueue = 1024
	// admissionPatience is how long a caller waits. A batch whose COMMIT waits for
	// the standby goes on without a deadline; whoever asked is told to come again.
	admissionPatience = 10 * time.Second
)

var (
	errClosed = errors.New("the store is closed")
	errBusy   = fmt.Errorf("%w in time", operation.ErrUnavailable)
)

// lane admits requests together: while one batch is on its way to the disk,
// callers queue up, and the next one takes them all.
type lane struct {
	db       *DB
	observe  Observer
	queue    chan *entrant
	stopping chan struct{}
	stopped  chan struct{}
	stopOnce sync.Once
}

// entrant is one request that waits to be admitted.
type entrant struct {
	asks  access.Admission
	gets  access.Admitted
	err   error
	state atomic.Int32
	done  chan struct{}
}

const (
	waiting int32 = iota
	taken         // a batch has it: it runs, whether or not the caller still listens
	dropped       // the caller hung up first: it never runs
)

func (db *DB) openLanes(observe Observer) {
	for range laneCount {
		l := &lane{
			db: db, observe: observe, queue: make(chan *entrant, maxQueue),
			stopping: make(chan struct{}), stopped: make(chan struct{}),
		}
		db.lanes = append(db.lanes, l)
		go l.loop()
	}
}

// Admit makes one request's admission true: the nonce is burned, the record is
// found to be the one the caller was judged on, a place in the minute is taken.
func (db *DB) Admit(ctx context.Context, a access.Admission) (access.Admitted, error) {
	l := db.lanes[uint64(a.OperatorID)%laneCount]
	e := &entrant{asks: a, done: make(chan struct{})}
	if err := l.enter(ctx, e); err != nil {
		return access.Admitted{}, fmt.Errorf("admit a request: %w", err)
	}
	return e.gets, nil
}

func (l *lane) enter(ctx context.Context, e *entrant) error {
	select {
	case <-l.stopping:
		return errClosed
	default:
	}
	patience := time.NewTimer(admissionPatience)
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
		// If a batch has it, its nonce is or will be burned, and nothing else.
		e.state.CompareAndSwap(waiting, dropped)
		return errBusy
	case <-ctx.Done():
		if e.state.CompareAndSwap(waiting, dropped) {
			return ctx.Err()
		}
	case <-l.stopped:
		if e.state.CompareAndSwap(waiting, dropped) {
			return errClosed
		}
	}
	<-e.done
	return e.err
}

func (l *lane) loop() {
	defer close(l.stopped)
	for {
		var first *entrant
		select {
		case first = <-l.queue:
		case <-l.stopping:
			select {
			case first = <-l.queue:
			default:
				return
			}
		}
		l.admit(l.gather(first))
	}
}

// gather adds whoever has queued up, and drops who has hung up.
func (l *lane) gather(first *entrant) []*entrant {
	batch := []*entrant{first}
	for more := true; more && len(batch) < maxBatch; {
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

// admit carries a batch through one transaction and answers every caller.
func (l *lane) admit(batch []*entrant) {
	if len(batch) == 0 {
		return
	}
	if l.observe != nil {
		defer l.observe.Batch(len(batch))()
	}
	err := l.commit(batch)
	for _, e := range batch {
		e.err = err
		close(e.done)
	}
}

func (l *lane) commit(batch []*entrant) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	return l.db.pipelined(ctx, func(p *pipe) error { return admitAll(p, batch) })
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

func (l *lane) stop() {
	l.stopOnce.Do(func() { close(l.stopping) })
	<-l.stopped
}
