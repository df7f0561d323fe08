package audit

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Snapshot is a consistent snapshot of a store: a read transaction of SQLite, or one of
// PostgreSQL wrapped by Postgres.
//
// Several queries are open at a time: the audit reads several tables in parallel.
type Snapshot interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// The dialects differ in two things: the order of texts, and how many queries a connection
// runs at a time.

// bytewise follows a text column in ORDER BY. The audit merges tables in the order of
// bytes, which is SQLite's default; for PostgreSQL it becomes a collation. To SQLite it is
// a comment.
const bytewise = `/* bytewise */`

// Postgres makes a snapshot of a transaction on PostgreSQL, which should be
// read-only and repeatable read. A connection runs one query at a time, so that rows come
// through cursors, a batch at a time.
func Postgres(tx Snapshot) Snapshot { return postgres{tx, cursorBatch} }

type postgres struct {
	Snapshot
	batch int // rows that are fetched at a time
}

// cursorBatch is how many rows PostgreSQL reads at once: about a millisecond's work, during
// which an audit cannot rest.
const cursorBatch = 200

// cursor runs one query and returns its rows: one by one from SQLite, in batches from
// PostgreSQL.
type cursor struct {
	a *auditor
	// rows are being read; nil between batches and at the end.
	rows *sql.Rows
	// fetch is the statement for the next batch; empty if there is none.
	fetch string
	batch int
}

func (a *auditor) ask(query string) *cursor {
	c := &cursor{a: a}
	tx, is := a.snapshot.(postgres)
	if !is {
		c.query(query)
		return c
	}
	a.cursors++
	name := fmt.Sprintf("audit_%d", a.cursors)
	c.query("DECLARE " + name + " NO SCROLL CURSOR FOR " + strings.ReplaceAll(query, bytewise, `COLLATE "C"`))
	c.close()
	c.fetch, c.batch = fmt.Sprintf("FETCH %d FROM %s", tx.batch, name), tx.batch
	return c
}

func (c *cursor) query(query string) {
	if c.a.err != nil {
		return
	}
	rows, err := c.a.snapshot.QueryContext(c.a.ctx, query)
	if err != nil {
		c.a.fail("read the store: %w", err)
		return
	}
	c.rows = rows
}

// more reads the next row or batch.
func (c *cursor) more(read func()) {
	if c.fetch == "" {
		if c.next() {
			read()
		}
		return
	}
	got := 0
	for c.query(c.fetch); c.next(); got++ {
		read()
	}
	if got < c.batch {
		c.fetch = ""
	}
}

func (c *cursor) next() bool {
	if c.rows == nil || c.a.err != nil {
		return false
	}
	if c.rows.Next() {
		return true
	}
	if err := c.rows.Err(); err != nil {
		c.a.fail("read the store: %w", err)
	}
	c.close()
	return false
}

func (c *cursor) close() {
	if c.rows != nil {
		_ = c.rows.Close()
		c.rows = nil
	}
}

// stream has the rows of one query in the order of a key, so that several streams with the
// same key can be merged.
type stream[K cmp.Ordered, T any] struct {
	*cursor
	what  string
	read  func(row scanner, into *T) K
	ahead []keyedRow[K, T]
	at    int // the next row of those ahead
	last  K
	count int64
	taken []T
}

type keyedRow[K cmp.Ordered, T any] struct {
	key K
	row T
}

// scanner reads one row; what cannot be read fails the audit.
type scanner func(into ...any)

func open[K cmp.Ordered, T any](a *auditor, what, query string, read func(scanner, *T) K) *stream[K, T] {
	if a.progress != nil {
		a.progress(what, a.rows)
	}
	s := &stream[K, T]{cursor: a.ask(query), what: what, read: read}
	s.fill()
	return s
}

// scan reads the cursor's current row.
func (s *stream[K, T]) scan(into ...any) {
	if err := s.rows.Scan(into...); err != nil {
		s.a.fail("read %s: %w", s.what, err)
	}
}

// fill reads ahead.
func (s *stream[K, T]) fill() {
	s.ahead, s.at = s.ahead[:0], 0
	s.more(func() {
		s.ahead = append(s.ahead, keyedRow[K, T]{})
		next := &s.ahead[len(s.ahead)-1]
		next.key = s.read(s.scan, &next.row)
		if s.count > 0 && next.key < s.last {
			s.a.fail("read %s: %v came after %v, so the store does not keep the order of bytes", s.what, next.key, s.last)
		}
		s.last = next.key
		s.count++
		s.a.tick(s.what)
	})
	if s.a.err != nil {
		s.ahead = s.ahead[:0]
	}
}

// peek returns the key of the next row.
func (s *stream[K, T]) peek() (key K, here bool) {
	if s.at == len(s.ahead) {
		return key, false
	}
	return s.ahead[s.at].key, true
}

// each visits the rows of a key, which must be the next one.
func (s *stream[K, T]) each(key K, visit func(*T)) {
	for {
		if next, here := s.peek(); !here || next != key {
			return
		}
		visit(&s.ahead[s.at].row)
		if s.at++; s.at == len(s.ahead) {
			s.fill()
		}
	}
}

// take returns the rows of a key. The slice is the stream's own, until the next
// take.
func (s *stream[K, T]) take(key K) []T {
	s.taken = s.taken[:0]
	s.each(key, func(row *T) { s.taken = append(s.taken, *row) })
	return s.taken
}

type keyed[K cmp.Ordered] interface {
	peek() (K, bool)
	close()
}

// walk visits every key of some streams once, in order.
func walk[K cmp.Ordered](visit func(K), streams ...keyed[K]) {
	defer func() {
		for _, s := range streams {
			s.close()
		}
	}()
	for {
		var lowest K
		any := false
		for _, s := range streams {
			if key, here := s.peek(); here && (!any || key < lowest) {
				lowest, any = key, true
			}
		}
		if !any {
			return
		}
		visit(lowest)
	}
}

// restEvery is after how many rows an audit may rest: a fraction of a millisecond's work,
// so that the caller can limit its working time to a millisecond.
const restEvery = 64

// tick counts a row.
func (a *auditor) tick(what string) {
	a.rows++
	if a.rows%restEvery == 0 && a.rest != nil {
		a.rest(a.ctx)
	}
	if a.rows&0xffff == 0 && a.progress != nil {
		a.progress(what, a.rows)
	}
}

// flag is a boolean that SQLite stores as 0 and 1.
type flag bool

// Scan reads either representation.
func (f *flag) Scan(value any) error {
	switch v := value.(type) {
	case bool:
		*f = flag(v)
	case int64:
		*f = v != 0
	default:
		return fmt.Errorf("%v is neither true nor false", value)
	}
	return nil
}
