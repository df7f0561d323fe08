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

// line is what is remembered of one connection.
type line struct {
	// primary is which of the servers that came one after the other it leads to.
	primary int64
	// open: a COMMIT was sent, and its answer has not come.
	open atomic.Bool
	// warning is what the server said against the last COMMIT.
	warning string
}

// lineKey is where a connection keeps its line.
const lineKey = "github.com/coaxhq/coax line"

func lineOf(conn *pgx.Conn) *line { return conn.PgConn().CustomData()[lineKey].(*line) }

// keepLine prepares a connection that is about to be made. When a connection
// breaks, pgx calls the server on another one to cancel whatever runs. That must
// not happen to a COMMIT: a server that is told to stop waiting for its standby
// shows everybody what the standby may not have.
func (db *DB) keepLine(_ context.Context, config *pgx.ConnConfig) error {
	l := &line{primary: db.primaries.Load()}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.open.Load() {
			return nil, errors.New("a COMMIT is never cancelled")
		}
		return dial(ctx, network, address)
	}
	config.AfterConnect = func(_ context.Context, conn *pgconn.PgConn) error {
		conn.CustomData()[lineKey] = l
		return nil
	}
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		if severity((*pgconn.PgError)(notice)) == "WARNING" {
			l.warning = notice.Message
		}
	}
	return nil
}

// severity is the word that is the same in every language, where there is one.
func severity(said *pgconn.PgError) string { return cmp.Or(said.SeverityUnlocalized, said.Severity) }

// committing says that a COMMIT is about to be sent.
func (l *line) committing() {
	l.open.Store(true)
	l.warning = ""
}

// committed judges the answer to a COMMIT. It tells a transaction that the server
// refused from one whose fate is not known: without the server's word it may have
// been carried out.
//
// A server that is told by somebody else to stop waiting for its standby carries
// the transaction out and warns: then it is here, and not sure to stay.
func (l *line) committed(err error) error {
	var failure *pgconn.PgError
	switch {
	case err == nil && l.warning == "":
		l.open.Store(false)
		return nil
	case err == nil:
		l.open.Store(false)
		return fmt.Errorf("%w: commit: the server warns: %s", operation.ErrAmbiguous, l.warning)
	case neverSent(err), errors.Is(err, pgx.ErrTxCommitRollback), errors.As(err, &failure) && severity(failure) == "ERROR":
		l.open.Store(false)
		return fmt.Errorf("commit: %w", err)
	}
	return fmt.Errorf("%w: commit: %w", operation.ErrAmbiguous, err)
}

// neverSent reports whether a COMMIT provably did not leave, nor what travels with
// it: statements that a connection does not know yet are prepared before any of
// them is sent. pgconn.SafeToRetry is not to be asked: of a simple query whose
// answer is cut off, pgx 5.11 says that the connection was closed, and that this
// was before anything was sent.
func neverSent(err error) bool {
	var preparing pgx.ErrPreprocessingBatch
	return errors.As(err, &preparing)
}
