package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// What reads or writes much of a large store is not in a migration, which locks its tables until it
// commits, but here: done by every node before it serves, beside nodes that serve. What an interrupted
// start has done is kept.

const (
	// fillSubscribers is how many subscribers one transaction adds to the index. It locks them.
	fillSubscribers = 100
	// buildLockTimeout limits how long a build waits for older transactions, such as an audit's.
	// Nobody waits behind it; but it starts anew afterwards.
	buildLockTimeout = "5min"
)

// retryLocks repeats a step of an upgrade that does not get its locks, after a pause. Two nodes that
// build an index wait for each other, and the server ends one of them.
func retryLocks(ctx context.Context, step func() error) error {
	for waits := 0; ; waits++ {
		err := step()
		if !lockTimedOut(err) && sqlState(err) != deadlockDetected || waits == migrateLockRetries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(migratePause):
		}
	}
}

// ledgerIndexes are the indexes of the ledger that later migrations would have made.
var ledgerIndexes = []struct{ name, create string }{
	{"ledger_reversals", `CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS ledger_reversals ON ledger (reversal_of) WHERE reversal_of IS NOT NULL`},
	// One receipt of 64, so that few settlements write here: the lines of the others follow.
	{"ledger_receipts", `CREATE INDEX CONCURRENTLY IF NOT EXISTS ledger_receipts ON ledger (operator_id, receipt) WHERE receipt % 64 = 1`},
}

// buildIndexes builds the indexes that are missing, or were left half-built by an interrupted start.
func (db *DB) buildIndexes(ctx context.Context, handle *sql.DB) error {
	for _, index := range ledgerIndexes {
		for built := false; !built; {
			err := retryLocks(ctx, func() (err error) {
				built, err = buildIndex(ctx, handle, index.name, index.create)
				return err
			})
			if err != nil {
				return fmt.Errorf("build index %s of %s: %w", index.name, db.where, err)
			}
		}
	}
	return nil
}

// buildIndex reports whether the index is complete; else it builds the index, unless another node
// does.
func buildIndex(ctx context.Context, handle *sql.DB, name, create string) (complete bool, err error) {
	err = handle.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass($1) AND indisvalid)`, name).Scan(&complete)
	if err != nil || complete {
		return complete, err
	}
	conn, err := handle.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	for _, statement := range []string{
		// A node that builds an index has this lock, so an index that is not valid is nobody's.
		`DO $$
		BEGIN
		    LOCK TABLE ledger IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
		    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('` + name + `') AND NOT indisvalid) THEN
		        DROP INDEX ` + name + `;
		    END IF;
		END
		$$`,
		`SET lock_timeout = '` + buildLockTimeout + `'`,
		create,
		`RESET lock_timeout`,
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			_, _ = conn.ExecContext(ctx, `RESET lock_timeout`)
			return false, err
		}
	}
	return false, nil
}

// fillSubscriberIndex adds the subscribers from before migration 27 to subscriber_terms and
// subscriber_lists. Several nodes may do so at once.
func (db *DB) fillSubscriberIndex(ctx context.Context, report func(text string)) error {
	const reportEvery = 10_000
	filled, more := 0, true
	for more {
		n := 0
		err := retryLocks(ctx, func() error {
			return db.do(ctx, func(tx *tx) (err error) {
				n, more, err = fillNext(tx)
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("fill the index of subscribers of %s: %w", db.where, err)
		}
		if filled += n; report != nil && filled/reportEvery > (filled-n)/reportEvery {
			report(fmt.Sprintf("%d subscribers have been added to the index", filled))
		}
	}
	return nil
}

// fillNext adds the next subscribers. They are locked, so that nobody changes or forgets them until
// what was read of them is written.
func fillNext(tx *tx) (filled int, more bool, err error) {
	var after string
	err = tx.QueryRow(`SELECT after_id FROM unfilled WHERE name = 'subscriber index' FOR UPDATE`).Scan(&after)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	rows, err := tx.Query(`SELECT id FROM subscribers WHERE id > $1 ORDER BY id LIMIT $2 FOR NO KEY UPDATE`, after, fillSubscribers)
	ids, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (id string, err error) { return id, row.Scan(&id) })
	if err != nil {
		return 0, false, err
	}
	batch := &pgx.Batch{}
	if len(ids) == 0 {
		batch.Queue(`DELETE FROM unfilled WHERE name = 'subscriber index'`)
		return 0, false, tx.send(batch)
	}
	// Those without a number were forgotten, or released by a deleted operator.
	batch.Queue(`
		INSERT INTO subscriber_terms (operator_id, kind, term, subscriber_id)
		SELECT s.operator_id, t.kind, t.term, s.id FROM subscribers s, terms_of(s) AS t
		 WHERE s.id = ANY ($1::text[]) AND length(s.mobile) = 10
		    ON CONFLICT DO NOTHING`, ids)
	batch.Queue(`
		INSERT INTO subscriber_lists (operator_id, list, value, name, subscriber_id)
		SELECT s.operator_id, 'plan', c.plan_id, lower(s.name COLLATE "C"), s.id FROM subscribers s JOIN cycles c ON c.subscriber_id = s.id
		 WHERE s.id = ANY ($1::text[])
		    ON CONFLICT DO NOTHING`, ids)
	batch.Queue(`UPDATE unfilled SET after_id = $1 WHERE name = 'subscriber index'`, ids[len(ids)-1])
	return len(ids), true, tx.send(batch)
}
