package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// pipe is a transaction whose statements travel together, so that a fact costs
// one or two round trips however many rows it writes: the first batch carries
// the BEGIN, the last one the COMMIT.
//
// What is sent with the COMMIT cannot be called back. So whatever must hold for
// it to happen has to stop the server itself: a constraint, or guarded.
type pipe struct {
	conn        *pgxpool.Conn
	lockTimeout time.Duration
	begun       bool
	done        bool
}

// guarded makes a query fail that does not return a row for every element of its
// first parameter, an array; that undoes the transaction. Dividing by zero is the
// one way to say so in plain SQL.
func guarded(query string) string {
	return `SELECT 1 / (count(*) = cardinality($1))::int FROM (` + query + `) AS guarded`
}

const divisionByZero = "22012"

// moved reports whether err is a guard that did not hold.
func moved(err error) bool { return sqlState(err) == divisionByZero || violates(err) }

// pipelined makes a fact true, in a transaction that waits for no lock longer than it
// is told. The fact may run several times, each from the beginning.
func (db *DB) pipelined(ctx context.Context, lockTimeout time.Duration, run func(*pipe) error) error {
	return db.repeat(ctx, func(conn *pgxpool.Conn) error {
		p := &pipe{conn: conn, lockTimeout: lockTimeout}
		err := contained(run, p)
		if !p.done || err != nil {
			p.abandon()
		}
		return err
	})
}

// pipelinedAlone is pipelined for a fact that shares its transaction with no other,
// and waits for locks like do.
func (db *DB) pipelinedAlone(ctx context.Context, run func(*pipe) error) error {
	return db.locks.persevere(ctx, func() error { return db.pipelined(ctx, db.locks.solo, run) })
}

// send sends a batch and waits for its answers.
func (p *pipe) send(batch *pgx.Batch) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	return p.conn.SendBatch(ctx, p.opened(batch)).Close()
}

// queryRow reads one row in between, where it is seldom needed; sql.ErrNoRows if
// there is none.
func (p *pipe) QueryRow(query string, args ...any) sqlstore.Row {
	return p.conn.QueryRow(context.Background(), query, args...)
}

// query reads several rows in between, which the caller closes.
func (p *pipe) Query(query string, args ...any) (sqlstore.Rows, error) {
	return p.conn.Query(context.Background(), query, args...)
}

// commitAt is commit for a fact that has a crash point inside its transaction.
// That is a place between the rows and the COMMIT, so where places can break, the
// two travel apart.
func (p *pipe) commitAt(batch *pgx.Batch, place func() error) error {
	if !failpoint.Enabled {
		return p.commit(batch)
	}
	if err := p.send(batch); err != nil {
		return err
	}
	if err := place(); err != nil {
		return err
	}
	return p.commit(&pgx.Batch{})
}

// commit sends the last batch, with the COMMIT behind it. It has no deadline; see
// the function commit.
func (p *pipe) commit(batch *pgx.Batch) error {
	sending := p.opened(batch)
	sending.Queue(`commit`).Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	line := lineOf(p.conn.Conn())
	line.committing()
	err := p.conn.SendBatch(context.Background(), sending).Close()
	p.done = err == nil
	return line.committed(err)
}

func (p *pipe) opened(batch *pgx.Batch) *pgx.Batch {
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

// abandon undoes what was begun. The server undoes what a closed connection had
// begun.
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
