package postgres

import (
	"testing"

	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/storetest"
)

var _ storetest.Store = (*DB)(nil)

// place is a database for storetest.
type place string

func (p place) Open(t testing.TB) storetest.Store {
	db, err := Open(t.Context(), string(p)+"&pool_max_conns=8", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Place { return place(pgtest.NewDatabase(t)) })
}

func BenchmarkReports(b *testing.B) {
	storetest.BenchmarkReports(b, func(t testing.TB) storetest.Place { return place(pgtest.NewDatabase(t)) })
}
