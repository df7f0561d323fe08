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
	// maxBatch bounds how long the first fact of a batch can wait for the
	// last one.
	maxBatch = 256
	// maxQueue bounds how many callers wait at the door; further ones wait
	// outside, where hanging up costs nothing.
	maxQueue = 1024
)

// errClosed is what a fact gets that comes after Close.
var errClosed = errors.New("the store is closed")

// writer is the one hand that writes. Facts that arrive during a commit wait, and
// share the next transaction. One that is refused or fails leaves no trace in its
// neighbours. Nobody is answered before the commit has returned.
//
// It also answers questions about rows that are to be changed next. The writer is the
// only one who need not forget its pages when something was committed, and has to have
// these pages in memory anyway. Questions are answered between two transactions: what
// they are told is durable.
type writer struct {
	tx       *tx
	log      *checkpoints // nil for a tool, which leaves the log to SQLite
	turn     turnstile
	observe  Observer
	acted    func(context.Context, admin.AuditEntry)
	before   func(pragma func(text string) (int64, error))
	around   func(commit func() error) error
	queue    chan *fact
	stopping chan struct{} // closed by stop: no new facts
	stopped  chan struct{} // closed when the loop has ended
	stopOnce sync.Once
	died     func(cause error)
	dead     chan struct{} // closed when the disk failed for good
	cause    error         // why; set before dead is closed
}

// fact is one caller's wish. Exactly one of the caller and the writer takes it
// out of the waiting state.
type fact struct {
	run   func(*tx) error
	asks  *question          // instead, if it only reads
	acts  []admin.AuditEntry // that it has written down
	err   error
	state atomic.Int32
	done  chan struct{}
}

const (
	waiting int32 = iota
	taken         // the writer has it: it runs, whether or not the caller still listens
	dropped       // the caller hung up first: it never runs
)

func newWriter(conn *connection, turn turnstile, options Options, died func(cause error)) *writer {
	return &writer{
		tx:       &tx{connection: conn, nonces: nonces{buffer: cmp.Or(options.NonceBuffer, nonceBuffer)}},
		turn:     turn,
		observe:  options.Observe,
		acted:    options.Acted,
		before:   options.Before,
		around:   options.Commit,
		queue:    make(chan *fact, maxQueue),
		stopping: make(chan struct{}),
		stopped:  make(chan struct{}),
		died:     died,
		dead:     make(chan struct{}),
	}
}

// do makes a fact true. It returns when the fact is durable, was refused, or
// failed; the caller's hanging up counts only until a batch has taken the fact.
func (w *writer) do(ctx context.Context, run func(*tx) error) error {
	f := &fact{run: run, done: make(chan struct{})}
	err := w.hand(ctx, f)
	if err == nil && w.acted != nil {
		for _, act := range f.acts {
			w.acted(ctx, act)
		}
	}
	return err
}

// ask has a question answered between two transactions, the earlier of which may have
// begun before it was asked.
func (w *writer) ask(ctx context.Context, read func(sqlstore.Querier) error) error {
	q := &question{read: read, done: make(chan struct{})}
	if err := w.hand(ctx, &fact{asks: q, done: q.done}); err != nil {
		return err
	}
	return q.err
}

// hand gives a fact to the loop and waits until it is over.
func (w *writer) hand(ctx context.Context, f *fact) error {
	select {
	case <-ctx.Done():
		// Asked on its own: of two cases that are both ready, the select below
		// takes either.
		return ctx.Err()
	case <-w.stopping:
		return errClosed
	case <-w.dead:
		return w.broken()
	default:
	}
	select {
	case w.queue <- f:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stopping:
		return errClosed
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		if f.state.CompareAndSwap(waiting, dropped) {
			return ctx.Err()
		}
		<-f.done
	case <-w.stopped:
		// The loop drains the queue before it ends; a fact that slipped in
		// behind that was never run.
		if f.state.CompareAndSwap(waiting, dropped) {
			return errClosed
		}
		<-f.done
	}
	return f.err
}

