package audit_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// The shop trades on SQLite or, with COAX_TEST_STORE=postgres, on PostgreSQL. A
// place is the path of a file, or the address of a database.

// shopStore is what a shop asks of a store.
type shopStore interface {
	access.Store
	admin.Store
	catalogue.Store
	login.Store
	operation.ReviewStore
	integrity.Store
	CheckMasterKeys(ctx context.Context, proofs map[uint32][]byte, now time.Time) error
	Close() error
}

// newPlace is where nothing is yet.
func newPlace(t testing.TB) string {
	t.Helper()
	if pgtest.Chosen() {
		return pgtest.NewDatabase(t)
	}
	return filepath.Join(t.TempDir(), "coax.db")
}

// keptPlace stays when the test ends; forget removes it.
func keptPlace() (place string, forget func(), err error) {
	if pgtest.Chosen() {
		place, err := pgtest.KeptDatabase()
		return place, func() {}, err
	}
	folder, err := os.MkdirTemp("", "coax-audit-")
	return filepath.Join(folder, "coax.db"), func() { _ = os.RemoveAll(folder) }, err
}

func copyPlace(t testing.TB, from string) string {
	t.Helper()
	if pgtest.Chosen() {
		return pgtest.CopyDatabase(t, from)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to := newPlace(t)
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func openStore(ctx context.Context, place string) (shopStore, error) {
	if pgtest.Chosen() {
		return postgres.Open(ctx, place, postgres.Options{})
	}
	return sqlite.Open(ctx, place, sqlite.Options{})
}

// peek opens a place for looking.
func peek(t testing.TB, place string) *sql.DB {
	t.Helper()
	return openPlace(t, place, "?mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(1)")
}

// openUnruled opens a place where no rule between rows, and no rule of a row's
// own, stands in the way of damage.
func openUnruled(t testing.TB, place string) *sql.DB {
	t.Helper()
	db := openPlace(t, place, "?_pragma=foreign_keys(0)&_pragma=ignore_check_constraints(1)")
	db.SetMaxOpenConns(1)
	if pgtest.Chosen() {
		for _, statement := range []string{
			`SET session_replication_role = replica`,
			`DO $$ DECLARE c record; BEGIN
				FOR c IN SELECT conrelid::regclass AS place, conname FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0 AND connamespace = 'public'::regnamespace LOOP
					EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.place, c.conname);
				END LOOP; END $$`,
		} {
			if _, err := db.Exec(statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	return db
}

func openPlace(t testing.TB, place, options string) *sql.DB {
	t.Helper()
	var db *sql.DB
	var err error
	if pgtest.Chosen() {
		db, err = postgres.OpenSQL(place)
	} else {
		db, err = sql.Open("sqlite", "file:"+place+options)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// loosened are the statements that take every constraint from a table.
func loosened(table string) string {
	cascade := ""
	if pgtest.Chosen() {
		cascade = " CASCADE"
	}
	return fmt.Sprintf("CREATE TABLE loose AS SELECT * FROM %[1]s; DROP TABLE %[1]s%[2]s; ALTER TABLE loose RENAME TO %[1]s;\n", table, cascade)
}

// inDialect says in PostgreSQL's words what damage says in SQLite's.
func inDialect(statements string) string {
	if !pgtest.Chosen() {
		return statements
	}
	return strings.NewReplacer("rowid", "ctid", "zeroblob(32)", "decode(repeat('00', 32), 'hex')", "x'00'", `'\x00'`).Replace(statements)
}

// snapshot begins to read a place as the command does.
func snapshot(t testing.TB, db *sql.DB) audit.Snapshot {
	t.Helper()
	tx := begin(t, db)
	if pgtest.Chosen() {
		return audit.Postgres(tx)
	}
	return tx
}

func begin(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	options := &sql.TxOptions{ReadOnly: true}
	if pgtest.Chosen() {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := db.BeginTx(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}
