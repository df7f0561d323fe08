package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/integrity"
)

// tx is a transaction as a fact sees it. pgx prepares each statement once on
// each connection.
type tx struct {
	ctx   context.Context
	begun pgx.Tx
	// acts are the staff actions that were written down.
	acts []admin.AuditEntry
	// keys sign staff actions and digests; nil in a store that was given none.
	keys *integrity.Keys
}

// exec runs a statement and says how many rows it changed.
func (t *tx) exec(query string, args ...any) (changed int64, err error) {
	tag, err := t.begun.Exec(t.ctx, query, args...)
	return tag.RowsAffected(), err
}

// queryRow reads one row; sql.ErrNoRows if there is none.
func (t *tx) queryRow(query string, args ...any) scanner {
	return t.begun.QueryRow(t.ctx, query, args...)
}

// query reads several rows, which the caller closes.
func (t *tx) query(query string, args ...any) (pgx.Rows, error) {
	return t.begun.Query(t.ctx, query, args...)
}

// send runs statements together, in one round trip.
func (t *tx) send(batch *pgx.Batch) error { return t.begun.SendBatch(t.ctx, batch).Close() }

// scanner is a row to be read.
type scanner interface{ Scan(into ...any) error }

// querier is the part of a transaction and of the pool that reads.
type querier interface {
	queryRow(query string, args ...any) scanner
	query(query string, args ...any) (pgx.Rows, error)
}

// reading is a querier on any connection; a read may be given up when its caller
// hangs up.
type reading struct {
	ctx  context.Context
	pool *pgxpool.Pool
}

func (db *DB) read(ctx context.Context) reading { return reading{ctx, db.pool} }

func (r reading) queryRow(query string, args ...any) scanner { return oneRow{r, query, args} }

// oneRow is asked for when it is scanned.
type oneRow struct {
	from  reading
	query string
	args  []any
}

func (r oneRow) Scan(into ...any) error {
	return unlessUndone(func() error { return r.from.pool.QueryRow(r.from.ctx, r.query, r.args...).Scan(into...) })
}

// unlessUndone reads again what the server gave up: a migration wants its tables
// for itself, one after the other, and may meet a read that has them the other
// way round.
func unlessUndone(read func() error) error {
	for try := 1; ; try++ {
		err := read()
		if err == nil || try == factTries || !undone(err) {
			return err
		}
	}
}

func (r reading) query(query string, args ...any) (pgx.Rows, error) {
	return r.pool.Query(r.ctx, query, args...)
}

// snapshot runs several reads as one moment. They may run several times, each from
// the beginning.
func (db *DB) snapshot(ctx context.Context, read func(querier) error) error {
	return unlessUndone(func() error { return db.trySnapshot(ctx, read) })
}

func (db *DB) trySnapshot(ctx context.Context, read func(querier) error) error {
	begun, err := db.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("begin to read: %w", err)
	}
	defer func() { _ = begun.Rollback(ctx) }()
	return read(&tx{ctx: ctx, begun: begun})
}

// collect reads all rows of a query.
func collect[T any](rows pgx.Rows, err error, read func(scanner) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		one, err := read(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// Moments are kept as Unix milliseconds, absent ones as NULL.

func millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

func moment(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64).UTC()
}
