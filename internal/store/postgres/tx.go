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

// tx is a transaction. pgx prepares each statement once on each connection.
type tx struct {
	ctx   context.Context
	begun pgx.Tx
	// entries are the staff actions that were logged.
	entries []admin.AuditEntry
	// keys sign staff actions and digests; nil if the store has none.
	keys *integrity.Keys
}

func (t *tx) Dialect() *sqlstore.Dialect { return dialect }

func (t *tx) Keys() *integrity.Keys { return t.keys }

func (t *tx) Logged(entry admin.AuditEntry) { t.entries = append(t.entries, entry) }

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

// poolQuerier is a Querier on any connection; cancelling ctx ends its reads.
type poolQuerier struct {
	ctx  context.Context
	pool *pgxpool.Pool
}

func (db *DB) read(ctx context.Context) poolQuerier { return poolQuerier{ctx, db.pool} }

func (r poolQuerier) QueryRow(query string, args ...any) sqlstore.Row { return oneRow{r, query, args} }

// oneRow runs its query when it is scanned.
type oneRow struct {
	from  poolQuerier
	query string
	args  []any
}

func (r oneRow) Scan(into ...any) error {
	return retryConflicts(func() error { return r.from.pool.QueryRow(r.from.ctx, r.query, r.args...).Scan(into...) })
}

// retryConflicts retries a read that the server rolled back: a migration that locks its
// tables one after the other can deadlock with a read.
func retryConflicts(read func() error) error {
	for try := 1; ; try++ {
		err := read()
		if err == nil || try == maxTries || !isConflict(err) {
			return err
		}
	}
}

func (r poolQuerier) Query(query string, args ...any) (sqlstore.Rows, error) {
	return r.pool.Query(r.ctx, query, args...)
}

// snapshot runs several reads in one transaction. It may call read several times.
func (db *DB) snapshot(ctx context.Context, read func(sqlstore.Querier) error) error {
	return retryConflicts(func() error { return db.trySnapshot(ctx, read) })
}

func (db *DB) trySnapshot(ctx context.Context, read func(sqlstore.Querier) error) error {
	begun, err := db.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("begin a read: %w", err)
	}
	defer func() { _ = begun.Rollback(ctx) }()
	return read(&tx{ctx: ctx, begun: begun})
}
