package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/store/storetest"
)

// beforeContacts is the last migration before contact data, lists and receipts.
const beforeContacts = 24

// oldStore makes a store as the release before contact data left it.
func oldStore(t testing.TB) (address string) {
	t.Helper()
	address = pgtest.NewDatabase(t)
	migrateOnly(t, address, beforeContacts)
	return address
}

// migrateOnly applies migrations, and nothing that a node does after them.
func migrateOnly(t testing.TB, address string, last int64) {
	t.Helper()
	config, err := readAddress(address)
	ok(t, err)
	handle := stdlib.OpenDB(*config.ConnConfig)
	defer handle.Close()
	provider, err := newProvider(handle)
	ok(t, err)
	_, err = provider.UpTo(t.Context(), last)
	ok(t, err)
}

// fillOldStore adds subscribers with three cycles each, and lines of the ledger.
func fillOldStore(t testing.TB, conn *pgx.Conn, subscribers, lines int) {
	t.Helper()
	exec(t, conn, `INSERT INTO operators (name, status, api, rate_limit, commission_bps, low_balance_paise, created_at)
		SELECT 'shop ' || n, 'active', 'enabled', 60, 0, 0, 0 FROM generate_series(1, 50) n`)
	exec(t, conn, `INSERT INTO provider_components VALUES ('TV', 'TV', 'main', 1, 0)`)
	exec(t, conn, `INSERT INTO plans (id, name, description, type, main, months, price_paise, updated_at)
		SELECT 'PLAN-' || n, 'Plan ' || n, '', 'standard', 'TV', 1, 19900, 0 FROM generate_series(0, 5) n`)
	exec(t, conn, `INSERT INTO subscribers (id, operator_id, mobile, name, address, connection_type, expires_at, activated_at, created_at)
		SELECT (100000 + n)::text, 1 + n % 50, (9000000000 + n)::text, 'Asha Sharma ' || n, 'Flat ' || n % 90 || ', Lane 5, Whitefield', 'Live TV', 0, 0, 0
		  FROM generate_series(1, $1::bigint) n`, subscribers)
	exec(t, conn, `INSERT INTO cycles SELECT (100000 + n)::text, seq, NULL, 'PLAN-' || (n + seq) % 6, 0, 0, 0
		  FROM generate_series(1, $1::bigint) n, generate_series(1, 3) seq`, subscribers)
	exec(t, conn, `INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, created_at)
		SELECT 1 + n % 50, 1 + n / 50, 'credit', 1, 1, 'top-up', 0 FROM generate_series(0, $1::bigint - 1) n`, lines)
	exec(t, conn, `ANALYZE`)
}

func TestUpgrade_IndexesEarlierSubscribers(t *testing.T) {
	t.Parallel()
	address := oldStore(t)
	conn := raw(t, address)
	storetest.SubscriberIndex(t, place(address), func(statement string) { exec(t, conn, statement) }, func(query string) []string {
		rows, err := conn.Query(t.Context(), query)
		all, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (text string, err error) { return text, row.Scan(&text) })
		ok(t, err)
		return all
	})
}

