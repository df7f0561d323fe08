package postgres

import (
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/store/storetest"
	"github.com/jackc/pgx/v5"
)

// fillOf is the statement of a migration that fills a table.
func fillOf(t testing.TB, file, table string) string {
	t.Helper()
	text, err := migrations.ReadFile("migrations/" + file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "INSERT INTO "+table+" ")
	fill, _, ends := strings.Cut(rest, ";")
	if !found || !ends {
		t.Fatalf("%s does not fill %s", file, table)
	}
	return "INSERT INTO " + table + " " + fill
}

func TestMigrationOfAmounts_CountsWhatWasMoved(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	storetest.RefilledAmounts(t, place(address), func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		for _, statement := range []string{`DELETE FROM staff_amounts`, fillOf(t, "00014_staff_amounts.sql", "staff_amounts")} {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	})
}
