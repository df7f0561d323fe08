//go:build long

package growth

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/store/pgtest/pgprogram"
)

func TestCluster_FilledStoreRestarts(t *testing.T) {
	if _, err := pgprogram.Find("postgres"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	// A test's own folder is its user's alone, and the server's user is another.
	cache, err := os.MkdirTemp("", "coax-growth-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(cache) })
	if err := os.Chmod(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	// It is named from where one stands, as `make bench` names it.
	t.Chdir(cache)
	for reused := range 2 {
		filled, err := Filled(t.Context(), "kept", Postgres, 1_000, nil)
		if err != nil {
			t.Fatal(err)
		}
		if filled.Reused != (reused == 1) {
			t.Errorf("reused: %v, the %d. time", filled.Reused, reused+1)
		}
		cluster, err := StartCluster(t.Context(), filled.Data())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.Connect(t.Context(), cluster.URL(Database))
		if err != nil {
			t.Fatal(err)
		}
		var operations int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM operations`).Scan(&operations); err != nil || operations != filled.Operations {
			t.Errorf("%d operations, %v; want %d", operations, err, filled.Operations)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}
}
