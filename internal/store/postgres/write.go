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

// factTries is how often a fact is tried that the server undid for the sake of
// another one, or whose connection turned out to lead nowhere.
const factTries = 10

// do makes a fact true, in a transaction of its own. It returns when the fact is
// durable, was refused, or failed; the caller's hanging up counts only until a
// connection is there. The fact may run several times, each from the beginning.
func (db *DB) do(ctx context.Context, run func(*tx) error) error {
	var acts []admin.AuditEntry
	err := db.locks.persevere(ctx, func() error {
		return db.repeat(ctx, func(conn *pgxpool.Conn) error {
			return try(ctx, conn, db.locks.solo, func(tx *tx) error {
				tx.keys = db.keys.Load()
				err := run(tx)
				acts = tx.acts
				return err
			})
		})
	})
	if err == nil && db.acted != nil {
		for _, act := range acts {
			db.acted(ctx, act)
		}
	}
	return err
}

// repeat carries a fact out on one connection after another, until it is done or
// there is no sense in going on.
func (db *DB) repeat(ctx context.Context, try func(*pgxpool.Conn) error) error {
	for tries := 1; ; tries++ {
		conn, err := db.acquire(ctx)
		if err != nil {
			return err
		}
		err = try(conn)
		lost := err != nil && db.lost(conn, err)
		conn.Release()
		if err == nil || errors.Is(err, operation.ErrAmbiguous) || !lost && !undone(err) {
			return err
		}
		if tries == factTries {
			if lost {
				err = fmt.Errorf("%w: %w", operation.ErrUnavailable, err)
			}
			return err
		}
	}
}

// acquire takes a connection to the primary. That there is none is an answer:
// who waits for one in a queue keeps those behind from being told.
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
	return nil, fmt.Errorf("reach the store: %w", err)
}

// lost reports whether a fact failed because its connection leads to no primary
// any more. Then the others that were made to that server do not either, and are
// let go before somebody meets each of them.
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
	if to := lineOf(conn.Conn()).primary; db.primaries.CompareAndSwap(to, to+1) {
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
		// The server undoes what a closed connection had begun.
		if !committed && begun.Rollback(working) != nil {
			_ = conn.Conn().Close(working)
		}
	}()
	if err := contained(run, &tx{ctx: working, begun: begun}); err != nil {
		return err
	}
	committed = true
	return commit(begun)
}

// commit ends a transaction without a deadline: a client that stops waiting makes
// the server stop waiting for the standby, and then what others can see may be
// gone after a failover. That a dead server is noticed is the connection's
// business.
func commit(begun pgx.Tx) error {
	line := lineOf(begun.Conn())
	line.committing()
	return line.committed(begun.Commit(context.Background()))
}

// SQLSTATEs that the store acts on.
const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	// insufficientResources is a class: no memory, no room on the disk, no connection.
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

// undone reports whether the server gave up a fact in favour of another one.
func undone(err error) bool {
	code := sqlState(err)
	return code == serializationFailure || code == deadlockDetected
}

// readOnly reports whether the server has stopped being the primary.
func readOnly(err error) bool { return sqlState(err) == readOnlyTransaction }

// violates reports whether err is a broken uniqueness rule.
func violates(err error) bool { return sqlState(err) == uniqueViolation }
