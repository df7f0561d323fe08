package sqlite

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/coaxhq/coax/internal/store/storetest"
)

func TestReferences_OldStoreIsFilledIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	storetest.OldReferences(t, folder(dir), func(statement string) { rawExec(t, filepath.Join(dir, "coax.db"), statement) })
	db := open(t, filepath.Join(dir, "coax.db"), Options{})
	for query, want := range map[string]int{
		`SELECT count(*) FROM credited_references WHERE normalised = 'neft1' AND filled = 1`:         3,
		`SELECT operator_id FROM credited_references WHERE normalised = 'neft1' AND copy = 0`:        2,
		`SELECT count(*) FROM credited_references WHERE normalised = '' AND filled = 1`:              1,
		`SELECT count(*) FROM credited_references WHERE way = 'adjust' AND normalised = 'r1'`:        2,
		`SELECT count(*) FROM credited_references WHERE filled = 0`:                                  1,
		`SELECT count(*) FROM proposals WHERE kind = 'topup' AND reference_key IS NOT NULL`:          2,
		`SELECT count(*) FROM credited_references`:                                                   7,
		`SELECT count(*) FROM wallet_entries WHERE kind = 'topup' AND reference IN ('NEFT-1', '--')`: 3,
	} {
		if got := count(t, db, query); got != want {
			t.Errorf("%s is %d; want %d", query, got, want)
		}
	}
}

func rawExec(t testing.TB, path, statement string, args ...any) {
	t.Helper()
	pool, err := sql.Open("sqlite", address(path))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Opening a store with very many older references takes no longer than a start may.
func BenchmarkFillReferences(b *testing.B) {
	for range b.N {
		b.StopTimer()
		path := filepath.Join(b.TempDir(), "coax.db")
		if err := open(b, path, Options{}).Close(); err != nil {
			b.Fatal(err)
		}
		rawExec(b, path, `PRAGMA foreign_keys = 0`)
		rawExec(b, path, `
			INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, reference, actor, created_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
			SELECT 1 + i % 50, 1 + i / 50, 'topup', 100, 100, 'NEFT-2026/' || i, 'cli:asha', i FROM n`)
		b.StartTimer()
		db := open(b, path, Options{})
		b.StopTimer()
		if got := count(b, db, `SELECT count(*) FROM credited_references`); got != 100_000 {
			b.Fatal(fmt.Sprint(got, " references are filled in"))
		}
	}
}
