package storetest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// PreparedFile prepares a store file once and returns a function that copies it for a
// test: copying takes far less time than migrating.
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
