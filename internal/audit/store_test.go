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
	"github.com/coaxhq/coax/internal/retention"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// The tests use SQLite or, with COAX_TEST_STORE=postgres, PostgreSQL. A path is that of a
// file, or the URL of a database.

// testStore is the store of a testEnv.
type testStore interface {
	access.Store
	admin.Store
	catalogue.Store
	login.Store
	operation.ReviewStore
	integrity.Store
	retention.Store
	CheckMasterKeys(ctx context.Context, proofs map[uint32][]byte, primary uint32, now time.Time) error
	Close() error
}

// newStorePath returns the path of a new store.
func newStorePath(t testing.TB) string {
	t.Helper()
	if pgtest.Chosen() {
		return pgtest.NewDatabase(t)
	}
	return filepath.Join(t.TempDir(), "coax.db")
}

// persistentStore stays when the test ends; forget removes it.
func persistentStore() (path string, forget func(), err error) {
	if pgtest.Chosen() {
		path, err := pgtest.KeptDatabase()
		return path, func() {}, err
	}
	folder, err := os.MkdirTemp("", "coax-audit-")
	return filepath.Join(folder, "coax.db"), func() { _ = os.RemoveAll(folder) }, err
}

func copyStore(t testing.TB, from string) string {
	t.Helper()
	if pgtest.Chosen() {
		return pgtest.CopyDatabase(t, from)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to := newStorePath(t)
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func openStore(ctx context.Context, path string) (testStore, error) {
	if pgtest.Chosen() {
		return postgres.Open(ctx, path, postgres.Options{})
	}
	return sqlite.Open(ctx, path, sqlite.Options{})
}

// openReadOnly opens a store for reading.
func openReadOnly(t testing.TB, path string) *sql.DB {
	t.Helper()
	return openDB(t, path, "?mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(1)")
}

// openWithoutConstraints opens a store without foreign keys and check constraints.
func openWithoutConstraints(t testing.TB, path string) *sql.DB {
	t.Helper()
	db := openDB(t, path, "?_pragma=foreign_keys(0)&_pragma=ignore_check_constraints(1)")
	db.SetMaxOpenConns(1)
	if pgtest.Chosen() {
		for _, statement := range []string{
			`SET session_replication_role = replica`,
			`DO $$ DECLARE c record; BEGIN
				FOR c IN SELECT conrelid::regclass AS path, conname FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0 AND connamespace = 'public'::regnamespace LOOP
					EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.path, c.conname);
				END LOOP; END $$`,
		} {
			if _, err := db.Exec(statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	return db
}

func openDB(t testing.TB, path, options string) *sql.DB {
	t.Helper()
	var db *sql.DB
	var err error
	if pgtest.Chosen() {
		db, err = postgres.OpenSQL(path)
	} else {
		db, err = sql.Open("sqlite", "file:"+path+options)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// loosened returns statements that drop every constraint of a table.
func loosened(table string) string {
	cascade, before := "", ""
	if pgtest.Chosen() {
		cascade = " CASCADE"
	} else if table == "subscribers" {
		// It names the table, which is gone for a moment.
		before = "DROP TRIGGER cycle_plan_insert; "
	}
	return before + fmt.Sprintf("CREATE TABLE loose AS SELECT * FROM %[1]s; DROP TABLE %[1]s%[2]s; ALTER TABLE loose RENAME TO %[1]s;\n", table, cascade)
}

// forDialect translates damage from SQLite to PostgreSQL.
func forDialect(statements string) string {
	if !pgtest.Chosen() {
		return statements
	}
	return strings.NewReplacer("rowid", "ctid", "zeroblob(32)", "decode(repeat('00', 32), 'hex')", "x'00'", `'\x00'`).Replace(statements)
}

// snapshot begins to read a store as the command does.
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
