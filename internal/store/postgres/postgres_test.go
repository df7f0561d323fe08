package postgres

import (
	"context"
	"testing"

	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/storetest"
)

var _ storetest.Store = (*DB)(nil)

// place is a database for storetest.
type place string

func (p place) Open(t testing.TB) storetest.Store {
	db, err := Open(t.Context(), unhurried(string(p))+"&pool_max_conns=8", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// migrated makes databases with the schema and nothing else: making the schema
// anew takes longer than most tests of the suite.
var migrated = pgtest.Prepared(func(address string) error {
	db, err := Open(context.Background(), address, Options{})
	if err != nil {
		return err
	}
	return db.Close()
})

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Opener { return place(migrated(t)) })
}

func BenchmarkRetention(b *testing.B) {
	storetest.BenchmarkRetention(b, func(t testing.TB) storetest.Opener { return place(pgtest.NewDatabase(t)) })
}

func BenchmarkReports(b *testing.B) {
	storetest.BenchmarkReports(b, func(t testing.TB) storetest.Opener { return place(pgtest.NewDatabase(t)) })
}
