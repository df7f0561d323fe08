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

// The tests of this package run on either store: on SQLite, in the folder of each
// world, demo and house; or, with COAX_TEST_STORE=postgres, each on a database of
// its own. What opens a store behind the product's back does so through here.

// OnlySQLite skips a test of what only SQLite has, where the suite runs on
// PostgreSQL.
func OnlySQLite(t testing.TB, what string) {
	t.Helper()
	if pgtest.Chosen() {
		t.Skip("about SQLite alone: " + what)
	}
}

// OnlyPostgres skips a test that is on PostgreSQL whatever the suite runs on, where
// the suite does, too: it was run with the others on SQLite.
func OnlyPostgres(t testing.TB) {
	t.Helper()
	if pgtest.Chosen() {
		t.Skip("on PostgreSQL always, and run when the others are on SQLite")
	}
}

// StoreIndependent skips a test in which nothing differs by store, where the suite runs
// on PostgreSQL: it was run with the others on SQLite.
func StoreIndependent(t testing.TB) {
	t.Helper()
	if pgtest.Chosen() {
		t.Skip("the same on either store, and run when the others are on SQLite")
	}
}

// Migrated makes databases with the schema and nothing else: making the schema
// anew for every test takes longer than all else in many of them. What makes it on
// an empty database has tests of its own.
var NewMigratedDatabase = pgtest.Prepared(func(address string) error {
	db, err := postgres.Open(context.Background(), address, postgres.Options{})
	if err != nil {
		return err
	}
	return db.Close()
})

// OwnStore are the settings that give a world or demo a store of its own until
// the test ends; none on SQLite, which keeps it in the folder.
func NewStoreSettings(t testing.TB) []string {
	t.Helper()
	if !pgtest.Chosen() {
		return nil
	}
	return []string{"store.url=" + NewMigratedDatabase(t)}
}

// demoStores are the databases of demos, by their folders: started again, a demo
// finds its own.
var demoStores sync.Map

// OnStore gives a demo that names no store the one that its folder has.
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

// EmptyStore has the demo of a folder begin with a database without a schema,
// where there are databases: on SQLite a new folder is as empty.
func UseEmptyStore(t testing.TB, folder string) {
	t.Helper()
	if pgtest.Chosen() {
		demoStores.Store(folder, []string{"store.url=" + pgtest.NewDatabase(t)})
	}
}

// StoreAt is the store that the configuration in a file names.
func LoadStoreConfig(t testing.TB, file string) server.StoreConfig {
	t.Helper()
	config, err := server.LoadConfig(server.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	return config.Store
}

// PeekStore opens a store for looking only, until the test ends.
func OpenReadOnly(t testing.TB, from server.StoreConfig) *sql.DB {
	t.Helper()
	return openBehind(t, from, "?mode=ro&_pragma=busy_timeout(5000)")
}

// DamageStore changes a store behind the product's back.
func ExecOnStore(t testing.TB, from server.StoreConfig, statements ...string) {
	t.Helper()
	db := openBehind(t, from, "?_pragma=busy_timeout(5000)")
	defer db.Close() // at once: the file may be put back
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func openBehind(t testing.TB, from server.StoreConfig, options string) *sql.DB {
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

// storeTables names the tables of a store, in order.
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

// StoreText is everything that a store keeps, as its bytes are.
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

// TakeStoreAway has the store disappear under a running node.
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

// StoreTrigger has a store do something of its own when a row is written.
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

// Blob writes bytes as the store's SQL does.
func BlobLiteral(hex string) string {
	if pgtest.Chosen() {
		return `'\x` + hex + `'`
	}
	return "x'" + hex + "'"
}
