package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

const maxReads = 128

// newReads returns a batcher of reads. A batch is one statement, which starts after all its
// callers have asked; a statement for each request costs the server several times as much.
func newReads[Request, Result any](db *DB, operator func(Request) int64, read func(from sqlstore.Querier, batch []*item[Request, Result]) error) *batcher[Request, Result] {
	return newBatcher(batcherOptions[Request, Result]{
		maxItems: maxReads, locks: db.locks, discardable: true, // a read has no effect
		operator: operator,
		// A read waits for no row lock, only for a migration that locks the table. Its items are
		// not separated then: each would wait as long again, in a slot that writes need.
		run: func(batch []*item[Request, Result], _ time.Duration) error {
			err := db.repeat(context.Background(), func(conn *pgxpool.Conn) error {
				working, cancel := context.WithTimeout(context.Background(), statementTimeout)
				defer cancel()
				return recovered(func(from sqlstore.Querier) error { return read(from, batch) }, sqlstore.Querier(querier{working, conn}))
			})
			if lockTimedOut(err) {
				err = fmt.Errorf("%w: %v", operation.ErrUnavailable, err)
			}
			return err
		},
	})
}

// openReads starts the batchers of reads.
func (db *DB) openReads() {
	db.snapshots = newReads(db, snapshotOperator, readSnapshots)
	db.wallets = newReads(db, func(id int64) int64 { return id }, readWallets)
	db.subscriptions = newReads(db, func(q subscriptionQuery) int64 { return q.operatorID }, readSubscriptions)
	db.transactions = newReads(db, func(q transactionQuery) int64 { return q.operatorID }, readTransactions)
}
