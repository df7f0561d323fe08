package postgres

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A batch updates many rows of a table in one statement. To avoid deadlocks between
// batches, such a statement gets its rows in the order of their keys, and the server locks
// them in that order: it goes through the arrays and looks up one row after the other. The
// tests of query plans check that. If a deadlock happens nevertheless, the server
// detects it, and one of the batches is retried.

// bySubscriber sorts items in the order in which their subscribers are locked.
func bySubscriber[Item any](all []Item, of func(Item) (subscriberID string)) []Item {
	return slices.SortedFunc(slices.Values(all), func(a, b Item) int { return cmp.Compare(of(a), of(b)) })
}

// lockSubscribers locks the subscribers that several statements of a batch update.
func lockSubscribers(batch *pgx.Batch, subscribers []string) {
	batch.Queue(`SELECT FROM subscribers WHERE id = ANY ($1::text[]) ORDER BY id FOR NO KEY UPDATE`, subscribers)
}

// lockWallets is lockSubscribers for wallets.
func lockWallets(batch *pgx.Batch, operators []int64) {
	batch.Queue(`SELECT FROM wallets WHERE operator_id = ANY ($1::bigint[]) ORDER BY operator_id FOR NO KEY UPDATE`, operators)
}
