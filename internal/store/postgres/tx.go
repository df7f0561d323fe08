package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/store/sqlstore"
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

func (t *tx) Dialect() *sqlstore.Dialect { return dialect }

func (t *tx) Keys() *integrity.Keys { return t.keys }

func (t *tx) Logged(act admin.AuditEntry) { t.acts = append(t.acts, act) }

// Exec runs a statement and returns how many rows it changed.
func (t *tx) Exec(query string, args ...any) (changed int64, err error) {
	tag, err := t.begun.Exec(t.ctx, query, args...)
	return tag.RowsAffected(), err
}

// QueryRow reads one row; sql.ErrNoRows if there is none.
func (t *tx) QueryRow(query string, args ...any) sqlstore.Row {
	return t.begun.QueryRow(t.ctx, query, args...)
}

// Query reads several rows, which the caller closes.
func (t *tx) Query(query string, args ...any) (sqlstore.Rows, error) {
	return t.begun.Query(t.ctx, query, args...)
}

// send runs statements together, in one round trip.
func (t *tx) send(batch *pgx.Batch) error { return t.begun.SendBatch(t.ctx, batch).Close() }

// reading is a Querier on any connection; a read may be given up when its caller
// hangs up.
type reading struct {
	ctx  context.Context
	pool *pgxpool.Pool
}

func (db *DB) read(ctx context.Context) reading { return reading{ctx, db.pool} }

func (r reading) QueryRow(query string, args ...any) sqlstore.Row { return oneRow{r, query, args} }

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

func (r reading) Query(query string, args ...any) (sqlstore.Rows, error) {
	return r.pool.Query(r.ctx, query, args...)
}

// snapshot runs several reads as one moment. They may run several times, each from
// the beginning.
func (db *DB) snapshot(ctx context.Context, read func(sqlstore.Querier) error) error {
	return unlessUndone(func() error { return db.trySnapshot(ctx, read) })
}

func (db *DB) trySnapshot(ctx context.Context, read func(sqlstore.Querier) error) error {
	begun, err := db.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("begin to read: %w", err)
	}
	defer func() { _ = begun.Rollback(ctx) }()
	return read(&tx{ctx: ctx, begun: begun})
}
