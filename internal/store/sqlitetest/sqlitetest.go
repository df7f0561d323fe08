// Package sqlitetest gives tests SQLite stores that have their schema already.
package sqlitetest

import (
	"context"
	"testing"

	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/storetest"
)

// NewFile returns the path of a store that has its schema and no rows. It is removed
// when the test ends.
var NewFile = storetest.PreparedFile(func(path string) error {
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return err
	}
	return db.Close()
})

// New opens a store that has its schema and no rows. It is closed when the test ends.
func New(t testing.TB) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), NewFile(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
