package storetest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// PreparedFile returns what makes files like one that was prepared: that is done once,
// and copied for every test that asks. It is for stores that are one file, which are
// copied in far less time than migrated.
func PreparedFile(prepare func(path string) error) func(t testing.TB) string {
	prepared := sync.OnceValues(func() ([]byte, error) {
		folder, err := os.MkdirTemp("", "coax-prepared-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(folder)
		path := filepath.Join(folder, "coax.db")
		if err := prepare(path); err != nil {
			return nil, err
		}
		return os.ReadFile(path)
	})
	return func(t testing.TB) string {
		t.Helper()
		content, err := prepared()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "coax.db")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
}
