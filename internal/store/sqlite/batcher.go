package sqlite

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// maxLookups limits how long a caller works for the others.
const maxLookups = 64

// batcher runs the small reads of requests: a few rows, found by key. Each commit of the
// writer empties a reader's page cache, and each read transaction takes and releases a
// lock. So all lookups share one connection, and those that were queued while it was in
// use run in one transaction.
//
// There is no goroutine to wake: the caller that finds the connection free runs all
// queued lookups.
type batcher struct {
	path string
	// free holds the connection while it is unused; nil if it was not opened yet.
	free chan *connection

	mu      sync.Mutex
	waiting []*lookup
}

// lookup is one caller's read.
type lookup struct {
	read func(sqlstore.Querier) error
	// short: it is a single statement, which needs no transaction.
	short bool
	err   error
	done  chan struct{} // nil if its caller runs it
}

func newBatcher(path string) *batcher {
	b := &batcher{path: path, free: make(chan *connection, 1)}
	b.free <- nil
	return b
}

// do runs a lookup, in a transaction that starts after the call. ctx is ignored once the
// lookup has started.
func (b *batcher) do(ctx context.Context, q *lookup) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c, open := <-b.free:
		if !open {
			return errClosed
		}
		b.free <- b.runAll(c, append([]*lookup{q}, b.take()...))
		return q.err
	default:
		q.done = make(chan struct{})
		return b.wait(ctx, q)
	}
}

// wait queues a lookup until this or another caller gets the connection.
func (b *batcher) wait(ctx context.Context, q *lookup) error {
	b.mu.Lock()
	b.waiting = append(b.waiting, q)
	b.mu.Unlock()
	var why error
	for why == nil {
		select {
		case <-q.done:
			return q.err
		case c, open := <-b.free:
			if open {
				b.free <- b.runAll(c, b.take()) // including its own, unless many are queued before it
			} else {
				why = errClosed
			}
		case <-ctx.Done():
			why = ctx.Err()
		}
	}
	if b.remove(q) {
		return why
	}
	<-q.done
	return q.err
}

// remove takes a lookup out of the queue; false if it has started.
func (b *batcher) remove(q *lookup) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, q)
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return true
}

// take takes the lookups that have waited longest.
func (b *batcher) take() []*lookup {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxLookups)
	taken := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return taken
}

// runAll runs lookups on a connection, which it opens if needed.
func (b *batcher) runAll(c *connection, all []*lookup) *connection {
	if c == nil && len(all) > 0 {
		var err error
		if c, err = connectToRead(b.path); err != nil {
			for _, q := range all {
				q.finish(err)
			}
			return nil
		}
	}
	for len(all) > 0 {
		all = answer(c, all)
	}
	return c
}

// answer runs lookups in one transaction, and returns those after the first that failed:
// SQLite may have ended the transaction then, so they need another one.
func answer(c *connection, all []*lookup) (left []*lookup) {
	if len(all) == 1 && all[0].short && c.engine.AutocommitEnabled() {
		all[0].finish(all[0].readSafely(c))
		return nil
	}
	if _, err := c.Exec("BEGIN"); err != nil {
		// An earlier transaction that could not be rolled back may still be open.
		_, _ = c.Exec("ROLLBACK")
		if _, err = c.Exec("BEGIN"); err != nil {
			for _, q := range all {
				q.finish(fmt.Errorf("begin a read: %w", err))
			}
			return nil
		}
	}
	defer func() { _, _ = c.Exec("ROLLBACK") }()
	for i, q := range all {
		err := q.readSafely(c)
		q.finish(err)
		if err != nil {
			return all[i+1:]
		}
	}
	return nil
}

// readSafely runs the read. It may run in another caller's goroutine, so a panic becomes
// an error.
func (q *lookup) readSafely(from sqlstore.Querier) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a store lookup panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return q.read(from)
}

// finish returns the result to the caller.
func (q *lookup) finish(err error) {
	q.err = err
	if q.done != nil {
		close(q.done)
	}
}

// close runs the queued lookups; later ones get errClosed.
func (b *batcher) close() error {
	c := <-b.free
	for left := b.take(); len(left) > 0; left = b.take() {
		c = b.runAll(c, left)
	}
	close(b.free)
	if c == nil {
		return nil
	}
	return c.close()
}

// lookUp runs a short read in one transaction, together with others; snapshot is for long
// reads.
func (db *DB) lookUp(ctx context.Context, read func(sqlstore.Querier) error) error {
	if err := db.lookups.do(ctx, &lookup{read: read}); err != nil {
		return err
	}
	return db.replicated(ctx)
}

// replicated waits until the replica has what a read has seen, in sync mode: an answer must
// not rest on what may be lost with this machine.
func (db *DB) replicated(ctx context.Context) error {
	if db.replication == nil {
		return nil
	}
	return db.replication.wait(ctx)
}

// lookUpRow returns a querier for a single row.
func (db *DB) lookUpRow(ctx context.Context) rowLookup { return rowLookup{ctx, db} }

type rowLookup struct {
	ctx context.Context
	db  *DB
}

func (a rowLookup) QueryRow(query string, args ...any) sqlstore.Row { return lookupRow{a, query, args} }

type lookupRow struct {
	rowLookup
	text string
	args []any
}

func (r lookupRow) Scan(into ...any) error {
	err := r.db.lookups.do(r.ctx, &lookup{short: true, read: func(from sqlstore.Querier) error {
		return from.QueryRow(r.text, r.args...).Scan(into...)
	}})
	if err != nil {
		return err
	}
	return r.db.replicated(r.ctx)
}
