package sqlite

import (
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/coaxhq/coax/internal/store/storetest"
)

// beforeContacts is the last migration before contact data, lists and receipts.
const beforeContacts = 29

// oldStore makes a store as the release before contact data left it, and returns its path.
func oldStore(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "coax.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pool, err := sql.Open("sqlite", address(path)+"&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool, folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), beforeContacts); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUpgrade_IndexesEarlierSubscribers(t *testing.T) {
	t.Parallel()
	path := oldStore(t)
	storetest.SubscriberIndex(t, folder(filepath.Dir(path)), func(statement string) { rawExec(t, path, statement) }, func(query string) (all []string) {
		pool, err := sql.Open("sqlite", address(path))
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		rows, err := pool.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
		return all
	})
}

// Opening a large store of the release before.
func BenchmarkUpgrade(b *testing.B) {
	for range b.N {
		b.StopTimer()
		path := oldStore(b)
		for _, statement := range []string{
			`INSERT INTO operators (id, name, status, api, rate_limit, commission_bps, low_balance_paise, created_at) ` + upTo50 + `
			 SELECT i, 'shop', 'active', 'enabled', 60, 0, 0, 0 FROM n`,
			`INSERT INTO provider_components VALUES ('TV', 'TV', 'main', 1, 0)`,
			`INSERT INTO plans (id, name, description, type, main, months, price_paise, updated_at) ` + upTo50 + `
			 SELECT 'PLAN-' || (i - 1), 'Plan', '', 'standard', 'TV', 1, 19900, 0 FROM n WHERE i <= 6`,
			`INSERT INTO subscribers (id, operator_id, mobile, name, address, connection_type, expires_at, activated_at, created_at) ` + upTo(100_000) + `
			 SELECT 100000 + i, 1 + i % 50, 9000000000 + i, 'Asha Sharma ' || i, 'Flat ' || i % 90 || ', Lane 5, Whitefield', 'Live TV', 0, 0, 0 FROM n`,
			`INSERT INTO cycles (subscriber_id, seq, plan_id, starts_at, ends_at, created_at)
			 SELECT s.id, q.seq, 'PLAN-' || ((s.id + q.seq) % 6), 0, 0, 0 FROM subscribers s, (SELECT 1 AS seq UNION ALL SELECT 2 UNION ALL SELECT 3) q`,
			`INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, created_at) ` + upTo(1_000_000) + `
			 SELECT 1 + i % 50, 1 + i / 50, 'credit', 1, 1, 'top-up', 0 FROM n`,
		} {
			rawExec(b, path, statement)
		}
		b.StartTimer()
		began := time.Now()
		db := open(b, path, Options{})
		b.StopTimer()
		b.Logf("opened after %s", time.Since(began))
		if got := count(b, db, `SELECT count(*) FROM subscriber_lists`); got != 300_000 {
			b.Errorf("%d subscribers of plans; want three for each", got)
		}
	}
}

func upTo(to int) string {
	return fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)`, to)
}

var upTo50 = upTo(50)
