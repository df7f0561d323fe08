package sqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/store/storetest"
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
	place := folder(t.TempDir())
	storetest.RefilledAmounts(t, place, func(t *testing.T) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(string(place), "coax.db")+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, statement := range []string{`DELETE FROM staff_amounts`, fillOf(t, "00019_staff_amounts.sql", "staff_amounts")} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	})
}