// An interrupted start keeps what it has filled in. A subscriber who is forgotten while two nodes fill
// in the rest is not written back.
func TestUpgrade_InterruptedFillGoesOn(t *testing.T) {
	t.Parallel()
	const subscribers, forgotten = 5*fillSubscribers/2 + 7, "100210"
	address := oldStore(t)
	conn, watch := raw(t, address), raw(t, address)
	fillOldStore(t, conn, subscribers, 100)
	newest, err := NewestMigration()
	ok(t, err)
	migrateOnly(t, address, newest)
	forgetting, err := conn.Begin(t.Context())
	ok(t, err)
	_, err = forgetting.Exec(t.Context(), `UPDATE subscribers SET name = 'forgotten', mobile = 'forgotten:' || id, address = '' WHERE id = $1`, forgotten)
	ok(t, err)
	started := func(ctx context.Context) chan error {
		done := make(chan error, 1)
		go func() {
			db, err := Open(ctx, unhurried(address), Options{})
			if err == nil {
				err = db.Close()
			}
			done <- err
		}()
		return done
	}
	waits := func() bool {
		// A build of an index waits for this very query: its lock is a virtualxid.
		return count(t, watch, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple')`) > 0
	}
	ctx, interrupt := context.WithCancel(t.Context())
	first := started(ctx)
	until(t, "the fill waits for the subscriber", waits)
	interrupt()
	if err := <-first; err == nil {
		t.Error("a store opened that is not filled in")
	}
	if after := count(t, watch, `SELECT after_id::bigint FROM unfilled`); after != 100_000+2*fillSubscribers {
		t.Errorf("filled in up to %d; want what was committed", after)
	}

	second, third := started(t.Context()), started(t.Context())
	until(t, "the fill waits for the subscriber", waits)
	ok(t, forgetting.Commit(t.Context()))
	ok(t, <-second)
	ok(t, <-third)
	for query, want := range map[string]int{
		`SELECT count(*) FROM unfilled`: 0,
		`SELECT count(*) FROM subscribers s, terms_of(s) AS t WHERE NOT EXISTS (
			SELECT FROM subscriber_terms e WHERE (e.operator_id, e.kind, e.term, e.subscriber_id) = (s.operator_id, t.kind, t.term, s.id))`: 0,
		`SELECT count(*) FROM subscriber_terms`: count(t, watch, `SELECT count(*) FROM subscribers s, terms_of(s)`),
		`SELECT count(*) FROM subscriber_lists l JOIN subscribers s ON s.id = l.subscriber_id AND lower(s.name) = l.name`: 3 * subscribers,
		`SELECT count(*) FROM subscriber_lists`: 3 * subscribers,
		`SELECT count(*) FROM subscriber_terms WHERE subscriber_id = '` + forgotten + `' AND term = 'sharma'`: 0,
	} {
		if got := count(t, watch, query); got != want {
			t.Errorf("%s is %d; want %d", query, got, want)
		}
	}
}

// Writes of other nodes go on while an index of the ledger is built, which waits for an older
// transaction; one that was left half-built is built again, once by several nodes.
func TestUpgrade_LedgerIndexes(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	conn, reader, watch := raw(t, address), raw(t, address), raw(t, address)
	exec(t, conn, `DROP INDEX ledger_reversals`)
	reading, err := reader.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	ok(t, err)
	_, err = reading.Exec(t.Context(), `SELECT count(*) FROM ledger`)
	ok(t, err)
	exec(t, conn, `SET lock_timeout = '50ms'`)
	if _, err := conn.Exec(t.Context(), ledgerIndexes[0].create); !lockTimedOut(err) {
		t.Fatalf("%v; want a build that is given up", err)
	}
	valid := func() int {
		return count(t, watch, `SELECT count(*) FROM pg_index WHERE indexrelid IN (to_regclass('ledger_reversals'), to_regclass('ledger_receipts')) AND indisvalid`)
	}
	if valid() != 1 {
		t.Fatal("no index is half-built")
	}
	done := make(chan error, 3)
	for range cap(done) {
		go func() {
			db, err := Open(t.Context(), address, Options{})
			if err == nil {
				err = db.Close()
			}
			done <- err
		}()
	}
	until(t, "a node waits", func() bool {
		return count(t, watch, `SELECT count(*) FROM pg_locks WHERE relation = 'ledger'::regclass AND NOT granted`) > 0
	})
	// The reader lets neither the half-built index go nor a new one be finished.
	exec(t, conn, `SET lock_timeout = '10s'`)
	for range 20 {
		exec(t, conn, `DELETE FROM ledger WHERE id < 0`)
	}
	ok(t, reading.Rollback(t.Context()))
	for range cap(done) {
		ok(t, <-done)
	}
	if valid() != 2 {
		t.Error("an index is not built")
	}
}

// Opening a large store of the release before.
func BenchmarkUpgrade(b *testing.B) {
	for range b.N {
		b.StopTimer()
		address := oldStore(b)
		fillOldStore(b, raw(b, address), 100_000, 1_000_000)
		b.StartTimer()
		began := time.Now()
		db, err := Open(b.Context(), address, Options{Progress: func(text string) { b.Log(time.Since(began), text) }})
		ok(b, err)
		b.StopTimer()
		b.Logf("opened after %s", time.Since(began))
		_ = db.Close()
	}
}