func (w *writer) loop() {
	defer close(w.stopped)
	batch := make([]*fact, 0, maxBatch)
	for {
		select {
		case f := <-w.queue:
			batch = append(batch[:0], f)
		case <-w.stopping:
			select {
			case f := <-w.queue:
				batch = append(batch[:0], f)
			default:
				return
			}
		}
		w.write(w.answer(w.gather(batch)))
	}
}

// keepHouse does what has to be done now and then, when everybody is answered.
func (w *writer) keepHouse() {
	if w.log == nil || w.broken() != nil {
		return
	}
	if err := w.log.follow(w.tx.connection); err != nil {
		_ = w.judge(fmt.Errorf("write the log back: %w", err)) // what passes is tried again
	}
}

// indexBacklog indexes the nonces that a release without the index has left. It comes
// before the first batch.
func (w *writer) indexBacklog() error {
	commit := func(run func(tx *tx) error) error {
		f := &fact{run: run}
		if err := errors.Join(w.commit([]*fact{f}), f.err); err != nil {
			return fmt.Errorf("index nonces: %w", err)
		}
		return nil
	}
	anew, err := countedAnew(w.tx)
	if err == nil && anew {
		err = commit(startOver)
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

// gather adds whoever has queued up, and drops who has hung up.
func (w *writer) gather(batch []*fact) []*fact {
	for more := true; more && len(batch) < maxBatch; {
		select {
		case f := <-w.queue:
			batch = append(batch, f)
		default:
			more = false
		}
	}
	kept := batch[:0]
	for _, f := range batch {
		if f.state.CompareAndSwap(waiting, taken) {
			kept = append(kept, f)
		}
	}
	return kept
}

// answer answers those who only ask, and returns the others.
func (w *writer) answer(batch []*fact) (rest []*fact) {
	rest = batch[:0]
	var asked []*question
	for _, f := range batch {
		if f.asks == nil {
			rest = append(rest, f)
		} else if f.err = w.broken(); f.err != nil {
			close(f.done)
		} else {
			asked = append(asked, f.asks)
		}
	}
	for len(asked) > 0 {
		asked = answer(w.tx.connection, asked)
	}
	return rest
}

// write carries a batch through one transaction and answers every caller. The
// observer hears that it is over when the writer is ready for the next one.
func (w *writer) write(batch []*fact) {
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
	if err := w.commit(batch); err != nil {
		for _, f := range batch {
			// A fact that was refused on its own changed nothing either way.
			if f.err == nil {
				f.err = err
			}
		}
	}
	for _, f := range batch {
		close(f.done)
	}
	w.keepHouse()
}

// commit runs the facts in one transaction. The error it returns is the whole
// batch's; what befell a single fact is in the fact.
//
// No statement can be interrupted: that would roll back the whole transaction, the
// neighbours' rows with it.
func (w *writer) commit(batch []*fact) error {
	if err := w.broken(); err != nil {
		return err
	}
	leave, err := w.turn.enter()
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
	w.tx.keep()
	return nil
}

func (w *writer) begin() error {
	if _, err := w.tx.Exec("BEGIN IMMEDIATE"); err != nil {
		// A transaction that could not be rolled back is still open, and would
		// be in the way of every other for ever.
		_, _ = w.tx.Exec("ROLLBACK")
		if _, err = w.tx.Exec("BEGIN IMMEDIATE"); err != nil {
			return w.judge(fmt.Errorf("begin: %w", err))
		}
	}
	return nil
}

// run carries the facts out. Nothing stands between them at first, because hardly
// any fails once it has written something, and to stand between them SQLite has to
// copy every page that they touch. Where one does, all of it is undone, and, if it
// had neighbours, they are carried out again, each under its own savepoint. The
// error is the batch's end.
func (w *writer) run(batch []*fact) (undone bool, err error) {
	for _, f := range batch {
		w.tx.wrote = false
		f.err = w.runSafely(f)
		if fatal(f.err) {
			return false, takenOver(f)
		}
		if f.err == nil || !w.tx.wrote {
			continue
		}
		if _, err := w.tx.Exec("ROLLBACK"); err != nil {
			return false, err
		}
		w.tx.takeBack(0)
		if len(batch) == 1 {
			return true, nil
		}
		return false, w.runApart(batch)
	}
	return false, nil
}

func (w *writer) runApart(batch []*fact) error {
	if _, err := w.tx.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, f := range batch {
		if f.err = w.runAlone(f); fatal(f.err) {
			return takenOver(f)
		}
	}
	return nil
}

// takenOver is the failure of a fact whose fate has become the batch's.
func takenOver(f *fact) error {
	cause := f.err
	f.err = nil
	return cause
}

// runAlone runs one fact so that whatever it does wrong is undone without its
// neighbours noticing.
func (w *writer) runAlone(f *fact) error {
	if _, err := w.tx.Exec("SAVEPOINT fact"); err != nil {
		return &lostTransaction{err}
	}
	burned := len(w.tx.nonces.added)
	err := w.runSafely(f)
	if fatal(err) {
		return err
	}
	if err != nil {
		if _, undo := w.tx.Exec("ROLLBACK TO fact"); undo != nil {
			return &lostTransaction{undo}
		}
		w.tx.takeBack(burned)
	}
	if _, release := w.tx.Exec("RELEASE fact"); release != nil {
		return &lostTransaction{release}
	}
	return err
}

func (w *writer) runSafely(f *fact) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a store fact panicked: %v\n%s", r, debug.Stack())
		}
	}()
	w.tx.acts = nil
	err = f.run(w.tx)
	f.acts = w.tx.acts
	return err
}

