package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coaxhq/coax/internal/operation"
)

// Rows of one operator may be locked for long: by a node that hangs in a transaction, or
// by a person with psql. Other operators must not wait for that. So a write waits for a
// lock only briefly on the server, where it blocks a connection and the other items of
// its transaction; it is rolled back and tried again, until lock_timeout has passed. Every
// try after the first one takes a slot, and there are fewer slots than connections.

// How long one try waits for a lock.
const (
	// sharedLockTimeout is for a batch of several operators: longer than a commit of
	// another node locks the same rows.
	sharedLockTimeout = 250 * time.Millisecond
	// probeLockTimeout is for the first try of an operator whose items left a shared
	// batch. Most operators of such a batch were not blocked.
	probeLockTimeout = 20 * time.Millisecond
	// soloLockTimeout is for every other try.
	soloLockTimeout = 100 * time.Millisecond
)

// lockWaits limits how long writes wait for locks, and on how many connections.
type lockWaits struct {
	shared, probe, solo time.Duration
	// total is lock_timeout, from the address or the server; 0 for no limit.
	total time.Duration
	// queues are the slots of the operators' queues, direct those of writes that are
	// not batched.
	queues, direct chan struct{}
}

func newLockWaits(connections int32) *lockWaits {
	slots := max(1, int(connections)/4)
	return &lockWaits{
		shared: sharedLockTimeout, probe: probeLockTimeout, solo: soloLockTimeout,
		queues: make(chan struct{}, slots), direct: make(chan struct{}, slots),
	}
}

// readTotal reads lock_timeout from the server.
func (w *lockWaits) readTotal(ctx context.Context, db *DB) error {
	var millis int64
	err := db.pool.QueryRow(ctx, `SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'`).Scan(&millis)
	if err != nil {
		return fmt.Errorf("read lock_timeout of %s: %w", db.where, err)
	}
	w.total = time.Duration(millis) * time.Millisecond
	return nil
}

// retryLocked retries a write that is not batched until it gets its locks, lock_timeout has
// passed, or ctx is done.
func (w *lockWaits) retryLocked(ctx context.Context, write func() error) error {
	err := write()
	if lockTimedOut(err) && w.total > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.total)
		defer cancel()
	}
	for lockTimedOut(err) && ctx.Err() == nil {
		select {
		case w.direct <- struct{}{}:
			err = write()
			<-w.direct
		case <-ctx.Done():
		}
	}
	return transient(err)
}

// setLockTimeout returns the statement that limits a transaction's lock waits.
func setLockTimeout(timeout time.Duration) string {
	return fmt.Sprintf(`SET LOCAL lock_timeout = %d`, timeout.Milliseconds())
}

// lockTimedOut reports whether the server rolled a transaction back because it waited
// for a lock.
func lockTimedOut(err error) bool { return sqlState(err) == lockNotAvailable }

// transient marks an error as operation.ErrUnavailable if the server has certainly rolled
// the write back, or never got its COMMIT, and a retry may succeed.
func transient(err error) error {
	if err == nil || errors.Is(err, operation.ErrCommitUnknown) || errors.Is(err, operation.ErrUnavailable) {
		return err
	}
	switch code := sqlState(err); {
	case code == lockNotAvailable, code == queryCanceled, isConflict(err), strings.HasPrefix(code, insufficientResources), pgconn.Timeout(err):
		return fmt.Errorf("%w: %w", operation.ErrUnavailable, err)
	}
	return err
}
