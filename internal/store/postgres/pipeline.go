package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coaxhq/coax/internal/failpoint"
)

// pipe is a transaction whose statements are sent together, so that a write takes one or
// two round trips for any number of rows: the first batch has the BEGIN, the last one the
// COMMIT.
//
// The client cannot stop statements that were sent with the COMMIT. So their conditions are
// checked on the server: by a constraint, or by guarded.
//
// The querier reads between batches, in a round trip of its own.
type pipe struct {
	querier
	conn        *pgxpool.Conn
	lockTimeout time.Duration
	begun       bool
	done        bool
}

// guarded makes a query fail, and so rolls back the transaction, unless it returns a row
// for every element of its first parameter, an array. Dividing by zero is the only way to
// raise an error in plain SQL; see docs/decisions/0038-division-guards.md.
func guarded(query string) string {
	return `SELECT 1 / (count(*) = cardinality($1))::int FROM (` + query + `) AS guarded`
}

const divisionByZero = "22012"

// guardFailed reports whether err is a failed guard or a unique violation.
func guardFailed(err error) bool { return sqlState(err) == divisionByZero || violates(err) }

// pipelined runs a write in a transaction that waits at most lockTimeout for any lock.
// It may call run several times.
func (db *DB) pipelined(ctx context.Context, lockTimeout time.Duration, run func(*pipe) error) error {
	return db.repeat(ctx, func(conn *pgxpool.Conn) error {
		p := &pipe{querier: querier{context.Background(), conn}, conn: conn, lockTimeout: lockTimeout}
		err := recovered(run, p)
		if !p.done || err != nil {
			p.abandon()
		}
		return err
	})
}

// pipelinedAlone is pipelined for a write that is not batched, and waits for locks like do.
func (db *DB) pipelinedAlone(ctx context.Context, run func(*pipe) error) error {
	return db.locks.retryLocked(ctx, func() error { return db.pipelined(ctx, db.locks.solo, run) })
}

// send sends a batch and reads its results.
func (p *pipe) send(batch *pgx.Batch) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	return p.conn.SendBatch(ctx, p.withBegin(batch)).Close()
}

// commitAt is commit for a write with a failpoint between its rows and the COMMIT. If
// failpoints are built in, the two are sent separately.
func (p *pipe) commitAt(batch *pgx.Batch, hit func() error) error {
	if !failpoint.Enabled {
		return p.commit(batch)
	}
	if err := p.send(batch); err != nil {
		return err
	}
	if err := hit(); err != nil {
		return err
	}
	return p.commit(&pgx.Batch{})
}

// commit sends the last batch, followed by the COMMIT. It has no deadline; see
// the function commit.
func (p *pipe) commit(batch *pgx.Batch) error {
	sending := p.withBegin(batch)
	sending.Queue(`commit`).Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	state := stateOf(p.conn.Conn())
	state.beginCommit()
	err := p.conn.SendBatch(context.Background(), sending).Close()
	p.done = err == nil
	return state.endCommit(err)
}

// withBegin puts the BEGIN before the first batch.
func (p *pipe) withBegin(batch *pgx.Batch) *pgx.Batch {
	if p.begun {
		return batch
	}
	p.begun = true
	sending := &pgx.Batch{}
	sending.Queue(`begin`)
	sending.Queue(setLockTimeout(p.lockTimeout))
	sending.QueuedQueries = append(sending.QueuedQueries, batch.QueuedQueries...)
	return sending
}

// abandon rolls the transaction back. The server does so itself for a closed connection.
func (p *pipe) abandon() {
	if p.conn.Conn().IsClosed() || p.conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	if _, err := p.conn.Exec(ctx, `rollback`); err != nil {
		_ = p.conn.Conn().Close(ctx)
	}
}
