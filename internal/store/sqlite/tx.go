package sqlite

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// tx is the writer's transaction.
type tx struct {
	*connection
	// Caches of what the writer has written.
	nonces nonces
	rates  rateCounts
	// entries are the staff actions that the current write has logged.
	entries []admin.AuditEntry
	// keys sign staff actions and digests; nil if the store has none.
	keys atomic.Pointer[integrity.Keys]
}

func (t *tx) Dialect() *sqlstore.Dialect { return dialect }

func (t *tx) Keys() *integrity.Keys { return t.keys.Load() }

func (t *tx) Logged(entry admin.AuditEntry) { t.entries = append(t.entries, entry) }

// committed updates the caches after a commit.
func (t *tx) committed() { t.nonces.committed() }

// undo removes from the caches what was written since the given number of nonces had
// been burned in the transaction.
func (t *tx) undo(burned int) {
	t.nonces.undo(burned)
	t.rates.forget()
}

// forget empties the caches after a transaction whose outcome is unknown.
func (t *tx) forget() {
	t.nonces.forget()
	t.rates.forget()
}

// maxReaders is how many reads can run at a time. More would only make each slower.
const maxReaders = 8

// readers are the connections for long reads; the small reads of requests share the
// batcher's. A connection is opened when all others are in use: each has to read the
// schema and prepare statements, and has a page cache of its own.
type readers struct {
	path string
	// slots has one element for each further connection that may be in use.
	slots chan struct{}

	mu   sync.Mutex
	idle []*connection // open and unused, the one that was used last at the end
}

func newReaders(path string) *readers {
	r := &readers{path: path, slots: make(chan struct{}, maxReaders)}
	for range maxReaders {
		r.slots <- struct{}{}
	}
	return r
}

// take waits for a connection; the caller puts it back.
func (r *readers) take(ctx context.Context) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case _, open := <-r.slots:
		if !open {
			return nil, errClosed
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c := r.usedLast(); c != nil {
		return c, nil
	}
	c, err := connectToRead(r.path)
	if err != nil {
		r.slots <- struct{}{}
	}
	return c, err
}

// usedLast takes the idle connection that was used last, which has the most in its
// caches; nil if there is none.
func (r *readers) usedLast() *connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.idle) - 1
	if last < 0 {
		return nil
	}
	c := r.idle[last]
	r.idle = r.idle[:last]
	return c
}

func connectToRead(path string) (*connection, error) {
	c, err := connect(path, "synchronous = FULL", "query_only = 1")
	if err != nil {
		return nil, fmt.Errorf("open %s for reading: %w", path, err)
	}
	return c, nil
}

func (r *readers) put(c *connection) {
	r.mu.Lock()
	r.idle = append(r.idle, c)
	r.mu.Unlock()
	r.slots <- struct{}{}
}

// close waits for running reads and closes every connection.
func (r *readers) close() error {
	for range maxReaders {
		<-r.slots
	}
	close(r.slots)
	var first error
	for c := r.usedLast(); c != nil; c = r.usedLast() {
		if err := c.close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// poolQuerier is a Querier on any of the readers' connections; cancelling ctx ends its
// reads.
type poolQuerier struct {
	ctx     context.Context
	readers *readers
}

func (db *DB) read(ctx context.Context) poolQuerier { return poolQuerier{ctx, db.readers} }

func (r poolQuerier) QueryRow(query string, args ...any) sqlstore.Row { return readRow{r, query, args} }

type readRow struct {
	poolQuerier
	text string
	args []any
}

func (r readRow) Scan(into ...any) error {
	c, err := r.readers.take(r.ctx)
	if err != nil {
		return err
	}
	defer r.readers.put(c)
	return c.QueryRow(r.text, r.args...).Scan(into...)
}

func (r poolQuerier) Query(query string, args ...any) (sqlstore.Rows, error) {
	c, err := r.readers.take(r.ctx)
	if err != nil {
		return nil, err
	}
	found, err := c.start(query, args)
	if err != nil {
		r.readers.put(c)
		return nil, err
	}
	found.ctx, found.free = r.ctx, func() { r.readers.put(c) }
	return found, nil
}

// snapshot runs several reads in one transaction.
func (db *DB) snapshot(ctx context.Context, read func(sqlstore.Querier) error) error {
	c, err := db.readers.take(ctx)
	if err != nil {
		return err
	}
	defer db.readers.put(c)
	if _, err := c.Exec("BEGIN"); err != nil {
		return fmt.Errorf("begin a read: %w", err)
	}
	defer func() { _, _ = c.Exec("ROLLBACK") }()
	return read(c)
}
