//go:build long

package growth_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.StopShared()
	os.Exit(code)
}

var end = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// fill fills a new place of a kind, and opens it for questions.
func fill(t *testing.T, kind growth.Kind, operations int) (growth.Store, *sql.DB) {
	t.Helper()
	masterKey, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	var filled growth.Store
	var db *sql.DB
	if kind == growth.Postgres {
		address := pgtest.NewDatabase(t)
		if filled, err = growth.FillPostgres(t.Context(), address, operations, end, masterKey, nil); err == nil {
			db, err = postgres.OpenSQL(address)
		}
	} else {
		path := filepath.Join(t.TempDir(), "coax.db")
		if filled, err = growth.FillSQLite(t.Context(), path, operations, end, masterKey, nil); err == nil {
			db, err = sql.Open("sqlite", "file:"+path)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return filled, db
}

func eachKind(t *testing.T, check func(t *testing.T, kind growth.Kind)) {
	for _, kind := range []growth.Kind{growth.SQLite, growth.Postgres} {
		t.Run(string(kind), func(t *testing.T) { check(t, kind) })
	}
}

func audited(t *testing.T, kind growth.Kind, db *sql.DB) audit.Report {
	t.Helper()
	options := &sql.TxOptions{ReadOnly: true}
	if kind == growth.Postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := db.BeginTx(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var reading audit.Snapshot = tx
	if kind == growth.Postgres {
		reading = audit.Postgres(tx)
	}
	report, err := audit.Run(t.Context(), reading, end, nil)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestFill_BooksAreSound(t *testing.T) {
	eachKind(t, func(t *testing.T, kind growth.Kind) {
		filled, db := fill(t, kind, 20_000)
		report := audited(t, kind, db)
		if !report.OK {
			t.Errorf("the audit found %d violations, such as %v", len(report.Violations), report.Violations[:min(3, len(report.Violations))])
		}
		counts := report.Counts
		got := growth.Size{Operators: int(counts.Operators), Subscribers: int(counts.Subscribers), Operations: int(counts.Operations.Total)}
		if got != filled.Size || got != growth.SizeOf(20_000) || got.Operations < 20_000 || got.Operations > 21_000 {
			t.Errorf("it has %+v, says %+v, and was to have %+v", got, filled.Size, growth.SizeOf(20_000))
		}
		if failed := counts.Operations.Failed; failed == 0 || failed+counts.Operations.Success != counts.Operations.Total {
			t.Errorf("of %d operations %d failed and %d succeeded; want some failed and none open",
				counts.Operations.Total, failed, counts.Operations.Success)
		}
		if counts.Nonces < 100 || counts.Minutes != counts.Operators {
			t.Errorf("%d nonces and %d counted minutes; want a day's nonces and a minute for each operator", counts.Nonces, counts.Minutes)
		}
	})
}

func TestShape_TenMillionOperations(t *testing.T) {
	want := growth.Size{Operators: 5_000, Subscribers: 1_000_000, Operations: 10_204_081}
	if got := growth.SizeOf(10_000_000); got.Operators != want.Operators || got.Subscribers != want.Subscribers || got.Operations < 10_000_000 || got.Operations > 10_300_000 {
		t.Errorf("%+v; want about %+v", got, want)
	}
}

// What a filling takes away to be fast has to be there again afterwards.
func TestFill_KeepsTheSchema(t *testing.T) {
	const ofSQLite = `SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%' ORDER BY 1`
	const ofPostgres = `
		SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
		 UNION ALL SELECT conrelid::regclass || ' ' || conname || ' ' || convalidated || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
		 UNION ALL SELECT attrelid::regclass || ' ' || attname || ' ' || attnotnull FROM pg_attribute JOIN pg_class c ON c.oid = attrelid AND relkind = 'r' WHERE attnum > 0 AND relnamespace = 'public'::regnamespace
		 ORDER BY 1`
	eachKind(t, func(t *testing.T, kind growth.Kind) {
		question := ofSQLite
		if kind == growth.Postgres {
			question = ofPostgres
		}
		_, filled := fill(t, kind, 1)
		want, got := lines(t, unfilled(t, kind), question), lines(t, filled, question)
		if len(want) < 50 || !slices.Equal(got, want) {
			t.Errorf("%d lines:\n%v\nwant %d:\n%v", len(got), got, len(want), want)
		}
		if kind == growth.SQLite {
			if broken := lines(t, filled, `SELECT "table" || ' ' || rowid FROM pragma_foreign_key_check`); len(broken) > 0 {
				t.Errorf("%d rows refer to nothing, such as %s", len(broken), broken[0])
			}
			if mode := lines(t, filled, `PRAGMA journal_mode`); mode[0] != "wal" {
				t.Errorf("the file's journal is %s; want wal, as a node left it", mode[0])
			}
		}
	})
}

func unfilled(t *testing.T, kind growth.Kind) *sql.DB {
	t.Helper()
	var db *sql.DB
	var err error
	if kind == growth.Postgres {
		address := pgtest.NewDatabase(t)
		store, failed := postgres.Open(t.Context(), address, postgres.Options{})
		if failed != nil {
			t.Fatal(failed)
		}
		store.Close()
		db, err = postgres.OpenSQL(address)
	} else {
		path := filepath.Join(t.TempDir(), "coax.db")
		store, failed := sqlite.Open(t.Context(), path, sqlite.Options{})
		if failed != nil {
			t.Fatal(failed)
		}
		store.Close()
		db, err = sql.Open("sqlite", "file:"+path)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func lines(t *testing.T, db *sql.DB, question string) (all []string) {
	t.Helper()
	rows, err := db.Query(question)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFill_RefusesNonEmptyStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coax.db")
	masterKey, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := growth.FillSQLite(t.Context(), path, 1, end, masterKey, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := growth.FillSQLite(t.Context(), path, 1, end, masterKey, nil); err == nil {
		t.Error("a store was filled twice")
	}
}

func TestSubscribers_BelongToTheirOperator(t *testing.T) {
	filled, db := fill(t, growth.SQLite, 4_000)
	seen := map[string]bool{}
	for o, account := range filled.Accounts {
		for n := range filled.SubscribersOf() {
			id := filled.Subscriber(o, n)
			seen[id] = true
			if owner := lines(t, db, fmt.Sprintf(`SELECT operator_id FROM subscribers WHERE id = '%s'`, id)); len(owner) != 1 || owner[0] != fmt.Sprint(account.ID) {
				t.Fatalf("subscriber %d of operator %d is %s, of operator %v", n, account.ID, id, owner)
			}
		}
	}
	if len(seen) != filled.Subscribers {
		t.Errorf("%d subscribers were named; want %d", len(seen), filled.Subscribers)
	}
}
