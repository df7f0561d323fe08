package postgres

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A batch changes many rows of a kind in one statement. Two batches that each wait
// for a row of the other would both stand still, so such a statement is given its
// rows in the order of their keys, and the server takes them as they come: it goes
// through the arrays and looks up one row after the other. The tests of plans see to
// it that it does. If it does not after all, it notices the circle and undoes one of
// the batches, which is repeated.

// bySubscriber are facts in the order that their subscribers are locked in.
func bySubscriber[Fact any](all []Fact, of func(Fact) (subscriberID string)) []Fact {
	return slices.SortedFunc(slices.Values(all), func(a, b Fact) int { return cmp.Compare(of(a), of(b)) })
}

// lockCustomers locks beforehand what several statements of a batch change, each
// some of it.
func lockCustomers(batch *pgx.Batch, subscribers []string) {
	batch.Queue(`SELECT FROM subscribers WHERE id = ANY ($1::text[]) ORDER BY id FOR NO KEY UPDATE`, subscribers)
}

// lockWallets is lockCustomers for wallets.
func lockWallets(batch *pgx.Batch, operators []int64) {
	batch.Queue(`SELECT FROM wallets WHERE operator_id = ANY ($1::bigint[]) ORDER BY operator_id FOR NO KEY UPDATE`, operators)
}
