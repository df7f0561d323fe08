package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// tx is the writer's transaction as a fact sees it. Each statement is prepared
// once in the life of the store.
type tx struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

func (t *tx) statement(query string) (*sql.Stmt, error) {
	if stmt := t.prepared[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := t.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	t.prepared[query] = stmt
	return stmt, nil
}

// exec runs a statement and says how many rows it changed.
func (t *tx) exec(query string, args ...any) (changed int64, err error) {
	stmt, err := t.statement(query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// queryRow reads one row; sql.ErrNoRows if there is none.
func (t *tx) queryRow(query string, args ...any) scanner {
	stmt, err := t.statement(query)
	if err != nil {
		return failedRow{err}
	}
	return stmt.QueryRowContext(context.Background(), args...)
}

// query reads several rows, which the caller closes.
func (t *tx) query(query string, args ...any) (*sql.Rows, error) {
	stmt, err := t.statement(query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(context.Background(), args...)
}

func (t *tx) close() {
	for _, stmt := range t.prepared {
		_ = stmt.Close()
	}
}

// scanner is a row to be read, from the writer or from a reader.
type scanner interface{ Scan(into ...any) error }

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// querier is the part of a transaction and of the readers that reads.
type querier interface {
	queryRow(query string, args ...any) scanner
	query(query string, args ...any) (*sql.Rows, error)
}

// reading is a querier on the readers' connections; a read may be given up
// when its caller hangs up.
type reading struct {
	ctx  context.Context
	pool *sql.DB
}

func (db *DB) read(ctx context.Context) reading { return reading{ctx, db.readers} }

func (r reading) queryRow(query string, args ...any) scanner {
	return r.pool.QueryRowContext(r.ctx, query, args...)
}

func (r reading) query(query string, args ...any) (*sql.Rows, error) {
	return r.pool.QueryContext(r.ctx, query, args...)
}

// snapshot runs several reads as one moment.
func (db *DB) snapshot(ctx context.Context, read func(querier) error) error {
	tx, err := db.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin to read: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	return read(snapshotReading{ctx, tx})
}

// snapshotReading is a querier within one read transaction.
type snapshotReading struct {
	ctx      context.Context
	snapshot *sql.Tx
}

func (r snapshotReading) queryRow(query string, args ...any) scanner {
	return r.snapshot.QueryRowContext(r.ctx, query, args...)
}

func (r snapshotReading) query(query string, args ...any) (*sql.Rows, error) {
	return r.snapshot.QueryContext(r.ctx, query, args...)
}

// collect reads all rows of a query.
func collect[T any](rows *sql.Rows, err error, read func(scanner) (T, error)) ([]T, error) {
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
