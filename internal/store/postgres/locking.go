package postgres

import "github.com/jackc/pgx/v5"

// A batch changes many rows of a kind in one statement, in whatever order the
// server likes. Two batches that each wait for a row of the other would both stand
// still, so rows of which a batch has several are locked beforehand, in the order
// of their keys. A batch of one needs that not.

func lockSubscribers(batch *pgx.Batch, ids []string) {
	if len(ids) > 1 {
		batch.Queue(`SELECT FROM subscribers WHERE id = ANY ($1::text[]) ORDER BY id FOR NO KEY UPDATE`, ids)
	}
}

func lockWallets(batch *pgx.Batch, operators []int64) {
	if len(operators) > 1 {
		batch.Queue(`SELECT FROM wallets WHERE operator_id = ANY ($1::bigint[]) ORDER BY operator_id FOR NO KEY UPDATE`, operators)
	}
}
