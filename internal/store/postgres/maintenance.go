package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// maintenanceRow returns no row unless maintenance mode is on. FOR SHARE locks the table
// in ROW SHARE mode until the commit, rows or none, so that whoever switches the mode on
// waits for this transaction. Nothing is written, and readers do not wait for each other.
const maintenanceRow = `SELECT FROM maintenance WHERE one = 1 FOR SHARE`

// lockMaintenance waits for the transactions that have read maintenanceRow, and keeps
// further ones out until the commit. Plain reads, such as those of a dump, go on.
// Retried after short waits like other writes, it would lose its place to the
// reservations of a slow server again and again.
func lockMaintenance(tx sqlstore.Tx) error {
	_, err := tx.Exec(`SET LOCAL lock_timeout = '5s'`)
	if err == nil {
		_, err = tx.Exec(`LOCK TABLE maintenance IN EXCLUSIVE MODE`)
	}
	return err
}

// guardMaintenance holds if maintenance mode is off, and keeps it off until the commit.
func guardMaintenance(batch *pgx.Batch) {
	batch.Queue(`SELECT 1 / (count(*) = 0)::int FROM (` + maintenanceRow + `) AS maintenance`)
}
