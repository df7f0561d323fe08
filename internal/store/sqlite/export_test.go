package sqlite

import (
	"context"
	"fmt"
	"maps"
	"slices"

	engine "zombiezen.com/go/sqlite"

	"github.com/coaxhq/coax/internal/subscription"
)

// Translate is what SQLite is given for a statement of the source.
func Translate(query string) string { return translate(query) }

// Statements are those that the store has prepared so far, on any connection, for
// tests that look at them, as they are in the source. Nobody may be using the store meanwhile.
func (db *DB) Statements() []string {
	all := maps.Clone(db.writer.tx.statements)
	for _, c := range db.readers.idle {
		maps.Copy(all, c.statements)
	}
	c := <-db.lookups.free
	if c != nil {
		maps.Copy(all, c.statements)
	}
	db.lookups.free <- c
	return slices.Sorted(maps.Keys(all))
}

// Explain is how SQLite would carry out a statement, line by line.
func (db *DB) Explain(ctx context.Context, query string) ([]string, error) {
	return db.explain(ctx, "EXPLAIN QUERY PLAN "+query, func(s *engine.Stmt) string { return s.ColumnText(s.ColumnCount() - 1) })
}

// Program is the steps that SQLite would take for a statement.
func (db *DB) Program(ctx context.Context, query string) ([]string, error) {
	return db.explain(ctx, "EXPLAIN "+query, func(s *engine.Stmt) string { return s.ColumnText(1) })
}

func (db *DB) explain(ctx context.Context, query string, read func(*engine.Stmt) string) (lines []string, err error) {
	c, err := db.readers.take(ctx)
	if err != nil {
		return nil, err
	}
	defer db.readers.put(c)
	s, _, err := c.engine.PrepareTransient(query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer func() { err = finished(err, s.Finalize()) }()
	for {
		row, err := s.Step()
		if err != nil || !row {
			return lines, err
		}
		lines = append(lines, read(s))
	}
}

func finished(err, closing error) error {
	if err != nil {
		return err
	}
	return closing
}

// AssignIDsOf makes the store begin with ids of so many digits, of which it knows
// nothing: all of six take long to use up.
func (db *DB) AssignIDsOf(digits int) *subscription.IDs {
	db.ids = subscription.NewIDs(digits)
	return db.ids
}

// IDRecords are what a store looks for a free id in when it can no longer guess one.
func (db *DB) IDRecords(ctx context.Context) subscription.IDRecords { return idRecords{db.read(ctx)} }
