package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// querier reads on a connection or in a transaction. pgx prepares each statement once on each
// connection.
type querier struct {
	ctx context.Context
	on  interface {
		QueryRow(ctx context.Context, query string, args ...any) pgx.Row
		Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	}
}

// QueryRow reads one row; sql.ErrNoRows if there is none.
func (q querier) QueryRow(query string, args ...any) sqlstore.Row {
	return q.on.QueryRow(q.ctx, query, args...)
}

// Query reads several rows, which the caller closes.
func (q querier) Query(query string, args ...any) (sqlstore.Rows, error) {
	return q.on.Query(q.ctx, query, args...)
}

// tx is a transaction.
type tx struct {
	querier
	begun pgx.Tx
	// entries are the staff actions that were logged.
	entries []admin.AuditEntry
	// keys sign staff actions and digests; nil if the store has none.
	keys *integrity.Keys
}

func newTx(ctx context.Context, begun pgx.Tx) *tx {
	return &tx{querier: querier{ctx, begun}, begun: begun}
}

func (t *tx) Dialect() *sqlstore.Dialect { return dialect }

func (t *tx) Keys() *integrity.Keys { return t.keys }

func (t *tx) Logged(entry admin.AuditEntry) { t.entries = append(t.entries, entry) }

// Exec runs a statement and returns how many rows it changed.
func (t *tx) Exec(query string, args ...any) (changed int64, err error) {
	tag, err := t.begun.Exec(t.ctx, query, args...)
	return tag.RowsAffected(), err
}

// send runs statements together, in one round trip.
func (t *tx) send(batch *pgx.Batch) error { return t.begun.SendBatch(t.ctx, batch).Close() }

// poolQuerier is a Querier on any connection; cancelling ctx ends its reads.
type poolQuerier struct{ querier }

func (db *DB) read(ctx context.Context) poolQuerier { return poolQuerier{querier{ctx, db.pool}} }

func (r poolQuerier) QueryRow(query string, args ...any) sqlstore.Row {
	return oneRow{r.querier, query, args}
}

// oneRow runs its query when it is scanned.
type oneRow struct {
	from  querier
	query string
	args  []any
}

func (r oneRow) Scan(into ...any) error {
	return retryConflicts(func() error { return r.from.QueryRow(r.query, r.args...).Scan(into...) })
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
	return read(querier{ctx, begun})
}
