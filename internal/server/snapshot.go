package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/store/postgres"
)

// AuditSettings returns the settings of an audit. The longest wait is that for the next
// check, or that of a check which calls the provider twice.
func AuditSettings(config Config) audit.Settings {
	return audit.Settings{LongestWait: max(config.Review.FirstCheck, config.Review.MaxInterval, 2*config.Provider.Timeout)}
}

// OpenSnapshot begins a read-only transaction on a store. The returned function ends it.
func OpenSnapshot(ctx context.Context, from StoreConfig) (audit.Snapshot, func(), error) {
	if from.Kind == "postgres" {
		return postgresSnapshot(ctx, from.URL)
	}
	return sqliteSnapshot(ctx, from.Path)
}

// postgresSnapshot reads from the primary: a standby may lag, and its missing rows would
// look like losses.
func postgresSnapshot(ctx context.Context, address string) (audit.Snapshot, func(), error) {
	pool, err := postgres.OpenSQL(address)
	if err != nil {
		return nil, nil, err
	}
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err != nil {
		_ = pool.Close()
		return nil, nil, fmt.Errorf("it cannot be read: %w", err)
	}
	var there bool
	if err := tx.QueryRowContext(ctx, `SELECT to_regclass('schema_tolerance') IS NOT NULL`).Scan(&there); err != nil || !there {
		_ = tx.Rollback()
		_ = pool.Close()
		return nil, nil, errors.Join(errors.New("there is none; start a node or run `coax migrate` first"), err)
	}
	return audit.Postgres(tx), func() {
		_ = tx.Rollback()
		_ = pool.Close()
	}, nil
}

// sqliteSnapshot opens the file read-only, without a lock that would delay a node.
func sqliteSnapshot(ctx context.Context, path string) (snapshot audit.Snapshot, done func(), err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.New("there is none; start a node or run `coax migrate` first")
	}
	pool, err := openReadOnly(path)
	if err != nil {
		return nil, nil, fileowner.Explain(path, err)
	}
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		_ = pool.Close()
		return nil, nil, fmt.Errorf("no store of Coax is there, or it cannot be read: %w", err)
	}
	return tx, func() {
		_ = tx.Rollback()
		_ = pool.Close()
	}, nil
}
