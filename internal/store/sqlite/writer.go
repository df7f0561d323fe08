package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	engine "zombiezen.com/go/sqlite"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

const (
	// maxBatch limits how long the first item of a batch waits for the last one.
	maxBatch = 256
	// maxQueue is the length of the queue; further callers block, and can still cancel.
	maxQueue = 1024
)

// errClosed is returned after Close.
var errClosed = errors.New("the store is closed")

// writer is the only goroutine that writes. Items that arrive during a commit wait, and
// share the next transaction. An item that is refused or fails does not affect the
// others. No caller gets a result before the commit has returned.
//
// It also runs lookups of rows that are to be changed next. The writer's connection is
// the only one that keeps its page cache after a commit, and it needs these pages anyway.
// Lookups run between two transactions, so they see only durable rows.
type writer struct {
	tx           *tx
	log          *checkpoints // nil for a tool, which uses SQLite's automatic checkpoints
	lock         writeLock
	observe      Observer
	onAuditEntry func(context.Context, admin.AuditEntry)
	before       func(pragma func(text string) (int64, error))
	around       func(commit func() error) error
	replication  *replication // nil without a replica
	queue        chan *item
	calls        chan func()   // run between two batches
	stopping     chan struct{} // closed by stop: no new items
	stopped      chan struct{} // closed when the loop has ended
	stopOnce     sync.Once
	died         func(cause error)
	dead         chan struct{} // closed when the disk has failed
	cause        error         // of the failure; set before dead is closed
	// written counts the writes that were committed, or may have been.
	written atomic.Uint64
}

// item is one caller's write or lookup. Either the caller or the writer takes it out of
// the waiting state.
type item struct {
	run     func(*tx) error
	lookup  *lookup            // instead of run, if it only reads
	entries []admin.AuditEntry // audit entries that it has written
	err     error
	state   atomic.Int32
	done    chan struct{}
}

const (
	waiting int32 = iota
	taken         // the writer has it: it runs even if the caller cancels
	dropped       // the caller cancelled first: it never runs
)

func newWriter(conn *connection, lock writeLock, options Options, died func(cause error)) *writer {
	return &writer{
		tx:           &tx{connection: conn, nonces: nonces{buffer: cmp.Or(options.NonceBuffer, nonceBuffer)}},
		lock:         lock,
		observe:      options.Observe,
		onAuditEntry: options.OnAuditEntry,
		before:       options.Before,
		around:       options.Commit,
		queue:        make(chan *item, maxQueue),
		calls:        make(chan func()),
		stopping:     make(chan struct{}),
		stopped:      make(chan struct{}),
		died:         died,
		dead:         make(chan struct{}),
	}
}

// do runs a write in a transaction. It returns when the write is durable, was refused or
// failed; ctx is ignored once a batch has taken it.
func (w *writer) do(ctx context.Context, run func(*tx) error) error {
	it := &item{run: run, done: make(chan struct{})}
	err := w.submit(ctx, it)
	if err == nil || errors.Is(err, operation.ErrCommitUnknown) {
		w.written.Add(1)
	}
	if err == nil && w.onAuditEntry != nil {
		for _, entry := range it.entries {
			w.onAuditEntry(ctx, entry)
		}
	}
	return err
}

// lookUp runs a read between two transactions, of which the first may have started
// before the call.
func (w *writer) lookUp(ctx context.Context, read func(sqlstore.Querier) error) error {
	q := &lookup{read: read, done: make(chan struct{})}
	if err := w.submit(ctx, &item{lookup: q, done: q.done}); err != nil {
		return err
	}
	return q.err
}

// submit queues an item and waits until it is done.
func (w *writer) submit(ctx context.Context, it *item) error {
	select {
	case <-ctx.Done():
		// Checked separately: a select takes any of the cases that are ready.
		return ctx.Err()
	case <-w.stopping:
		return errClosed
	case <-w.dead:
		return w.broken()
	default:
	}
	select {
	case w.queue <- it:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stopping:
		return errClosed
	}
	select {
	case <-it.done:
	case <-ctx.Done():
		if it.state.CompareAndSwap(waiting, dropped) {
			return ctx.Err()
		}
		<-it.done
	case <-w.stopped:
		// The loop drains the queue before it ends; an item that was queued after that
		// never ran.
		if it.state.CompareAndSwap(waiting, dropped) {
			return errClosed
		}
		<-it.done
	}
	return it.err
}

func (w *writer) loop() {
	defer close(w.stopped)
	batch := make([]*item, 0, maxBatch)
	for {
		select {
		case it := <-w.queue:
			batch = append(batch[:0], it)
		case call := <-w.calls:
			call()
			continue
		case <-w.stopping:
			select {
			case it := <-w.queue:
				batch = append(batch[:0], it)
			default:
				return
			}
		}
		w.write(w.answer(w.gather(batch)))
	}
}

