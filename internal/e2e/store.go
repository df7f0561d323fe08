package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
)

// The end-to-end tests run on either store: on SQLite, in the folder of each Env, demo and
// installation; or, with COAX_TEST_STORE=postgres, each on its own database. Tests that
// read or change a store directly do so through this file.

// OnlySQLite skips a test of SQLite when the suite runs on PostgreSQL.
func OnlySQLite(t testing.TB, what string) {
	t.Helper()
	if pgtest.Chosen() {
		t.Skip("SQLite only: " + what)
	}
}

// OnlyPostgres marks a test that uses PostgreSQL whatever the suite runs on. It is skipped
// when the suite runs on PostgreSQL: it already ran with the SQLite suite.
func OnlyPostgres(t testing.TB) {
	t.Helper()
	if pgtest.Chosen() {
		t.Skip("always on PostgreSQL; runs with the SQLite suite")
	}
}

// StoreIndependent marks a test in which nothing depends on the store. It is skipped when
// the suite runs on PostgreSQL: it already ran with the SQLite suite.
func StoreIndependent(t testing.TB) {
	t.Helper()
	if pgtest.Chosen() {
		t.Skip("does not depend on the store; runs with the SQLite suite")
	}
}

// NewMigratedDatabase creates databases that have the schema and no rows, by copying: running
// the migrations takes longer than many tests. Other tests migrate an empty database.
var NewMigratedDatabase = pgtest.Prepared(func(address string) error {
	db, err := postgres.Open(context.Background(), address, postgres.Options{})
	if err != nil {
		return err
	}
	return db.Close()
})

// NewStoreSettings returns the settings for a new store that lives until the test ends; none
// for SQLite, whose file is in the folder.
func NewStoreSettings(t testing.TB) []string {
	t.Helper()
	if !pgtest.Chosen() {
		return nil
	}
	return []string{"store.url=" + NewMigratedDatabase(t)}
}

// demoStores has the store settings of each demo folder, so that a restarted demo finds its
// database.
var demoStores sync.Map

// WithDemoStore adds the store settings of a demo's folder to its arguments, unless they name
// a store.
func WithDemoStore(t testing.TB, args []string) []string {
	t.Helper()
	at := slices.Index(args, "--dir")
	if !pgtest.Chosen() || len(args) == 0 || args[0] != "demo" || at < 0 || at+1 == len(args) ||
		slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "store.url=") }) {
		return args
	}
	folder := args[at+1]
	if _, known := demoStores.Load(folder); !known {
		demoStores.Store(folder, NewStoreSettings(t))
	}
	sets, _ := demoStores.Load(folder)
	given := slices.Clone(args)
	for _, set := range sets.([]string) {
		given = append(given, "--set", set)
	}
	return given
}

// UseEmptyStore makes the demo of a folder start on a database without a schema. On SQLite a
// new folder is already empty.
func UseEmptyStore(t testing.TB, folder string) {
	t.Helper()
	if pgtest.Chosen() {
		demoStores.Store(folder, []string{"store.url=" + pgtest.NewDatabase(t)})
	}
}

// LoadStoreConfig reads the store settings of a configuration file.
func LoadStoreConfig(t testing.TB, file string) server.StoreConfig {
	t.Helper()
	config, err := server.LoadConfig(server.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	return config.Store
}

// OpenReadOnly opens a store's database for reading until the test ends.
func OpenReadOnly(t testing.TB, from server.StoreConfig) *sql.DB {
	t.Helper()
	return openSQL(t, from, "?mode=ro&_pragma=busy_timeout(5000)")
}

// ExecOnStore runs statements directly on a store's database.
func ExecOnStore(t testing.TB, from server.StoreConfig, statements ...string) {
	t.Helper()
	db := openSQL(t, from, "?_pragma=busy_timeout(5000)")
	defer db.Close() // not at the test's end: the file may be replaced before
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func openSQL(t testing.TB, from server.StoreConfig, options string) *sql.DB {
	t.Helper()
	var db *sql.DB
	var err error
	if from.Kind == "postgres" {
		db, err = postgres.OpenSQL(from.URL)
	} else {
		db, err = sql.Open("sqlite", "file:"+from.Path+options)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// storeTables returns the names of a store's tables, sorted.
func storeTables(t testing.TB, db *sql.DB) []string {
	t.Helper()
	query := `SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`
	if pgtest.Chosen() {
		query = `SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename`
	}
	names := QueryRows(t, db, query)
	if len(names) < 15 {
		t.Fatalf("only %d tables were found", len(names))
	}
	return names
}

// DumpStore returns every value in a store, one per line.
func DumpStore(t testing.TB, from server.StoreConfig) string {
	t.Helper()
	db := OpenReadOnly(t, from)
	var text strings.Builder
	for _, table := range storeTables(t, db) {
		eachRow(t, db, `SELECT * FROM `+table, func(values []any) {
			for _, value := range values {
				if raw, is := value.([]byte); is {
					value = string(raw)
				}
				fmt.Fprintln(&text, value)
			}
		})
	}
	return text.String()
}

// RemoveStore drops or moves the database of a running node.
func RemoveStore(t testing.TB, from server.StoreConfig) {
	t.Helper()
	if from.Kind == "postgres" {
		pgtest.DropDatabase(t, from.URL)
		return
	}
	if err := os.Rename(from.Path, from.Path+".gone"); err != nil {
		t.Fatal(err)
	}
}

// StoreTrigger returns the SQL of a trigger that runs a statement when a row is written.
func StoreTrigger(event, condition, statement string) string {
	if !pgtest.Chosen() {
		return fmt.Sprintf("CREATE TRIGGER planted %s WHEN %s BEGIN %s; END", event, condition, statement)
	}
	statement = strings.Replace(statement, "SELECT RAISE(ABORT, 'broken')", "RAISE EXCEPTION 'broken'", 1)
	return fmt.Sprintf(`
		DO $planting$ BEGIN
			CREATE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; RETURN new; END $$;
			CREATE TRIGGER planted %s FOR EACH ROW WHEN (pg_trigger_depth() = 0 AND %s) EXECUTE FUNCTION planted();
		END $planting$`, statement, event, condition)
}

// BlobLiteral returns hex bytes as a literal of the store's SQL.
func BlobLiteral(hex string) string {
	if pgtest.Chosen() {
		return `'\x` + hex + `'`
	}
	return "x'" + hex + "'"
}
