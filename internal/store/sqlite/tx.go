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

// tx is the writer's transaction as a fact sees it.
type tx struct {
	*connection
	// What the writer knows by heart of what it has written.
	nonces nonces
	places places
	// acts are the staff actions that the current write has logged.
	acts []admin.AuditEntry
	// keys sign staff actions and digests; nil in a store that was given none.
	keys atomic.Pointer[integrity.Keys]
}

func (t *tx) Dialect() *sqlstore.Dialect { return dialect }

func (t *tx) Keys() *integrity.Keys { return t.keys.Load() }

func (t *tx) Logged(act admin.AuditEntry) { t.acts = append(t.acts, act) }

// keep believes what is known by heart of the transaction, for it is committed.
func (t *tx) keep() { t.nonces.keep() }

// takeBack forgets what is known by heart of the transaction since so many nonces
// had been burned in it, for that is undone.
func (t *tx) takeBack(burned int) {
	t.nonces.takeBack(burned)
	t.places.forget()
}

// forget is for a transaction whose fate is not known.
func (t *tx) forget() {
	t.nonces.forget()
	t.places.forget()
}

// maxReaders is how many reads can be under way at a time. More would only make
// each of them slower.
const maxReaders = 8

// readers are the connections that only read, and may take their time; what requests
// look up in passing has a lane. One is opened where all that are open are in use: each
// has a schema to read and statements to prepare, and keeps pages of its own.
type readers struct {
	path string
	// places has as many as connections may be in use besides.
	places chan struct{}

	mu   sync.Mutex
	idle []*connection // open and in nobody's use, the one that was used last at the end
}

func newReaders(path string) *readers {
	r := &readers{path: path, places: make(chan struct{}, maxReaders)}
	for range maxReaders {
		r.places <- struct{}{}
	}
	return r
}

// take waits for a connection. Whoever takes one puts it back.
func (r *readers) take(ctx context.Context) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case _, open := <-r.places:
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
		r.places <- struct{}{}
	}
	return c, err
}

// usedLast takes the idle connection whose pages and statements are the freshest; nil
// if there is none.
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
	r.places <- struct{}{}
}

// close waits for those who read and closes every connection.
func (r *readers) close() error {
	for range maxReaders {
		<-r.places
	}
	close(r.places)
	var first error
	for c := r.usedLast(); c != nil; c = r.usedLast() {
		if err := c.close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// reading is a querier on any of the readers' connections; a read may be given up
// when its caller hangs up.
type reading struct {
	ctx     context.Context
	readers *readers
}

func (db *DB) read(ctx context.Context) reading { return reading{ctx, db.readers} }

func (r reading) QueryRow(query string, args ...any) sqlstore.Row { return readRow{r, query, args} }

type readRow struct {
	reading
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

func (r reading) Query(query string, args ...any) (sqlstore.Rows, error) {
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

// snapshot runs several reads as one moment.
func (db *DB) snapshot(ctx context.Context, read func(sqlstore.Querier) error) error {
	c, err := db.readers.take(ctx)
	if err != nil {
		return err
	}
	defer db.readers.put(c)
	if _, err := c.Exec("BEGIN"); err != nil {
		return fmt.Errorf("begin to read: %w", err)
	}
	defer func() { _, _ = c.Exec("ROLLBACK") }()
	return read(c)
}