// between runs a function on the writer's goroutine, between two batches.
func (w *writer) between(run func() error) error {
	done := make(chan error, 1)
	select {
	case w.calls <- func() { done <- run() }:
		return <-done
	case <-w.stopped:
		return errClosed
	}
}

// followLog runs the writer's part of checkpoints, after the callers have their results.
func (w *writer) followLog() {
	if w.log == nil || w.broken() != nil {
		return
	}
	if err := w.log.follow(w.tx.connection); err != nil {
		_ = w.checkDisk(fmt.Errorf("checkpoint: %w", err)) // other errors are retried
	}
}

// indexBacklog indexes the nonces that a release without the index has left. It comes
// before the first batch.
func (w *writer) indexBacklog() error {
	commit := func(run func(tx *tx) error) error {
		it := &item{run: run}
		if err := errors.Join(w.commit([]*item{it}), it.err); err != nil {
			return fmt.Errorf("index nonces: %w", err)
		}
		return nil
	}
	restarted, err := positionsRestarted(w.tx)
	if err == nil && restarted {
		err = commit(resetIndex)
	}
	for err == nil {
		after, found, failed := w.tx.nonces.backlog(w.tx)
		if failed != nil || !found {
			return failed
		}
		if err = commit(func(tx *tx) error { return indexAfter(tx, after) }); err == nil {
			_, _, err = checkpoint(w.tx.connection, "PASSIVE")
		}
	}
	return err
}

// gather adds the queued items, and drops those whose callers have cancelled.
func (w *writer) gather(batch []*item) []*item {
	for more := true; more && len(batch) < maxBatch; {
		select {
		case it := <-w.queue:
			batch = append(batch, it)
		default:
			more = false
		}
	}
	kept := batch[:0]
	for _, it := range batch {
		if it.state.CompareAndSwap(waiting, taken) {
			kept = append(kept, it)
		}
	}
	return kept
}

// answer runs the lookups of a batch, and returns its writes.
func (w *writer) answer(batch []*item) (rest []*item) {
	rest = batch[:0]
	var lookups []*lookup
	for _, it := range batch {
		if it.lookup == nil {
			rest = append(rest, it)
		} else if it.err = w.broken(); it.err != nil {
			close(it.done)
		} else {
			lookups = append(lookups, it.lookup)
		}
	}
	for len(lookups) > 0 {
		lookups = answer(w.tx.connection, lookups)
	}
	return rest
}

// write commits a batch in one transaction and returns its results. The observer's done
// is called when the writer is ready for the next batch.
func (w *writer) write(batch []*item) {
	if len(batch) == 0 {
		return
	}
	if w.observe != nil {
		defer w.observe.Batch(len(batch))()
	}
	if w.before != nil {
		w.before(func(text string) (value int64, err error) {
			err = w.tx.QueryRow("PRAGMA " + text).Scan(&value)
			return value, err
		})
	}
	r := w.replication
	if r != nil {
		if err := r.available(); err != nil {
			answerAll(batch, err)
			return
		}
		// Before the commit: a reader may see it at once.
		r.begun.Add(1)
	}
	err := w.commit(batch)
	if err != nil {
		for _, it := range batch {
			// An item that was refused on its own changed nothing either way.
			if it.err == nil {
				it.err = err
			}
		}
	}
	if r == nil || !r.commit(append([]*item(nil), batch...), err != nil) {
		answerAll(batch, nil)
	}
	w.followLog()
}

// commit runs the items in one transaction. The error it returns is the whole batch's; a
// single item's error is in the item.
//
// Statements are never interrupted: that would roll back the whole transaction.
func (w *writer) commit(batch []*item) error {
	if err := w.broken(); err != nil {
		return err
	}
	leave, err := w.lock.acquire()
	if err != nil {
		return err
	}
	defer leave()

	if err := w.begin(); err != nil {
		return err
	}
	undone, err := w.run(batch)
	if err != nil {
		return w.abandon(err)
	}
	if undone {
		return nil
	}
	if err := w.tx.nonces.moveSome(w.tx); err != nil {
		return w.abandon(err)
	}
	commit := func() error {
		_, err := w.tx.Exec("COMMIT")
		return err
	}
	if w.around != nil {
		unguarded := commit
		commit = func() error { return w.around(unguarded) }
	}
	if err := commit(); err != nil {
		return w.abandon(fmt.Errorf("commit: %w", err))
	}
	w.tx.committed()
	return nil
}

