package cli

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
)

// If store.url names an empty PostgreSQL database beside a SQLite store with operators,
// serve and migrate refuse to start on a store without customers.
func TestServeAndMigrate_EmptyPostgresBesideSQLiteStore(t *testing.T) {
	e2e.OnlySQLite(t, "the store that is left behind is SQLite's")
	t.Parallel()
	h := e2e.NewInstall(t)
	left := filepath.Join(h.Folder, "data", "coax.db")
	address := pgtest.NewDatabase(t)
	set := []string{"--config", h.Config, "--set", "store.url=" + address}
	untouched := func() {
		t.Helper()
		pool, err := postgres.OpenSQL(address)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		var tables int
		if err := pool.QueryRowContext(context.Background(), `SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()`).Scan(&tables); err != nil || tables != 0 {
			t.Errorf("%d tables in the database that was refused, %v; want none", tables, err)
		}
	}
	for _, command := range []string{"migrate", "serve"} {
		e2e.CheckRefused(t, e2e.Run(t, append([]string{command}, append(set, e2e.FreePorts...)...)...), "store.url postgres", "no operators", left, "sqlite:"+left, "--new-store")
		untouched()
	}
	// With --new-store it starts; once it has operators the flag is not needed.
	e2e.RequireOK(t, e2e.Run(t, append([]string{"migrate", "--new-store"}, set...)...))
	e2e.CheckRefused(t, e2e.Run(t, append([]string{"migrate"}, set...)...), "--new-store")
	e2e.RequireOK(t, e2e.Run(t, append([]string{"admin", "lco", "create", "--name", "Asha Cable"}, set...)...))
	e2e.RequireOK(t, e2e.Run(t, append([]string{"migrate"}, set...)...))

	// A SQLite store without operators, or none, is no obstacle.
	bare := filepath.Join(t.TempDir(), "bare")
	e2e.RequireOK(t, e2e.Run(t, "init", "--dir", bare))
	config := filepath.Join(bare, "coax.toml")
	e2e.RequireOK(t, e2e.Run(t, "migrate", "--config", config, "--set", "store.url="+pgtest.NewDatabase(t)))
	e2e.RequireOK(t, e2e.Run(t, "migrate", "--config", config))
	e2e.RequireOK(t, e2e.Run(t, "migrate", "--config", config, "--set", "store.url="+pgtest.NewDatabase(t)))

	// A store that cannot be read may have operators.
	e2e.WriteFile(t, filepath.Join(bare, "data", "coax.db"), "not a database, but something that somebody has put there")
	e2e.CheckRefused(t, e2e.Run(t, "migrate", "--config", config, "--set", "store.url="+pgtest.NewDatabase(t)), "cannot be read", "--new-store")
}