// abandon gives up a transaction whose fate is not known.
func (w *writer) abandon(cause error) error {
	// Where SQLite has rolled back already this is an error, and a fine one.
	_, _ = w.tx.Exec("ROLLBACK")
	w.tx.forget()
	return w.judge(fmt.Errorf("%w: %w", operation.ErrAmbiguous, cause))
}

// judge remembers a failure that no retry can mend.
func (w *writer) judge(err error) error {
	switch primaryCode(err) {
	case engine.ResultIOErr, engine.ResultCorrupt, engine.ResultNotADB:
		w.cause = fmt.Errorf("the store's disk has failed: %w", err)
		w.died(err)
		close(w.dead)
	}
	return err
}

// broken returns why the store can no longer write, nil while it can.
func (w *writer) broken() error {
	select {
	case <-w.dead:
		return w.cause
	default:
		return nil
	}
}

// stop waits for the facts that were accepted.
func (w *writer) stop() {
	w.stopOnce.Do(func() { close(w.stopping) })
	<-w.stopped
}

// close lets go of the file, once the writer has stopped.
func (w *writer) close() error {
	if w.log == nil {
		return w.tx.close()
	}
	return errors.Join(w.log.stop(), w.tx.close())
}

// lostTransaction is a savepoint that could not be left: SQLite has ended the
// transaction under us.
type lostTransaction struct{ cause error }

func (e *lostTransaction) Error() string { return "the transaction was lost: " + e.cause.Error() }
func (e *lostTransaction) Unwrap() error { return e.cause }

// fatal reports whether err ends the whole batch: a full or failing disk makes
// SQLite roll back everything, not just the statement.
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

// primaryCode is SQLite's result code without its finer distinctions; that of a
// plain error if err did not come from SQLite.
func primaryCode(err error) engine.ResultCode { return engine.ErrCode(err).ToPrimary() }

// violates reports whether err is a broken uniqueness rule.
func violates(err error) bool {
	code := engine.ErrCode(err)
	return code == engine.ResultConstraintUnique || code == engine.ResultConstraintPrimaryKey
}
