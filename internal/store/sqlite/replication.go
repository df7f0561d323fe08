package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// Replica keeps a second copy of the store in another place. It reads the write-ahead log,
// of which nothing may be overwritten before it was read.
type Replica interface {
	// Resume connects to it and reports whether the copy continues with the present log. If
	// not, it is lost.
	Resume(ctx context.Context) (bool, error)
	Lost() bool
	// GiveUp makes the copy lost.
	GiveUp()
	// Begin begins a new copy, and Renew another snapshot of it; copyFile takes the time.
	// complete: the file has all pages of the log.
	Begin(file io.ReaderAt, complete bool) (copyFile func(context.Context) error, err error)
	Renew(file io.ReaderAt, complete bool) (copyFile func(context.Context) error, err error)
	RenewDue() bool
	// Capture reads what was committed into memory, with SQLite's write lock held; false if
	// that would be too much.
	Capture() (all bool, err error)
	// Ship uploads what was committed before the call.
	Ship(ctx context.Context) error
	Close() error
}

// Replication are the options of a store with a replica.
type Replication struct {
	// Open returns the replica of the store that has this id. It does not connect.
	Open func(ctx context.Context, store string) (Replica, error)
	// Refused reports whether an error means that the place is something else's, so that the
	// store must not be opened with it. nil: none does.
	Refused func(error) bool
	// Sync gives callers their results only when their commit is on the replica.
	Sync bool
	// Timeout is how long an upload may take before callers get an error; 0 is the default.
	Timeout time.Duration
	// MaxBehind is the size of the log at which an unreachable replica is given up until it
	// is back, and is then copied anew; 0 is the default.
	MaxBehind int64
	Now       func() time.Time
	// Report is called with each failure, and with nil when the replica is complete again.
	Report func(error)
}

// ReplicationState says how far the replica is behind.
type ReplicationState struct {
	// Since is when the oldest commit was made that is not on the replica; zero if none.
	Since time.Time
	// LastSuccess is when the replica was complete last.
	LastSuccess time.Time
	Errors      uint64
	// Problem is the failure that lasts; nil if there is none.
	Problem error
}

const (
	// shipEvery is how often commits are uploaded in async mode, and how often the log is
	// looked at for commits of other processes.
	shipEvery = 250 * time.Millisecond
	// shipTimeout is the default limit of an upload in sync mode.
	shipTimeout = 5 * time.Second
	// asyncTimeout is the limit in async mode, where nobody waits.
	asyncTimeout = time.Minute
	// maxBehind is the default limit of the log.
	maxBehind = 1 << 30
	// retryPause is the time between attempts on a replica that fails.
	retryPause = 500 * time.Millisecond
	// maxCopyPause limits the time between attempts to copy the whole store, which doubles.
	maxCopyPause = 30 * time.Second
	// renewPause is the time between attempts to take another snapshot.
	renewPause = 10 * time.Minute
	// startTimeout is how long the start waits for the replica in async mode.
	startTimeout = 15 * time.Second
)

// replication ships the writer's commits to a replica. In sync mode the callers of a batch
// are answered by the shipper; the writer goes on, and all batches that were committed
// during an upload share the next one.
type replication struct {
	options Replication
	replica Replica
	writer  *writer
	file    *os.File // of the store
	free    func() (int64, error)

	// Of the writer's goroutine:
	pin    *connection // see logpin.go
	pinned bool

	// copyPause is the shipper's: the pause after the last copy of the store, if it failed.
	copyPause time.Duration

	// frozen: the file is being copied, so the pin must not move.
	frozen atomic.Bool
	// begun and finished count batches.
	begun, finished atomic.Uint64

	wake              chan struct{}
	stopping, stopped chan struct{}
	renewing          sync.WaitGroup
	background        context.Context
	cancel            context.CancelFunc

	mu      sync.Mutex
	pending []*item // committed, and not answered
	shipped uint64  // batches that the replica has
	changed chan struct{}
	down    error
	state   ReplicationState
	// cancelCopy calls off the copy that is under way.
	cancelCopy context.CancelFunc
	renewAfter time.Time
}

var errCopying = errors.New("the store is being copied to it")

