package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coaxhq/coax/internal/operation"
)

// connState is the state of one connection.
type connState struct {
	// primary is the number of the primary that it is connected to; see DB.primaries.
	primary int64
	// committing: a COMMIT was sent and has no reply yet.
	committing atomic.Bool
	// warning is the server's warning about the last COMMIT.
	warning string
	// written counts the store's commits; see DB.Written.
	written *atomic.Uint64
}

// connStateKey is the key of a connection's state in its custom data.
const connStateKey = "github.com/coaxhq/coax connection state"

func stateOf(conn *pgx.Conn) *connState { return conn.PgConn().CustomData()[connStateKey].(*connState) }

// prepareConn configures a connection before it is made. When a connection breaks, pgx
// opens another one to cancel the running statement. That must not happen to a COMMIT: a
// server that stops waiting for its standby makes the rows visible although the standby
// may not have them.
func (db *DB) prepareConn(_ context.Context, config *pgx.ConnConfig) error {
	c := &connState{primary: db.primaries.Load(), written: &db.written}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if c.committing.Load() {
			return nil, errors.New("a COMMIT is never cancelled")
		}
		return dial(ctx, network, address)
	}
	config.AfterConnect = func(_ context.Context, conn *pgconn.PgConn) error {
		conn.CustomData()[connStateKey] = c
		return nil
	}
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		if severity((*pgconn.PgError)(notice)) == "WARNING" {
			c.warning = notice.Message
		}
	}
	return nil
}

// severity returns the untranslated severity, if the server sends one.
func severity(err *pgconn.PgError) string { return cmp.Or(err.SeverityUnlocalized, err.Severity) }

// beginCommit is called before a COMMIT is sent.
func (c *connState) beginCommit() {
	c.committing.Store(true)
	c.warning = ""
}

// endCommit classifies the result of a COMMIT: committed, refused by the server, or
// unknown. Without a reply the transaction may have been committed.
//
// A server that is cancelled while it waits for its standby commits with a warning: the
// rows are visible, but a failover may lose them.
func (c *connState) endCommit(err error) error {
	var failure *pgconn.PgError
	switch {
	case err == nil && c.warning == "":
		c.committing.Store(false)
		c.written.Add(1)
		return nil
	case err == nil:
		c.committing.Store(false)
		c.written.Add(1)
		return fmt.Errorf("%w: commit: the server warns: %s", operation.ErrCommitUnknown, c.warning)
	case neverSent(err), errors.Is(err, pgx.ErrTxCommitRollback), errors.As(err, &failure) && severity(failure) == "ERROR":
		c.committing.Store(false)
		return fmt.Errorf("commit: %w", err)
	}
	c.written.Add(1)
	return fmt.Errorf("%w: commit: %w", operation.ErrCommitUnknown, err)
}

// neverSent reports whether a COMMIT and its batch were certainly not sent: statements
// that a connection does not know yet are prepared before any of them is sent.
// pgconn.SafeToRetry cannot be used: for a simple query whose reply is cut off, pgx 5.11
// reports that the connection was closed before anything was sent.
func neverSent(err error) bool {
	var preparing pgx.ErrPreprocessingBatch
	return errors.As(err, &preparing)
}
