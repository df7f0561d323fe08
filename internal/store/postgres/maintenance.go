package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// maintenanceRow returns no row unless maintenance mode is on. FOR SHARE locks the table
// in ROW SHARE mode until the commit, with or without rows, so that a transaction that
// switches the mode on waits for this one. Nothing is written, and readers do not wait for
// each other.
const maintenanceRow = `SELECT FROM maintenance WHERE one = 1 FOR SHARE`

// lockMaintenance waits for the transactions that have read maintenanceRow, and keeps
// further ones out until the commit. Plain reads, such as those of a dump, go on.
// The lock timeout is longer than that of other writes: with short waits and retries, it
// would lose its place in the lock queue to the reservations of a slow server every time.
func lockMaintenance(tx sqlstore.Tx) error {
	_, err := tx.Exec(`SET LOCAL lock_timeout = '5s'`)
	if err == nil {
		_, err = tx.Exec(`LOCK TABLE maintenance IN EXCLUSIVE MODE`)
	}
	return err
}

// guardMaintenance adds a statement that fails in maintenance mode, and keeps the mode off
// until the commit.
func guardMaintenance(batch *pgx.Batch) {
	batch.Queue(`SELECT 1 / (count(*) = 0)::int FROM (` + maintenanceRow + `) AS maintenance`)
}
