package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// maintenanceRow returns no row unless maintenance mode is on. FOR SHARE locks the table
// in ROW SHARE mode until the commit, with or without rows, so that a transaction that
// switches the mode on waits for this one. Nothing is written, and readers do not wait for
// each other.
const maintenanceRow = `SELECT FROM maintenance WHERE one = 1 FOR SHARE`

// lockMaintenance waits for the transactions that have read maintenanceRow, and blocks
// further ones until the commit. Plain reads, such as those of a dump, are not blocked.
// The lock timeout is longer than that of other writes: every retry goes to the end of the
// server's lock queue, behind the reservations, and on a slow server might never succeed.
func lockMaintenance(tx sqlstore.Tx) error {
	_, err := tx.Exec(`SET LOCAL lock_timeout = '5s'`)
	if err == nil {
		_, err = tx.Exec(`LOCK TABLE maintenance IN EXCLUSIVE MODE`)
	}
	return err
}

// guardMaintenance adds a statement that fails in maintenance mode, or if an operation was
// adopted under a draft's key, and prevents the mode from being switched on before the commit.
func guardMaintenance(batch *pgx.Batch, drafts []*operation.Draft) {
	var operators []int64
	var keys []string
	for _, d := range drafts {
		for _, key := range d.AdoptedKeys {
			operators, keys = append(operators, d.OperatorID), append(keys, key)
		}
	}
	batch.Queue(`
		SELECT 1 / (count(*) = 0 AND NOT EXISTS (
		         SELECT FROM unnest($1::bigint[], $2::text[]) AS v (operator_id, key)
		           JOIN operations a ON a.operator_id = v.operator_id AND a.idempotency_key = v.key COLLATE "C"
		          WHERE a.carried_out_at IS NOT NULL))::int
		  FROM (`+maintenanceRow+`) AS maintenance`, operators, keys)
}
