package baseline

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"
)

// What the baseline writes is what a renewal leaves: each table has its row for
// each operation, and the money adds up.
func TestRawSQLite_WritesAllRowsOfARenewal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raw.db")
	raw, err := OpenRawSQLite(t.Context(), path, 10, 100)
	if err != nil {
		t.Fatal(err)
	}
	// Twice round all subscribers, so that each has a second renewal.
	var operations int
	for operations < 2*100 {
		done, _, err := raw.Run(t.Context(), time.Nanosecond)
		if err != nil {
			t.Fatal(err)
		}
		operations += done
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for query, want := range map[string]int{
		`SELECT count(*) FROM operations WHERE status = 'success'`:                        operations,
		`SELECT count(*) FROM operation_events`:                                           2 * operations,
		`SELECT count(*) FROM wallet_entries`:                                             operations,
		`SELECT count(*) FROM ledger`:                                                     operations,
		`SELECT count(*) FROM commissions`:                                                operations,
		`SELECT count(*) FROM provider_calls`:                                             operations,
		`SELECT count(*) FROM cycles WHERE operation_id IS NOT NULL`:                      operations,
		`SELECT sum(version - 1) FROM subscribers`:                                        operations,
		`SELECT sum((1 << 50) - ledger_paise) / 19900 FROM wallets`:                       operations,
		`SELECT count(*) FROM wallets WHERE ledger_paise = balance_paise AND entries > 1`: 10,
	} {
		var got int
		if err := db.QueryRow(query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d (%v); want %d", query, got, err, want)
		}
	}
}
