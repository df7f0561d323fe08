package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/coaxhq/coax/internal/store/storetest"
)

var _ storetest.Store = (*DB)(nil)

// folder is a place on disk for storetest.
type folder string

func (f folder) Open(t testing.TB) storetest.Store {
	db, err := Open(t.Context(), filepath.Join(string(f), "coax.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Place { return folder(t.TempDir()) })
}