func (w *writer) begin() error {
	if _, err := w.tx.Exec("BEGIN IMMEDIATE"); err != nil {
		// An earlier transaction that could not be rolled back may still be open.
		_, _ = w.tx.Exec("ROLLBACK")
		if _, err = w.tx.Exec("BEGIN IMMEDIATE"); err != nil {
			return w.checkDisk(fmt.Errorf("begin: %w", err))
		}
	}
	return nil
}

// run runs the items without savepoints at first: hardly any fails after it has written
// something, and with a savepoint SQLite copies every page that an item touches. If one
// does, the transaction is rolled back and the items run again, each in its own
// savepoint. An error ends the batch.
func (w *writer) run(batch []*item) (undone bool, err error) {
	for _, it := range batch {
		w.tx.wrote = false
		it.err = w.runSafely(it)
		if fatal(it.err) {
			return false, batchFailure(it)
		}
		if it.err == nil || !w.tx.wrote {
			continue
		}
		if _, err := w.tx.Exec("ROLLBACK"); err != nil {
			return false, err
		}
		w.tx.undo(0)
		if len(batch) == 1 {
			return true, nil
		}
		return false, w.runSeparately(batch)
	}
	return false, nil
}

func (w *writer) runSeparately(batch []*item) error {
	if _, err := w.tx.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, it := range batch {
		if it.err = w.runInSavepoint(it); fatal(it.err) {
			return batchFailure(it)
		}
	}
	return nil
}

// batchFailure moves an item's error to the batch.
func batchFailure(it *item) error {
	cause := it.err
	it.err = nil
	return cause
}

// runInSavepoint runs one item so that its failure does not affect the others.
func (w *writer) runInSavepoint(it *item) error {
	if _, err := w.tx.Exec("SAVEPOINT item"); err != nil {
		return &lostTransaction{err}
	}
	burned := len(w.tx.nonces.added)
	err := w.runSafely(it)
	if fatal(err) {
		return err
	}
	if err != nil {
		if _, undo := w.tx.Exec("ROLLBACK TO item"); undo != nil {
			return &lostTransaction{undo}
		}
		w.tx.undo(burned)
	}
	if _, release := w.tx.Exec("RELEASE item"); release != nil {
		return &lostTransaction{release}
	}
	return err
}

func (w *writer) runSafely(it *item) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a store write panicked: %v\n%s", r, debug.Stack())
		}
	}()
	w.tx.entries = nil
	err = it.run(w.tx)
	it.entries = w.tx.entries
	return err
}

// abandon rolls back a transaction whose outcome is unknown.
func (w *writer) abandon(cause error) error {
	// An error means that SQLite has already rolled back.
	_, _ = w.tx.Exec("ROLLBACK")
	w.tx.forget()
	return w.checkDisk(fmt.Errorf("%w: %w", operation.ErrCommitUnknown, cause))
}

// checkDisk marks the store as broken if err is a failure that no retry can mend.
func (w *writer) checkDisk(err error) error {
	switch primaryCode(err) {
	case engine.ResultIOErr, engine.ResultCorrupt, engine.ResultNotADB:
		w.cause = fmt.Errorf("the store's disk has failed: %w", err)
		w.died(err)
		close(w.dead)
	}
	return err
}

// broken returns why the store cannot write any more; nil while it can.
func (w *writer) broken() error {
	select {
	case <-w.dead:
		return w.cause
	default:
		return nil
	}
}

// stop waits for accepted items.
func (w *writer) stop() {
	w.stopOnce.Do(func() { close(w.stopping) })
	<-w.stopped
}

// close closes the connections, once the writer has stopped.
func (w *writer) close() error {
	if w.log == nil {
		return w.tx.close()
	}
	return errors.Join(w.log.stop(), w.tx.close())
}

// lostTransaction is a savepoint that failed: SQLite has ended the transaction.
type lostTransaction struct{ cause error }

func (e *lostTransaction) Error() string { return "the transaction was lost: " + e.cause.Error() }
func (e *lostTransaction) Unwrap() error { return e.cause }

// fatal reports whether err ends the whole batch: on a full or failing disk SQLite rolls
// back the transaction, not just the statement.
func fatal(err error) bool {
	if err == nil {
		return false
	}
	var lost *lostTransaction
	if errors.As(err, &lost) {
		return true
	}
	switch primaryCode(err) {
	case engine.ResultFull, engine.ResultIOErr, engine.ResultCorrupt, engine.ResultNotADB,
		engine.ResultNoMem, engine.ResultInterrupt, engine.ResultBusy:
		return true
	}
	return false
}

// primaryCode returns SQLite's primary result code; ResultError for other errors.
func primaryCode(err error) engine.ResultCode { return engine.ErrCode(err).ToPrimary() }

// violates reports whether err is a violated unique constraint.
func violates(err error) bool {
	code := engine.ErrCode(err)
	return code == engine.ResultConstraintUnique || code == engine.ResultConstraintPrimaryKey
}
