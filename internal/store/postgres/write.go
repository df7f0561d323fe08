package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

// maxTries is how often a write is tried after serialization failures, deadlocks or lost
// connections.
const maxTries = 10

// do runs a write in a transaction of its own. It returns when the write is durable, was
// refused or failed; ctx is ignored once there is a connection. It may call run several
// times.
func (db *DB) do(ctx context.Context, run func(*tx) error) error {
	var entries []admin.AuditEntry
	err := db.locks.retryLocked(ctx, func() error {
		return db.repeat(ctx, func(conn *pgxpool.Conn) error {
			return try(ctx, conn, db.locks.solo, func(tx *tx) error {
				tx.keys = db.keys.Load()
				err := run(tx)
				entries = tx.entries
				return err
			})
		})
	})
	if err == nil && db.onAuditEntry != nil {
		for _, entry := range entries {
			db.onAuditEntry(ctx, entry)
		}
	}
	return err
}

// repeat tries a write on one connection after another, until it succeeds or fails for
// good.
func (db *DB) repeat(ctx context.Context, try func(*pgxpool.Conn) error) error {
	for tries := 1; ; tries++ {
		conn, err := db.acquire(ctx)
		if err != nil {
			return err
		}
		err = try(conn)
		lost := err != nil && db.lost(conn, err)
		conn.Release()
		if err == nil || errors.Is(err, operation.ErrCommitUnknown) || !lost && !isConflict(err) {
			return err
		}
		if tries == maxTries {
			if lost {
				err = fmt.Errorf("%w: %w", operation.ErrUnavailable, err)
			}
			return err
		}
	}
}

// acquire takes a connection to the primary, and fails soon if there is none: waiting
// would block the callers that are queued behind.
func (db *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	waiting, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	db.waiting.Add(1)
	defer db.waiting.Add(-1)
	conn, err := db.pool.Acquire(waiting)
	if err == nil {
		return conn, nil
	}
	if ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", operation.ErrUnavailable, inOneLine(err))
	}
	return nil, fmt.Errorf("connect to the store: %w", err)
}

// lost reports whether a write failed because its connection no longer leads to a
// primary. Then all other connections to that server are dropped too.
func (db *DB) lost(conn *pgxpool.Conn, err error) bool {
	demoted := readOnly(err)
	if !demoted && (!conn.Conn().IsClosed() || pgconn.Timeout(err)) {
		return false
	}
	if demoted {
		closing, cancel := context.WithTimeout(context.Background(), connectTimeout)
		defer cancel()
		_ = conn.Conn().Close(closing)
	}
	if to := stateOf(conn.Conn()).primary; db.primaries.CompareAndSwap(to, to+1) {
		db.pool.Reset()
	}
	return true
}

func try(ctx context.Context, conn *pgxpool.Conn, lockTimeout time.Duration, run func(*tx) error) error {
	working, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
	defer cancel()
	begun, err := conn.BeginTx(working, pgx.TxOptions{BeginQuery: `begin; ` + setLockTimeout(lockTimeout)})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	committed := false
	defer func() {
		// The server rolls back the transaction of a closed connection.
		if !committed && begun.Rollback(working) != nil {
			_ = conn.Conn().Close(working)
		}
	}()
	if err := recovered(run, newTx(working, begun)); err != nil {
		return err
	}
	committed = true
	return commit(begun)
}

// commit commits without a deadline: a client that stops waiting makes the server stop
// waiting for its standby, and then rows that others can see may be lost in a failover. A
// dead server is noticed by the connection's TCP timeouts.
func commit(begun pgx.Tx) error {
	state := stateOf(begun.Conn())
	state.beginCommit()
	return state.endCommit(begun.Commit(context.Background()))
}

// SQLSTATEs that the store acts on.
const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	// insufficientResources is a class: no memory, no disk space, no connection.
	insufficientResources = "53"
	readOnlyTransaction   = "25006"
)

func sqlState(err error) string {
	var failure *pgconn.PgError
	if errors.As(err, &failure) {
		return failure.Code
	}
	return ""
}

// isConflict reports whether the server rolled a transaction back because of a concurrent
// one.
func isConflict(err error) bool {
	code := sqlState(err)
	return code == serializationFailure || code == deadlockDetected
}

// readOnly reports whether the server has stopped being the primary.
func readOnly(err error) bool { return sqlState(err) == readOnlyTransaction }

// violates reports whether err is a violated unique constraint.
func violates(err error) bool { return sqlState(err) == uniqueViolation }