// startReplication starts it. In sync mode it waits until the replica is complete.
func startReplication(ctx context.Context, db *DB, file *os.File, options Replication) (*replication, error) {
	if options.Timeout == 0 {
		options.Timeout = shipTimeout
	}
	if options.MaxBehind == 0 {
		options.MaxBehind = maxBehind
	}
	var id string
	if err := db.read(ctx).QueryRow(`SELECT store_id FROM store_mark WHERE one = 1`).Scan(&id); err != nil {
		return nil, fmt.Errorf("read the store's id: %w", err)
	}
	pin, err := connect(db.path, "synchronous = FULL", noCheckpoint)
	if err != nil {
		return nil, fmt.Errorf("open %s for the replica: %w", db.path, err)
	}
	r := &replication{
		options: options, writer: db.writer, file: file, free: db.free, pin: pin, changed: make(chan struct{}),
		wake: make(chan struct{}, 1), stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	r.background, r.cancel = context.WithCancel(context.Background())
	err = r.move(nil)
	if err == nil {
		r.replica, err = options.Open(ctx, id)
	}
	if err == nil {
		err = r.connect(ctx)
	}
	if err != nil {
		if r.replica != nil {
			err = errors.Join(err, r.replica.Close())
		}
		return nil, errors.Join(err, r.unpin(), pin.close())
	}
	return r, nil
}

// connect looks for the replica at the start. In async mode the store opens without it: the
// pin keeps the log for it.
func (r *replication) connect(ctx context.Context) error {
	limit := startTimeout
	if r.options.Sync {
		limit = asyncTimeout // nothing can be answered before
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resumed, err := r.replica.Resume(ctx)
	switch {
	case err == nil && resumed:
		return r.capture()
	case err == nil:
		return nil
	case r.options.Sync || r.options.Refused != nil && r.options.Refused(err):
		return err
	}
	r.fail(err, true)
	return nil
}

// run starts the shipper, once the writer runs. In sync mode it waits for the first upload.
func (r *replication) run(ctx context.Context) error {
	if r.options.Sync {
		if r.round(); r.available() != nil {
			close(r.stopped) // the loop never runs
			return r.available()
		}
	}
	go r.loop()
	return ctx.Err()
}

func (r *replication) loop() {
	defer close(r.stopped)
	tick := time.NewTicker(shipEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.wake:
		case <-tick.C:
		case <-r.stopping:
			r.round()
			return
		}
		if !r.round() {
			select {
			case <-time.After(max(retryPause, r.copyPause)):
			case <-r.stopping:
			}
		}
	}
}

// commit is called by the writer when a batch has run. It takes over the callers of a
// batch that succeeded, in sync mode.
func (r *replication) commit(batch []*item, failed bool) (taken bool) {
	r.finished.Store(r.begun.Load())
	if failed {
		return false
	}
	r.mu.Lock()
	if r.state.Since.IsZero() {
		r.state.Since = r.options.Now()
	}
	down := r.down
	if r.options.Sync && down == nil {
		r.pending = append(r.pending, batch...)
	}
	r.mu.Unlock()
	if !r.options.Sync {
		return false
	}
	if down != nil {
		answerAll(batch, r.unknown(down))
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return true
}

func answerAll(items []*item, err error) {
	for _, it := range items {
		if err != nil {
			it.err = err
		}
		close(it.done)
	}
}

// unknown is the result of a commit that is in the store and may not be on the replica.
func (r *replication) unknown(cause error) error {
	return fmt.Errorf("%w: the replica does not have it: %w", operation.ErrCommitUnknown, cause)
}

// available returns an error while callers cannot be answered.
func (r *replication) available() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down == nil || !r.options.Sync {
		return nil
	}
	return fmt.Errorf("%w: the replica: %w", operation.ErrUnavailable, r.down)
}

// wait returns when the replica has all that a read that has ended can have seen.
func (r *replication) wait(ctx context.Context) error {
	if !r.options.Sync {
		return nil
	}
	for seen := r.begun.Load(); ; {
		r.mu.Lock()
		shipped, down, changed := r.shipped, r.down, r.changed
		r.mu.Unlock()
		switch {
		case shipped >= seen:
			return nil
		case down != nil:
			return fmt.Errorf("%w: the replica: %w", operation.ErrUnavailable, down)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.stopped:
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.shipped < seen {
				return errClosed
			}
			return nil
		}
	}
}

// round ships what was committed so far, and answers its callers.
func (r *replication) round() (ok bool) {
	r.mu.Lock()
	items := r.pending
	r.pending = nil
	r.mu.Unlock()
	upTo := r.finished.Load()
	began := r.options.Now()

	var err error
	if r.replica.Lost() {
		r.mu.Lock()
		down := r.down
		r.mu.Unlock()
		if down == nil {
			r.fail(errCopying, false)
		}
		answerAll(items, r.unknown(errCopying)) // a copy may take long
		items = nil
		err = r.again()
	}
	if err == nil {
		limit := asyncTimeout
		if r.options.Sync {
			limit = r.options.Timeout
		}
		ctx, cancel := context.WithTimeout(r.background, limit)
		done := make(chan error, 1)
		go func() { done <- r.replica.Ship(ctx) }()
		late := time.NewTimer(limit)
		select {
		case err = <-done:
		case <-late.C:
			slow := fmt.Errorf("an upload takes longer than %s", limit)
			r.fail(slow, true)
			answerAll(items, r.unknown(slow))
			items = nil
			// The target may hang. The next upload cannot begin before.
			err = <-done
		}
		late.Stop()
		cancel()
	}
	if err != nil {
		// Mark the store unavailable before answering.
		r.fail(err, true)
		answerAll(items, r.unknown(err))
		return false
	}
	r.mu.Lock()
	recovered := r.down != nil
	r.down, r.state.Problem, r.shipped, r.state.LastSuccess = nil, nil, upTo, r.options.Now()
	if r.state.Since = began; r.finished.Load() == upTo {
		r.state.Since = time.Time{}
	}
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	answerAll(items, nil)
	if recovered && r.options.Report != nil {
		r.options.Report(nil)
	}
	r.renew()
	return true
}

// fail notes a failure and answers everyone who waits.
func (r *replication) fail(cause error, count bool) {
	r.mu.Lock()
	r.down, r.state.Problem = cause, cause
	if r.state.Since.IsZero() && r.replica.Lost() {
		r.state.Since = r.options.Now() // how far behind it is cannot be told
	}
	if count {
		r.state.Errors++
	}
	items := r.pending
	r.pending = nil
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	answerAll(items, r.unknown(cause))
	if count && r.options.Report != nil {
		r.options.Report(cause)
	}
}

// stop ships what was committed. The writer has stopped. The pin stays open until the
// process ends: SQLite copies and removes the log when its last connection is closed, and
// the next process could not tell what the replica lacks.
func (r *replication) stop() error {
	close(r.stopping)
	limit := time.AfterFunc(r.options.Timeout, r.cancel)
	<-r.stopped
	limit.Stop()
	r.cancel()
	r.renewing.Wait()
	return errors.Join(r.unpin(), r.replica.Close())
}

// Replication returns how far the replica is behind; false if the store has none.
func (db *DB) Replication() (ReplicationState, bool) {
	r := db.replication
	if r == nil {
		return ReplicationState{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, true
}
