package sqlite

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// status is one of the figures that SQLite keeps of a whole process.
func status(t testing.TB, of int32) int32 {
	t.Helper()
	tls := libc.NewTLS()
	defer tls.Close()
	figures := libc.Xcalloc(tls, 2, 4)
	defer libc.Xfree(tls, figures)
	if code := lib.Xsqlite3_status(tls, of, figures, figures+4, 0); code != lib.SQLITE_OK {
		t.Fatalf("ask SQLite for figure %d: code %d", of, code)
	}
	return int32(binary.NativeEndian.Uint32(libc.GoBytes(figures, 4)))
}

// largeStore is a store whose file is as large as one that gets a pool. Most of it is a
// hole behind the last page.
func largeStore(t testing.TB, pageSize int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "coax.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := connect(path, fmt.Sprintf("page_size = %d", pageSize), "journal_mode = WAL")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, pooledFrom); err != nil {
		t.Fatal(err)
	}
	return path
}

// cacheSize is how many bytes of pages the writer may keep.
func cacheSize(t testing.TB, db *DB) (bytes int) {
	t.Helper()
	err := db.writer.do(t.Context(), func(tx *tx) error {
		return tx.queryRow(`PRAGMA cache_size`).Scan(&bytes)
	})
	if err != nil {
		t.Fatal(err)
	}
	return -bytes << 10
}

// inAProcessOfItsOwn runs the test on a large store where SQLite was not used before:
// it takes a pool only then.
func inAProcessOfItsOwn(t *testing.T, path string) {
	t.Helper()
	alone := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	alone.Env = append(os.Environ(), "COAX_TEST_LARGE_STORE="+path)
	out, err := alone.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("on a large store: %v\n%s", err, out)
	}
}

// A node that begins on a large store keeps its pages in one piece of memory, twice as
// many as elsewhere, and what does not fit in there is kept all the same.
func TestALargeStoresPagesAreInAPool(t *testing.T) {
	path := os.Getenv("COAX_TEST_LARGE_STORE")
	if path == "" {
		t.Parallel()
		inAProcessOfItsOwn(t, largeStore(t, PageSize))
		return
	}
	db := open(t, path, Options{})
	scratch(t, db)
	if got, want := cacheSize(t, db), 2*leastCache; got != want {
		t.Errorf("the writer keeps %d bytes of pages; want %d", got, want)
	}
	pour(t, db, "a", 100)
	if used := status(t, lib.SQLITE_STATUS_PAGECACHE_USED); used < 100 {
		t.Errorf("%d pages are in the pool; want 100 at least", used)
	}
	if beside := status(t, lib.SQLITE_STATUS_PAGECACHE_OVERFLOW); beside > 0 {
		t.Errorf("%d bytes of pages are beside the pool; want none", beside)
	}
	for range 3 {
		pour(t, db, "b", 3*leastCache/PageSize) // more than it has places, in one commit
	}
	if rows := count(t, db, `SELECT count(*) FROM scratch WHERE length(filler) > 0`); rows != 2 {
		t.Errorf("%d rows; want 2", rows)
	}
	if whole := count(t, db, `SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'`); whole != 1 {
		t.Error("the store is not whole")
	}
}

// A pool has places for pages of one size. Memory for them is not taken where they
// are of another.
func TestALargeStoreWithPagesOfAnotherSizeHasNoPool(t *testing.T) {
	path := os.Getenv("COAX_TEST_LARGE_STORE")
	if path == "" {
		t.Parallel()
		inAProcessOfItsOwn(t, largeStore(t, 4096))
		return
	}
	db := open(t, path, Options{})
	if got, want := cacheSize(t, db), leastCache; got != want {
		t.Errorf("the writer keeps %d bytes of pages; want %d", got, want)
	}
	if used := status(t, lib.SQLITE_STATUS_PAGECACHE_USED); used > 0 {
		t.Errorf("%d pages are in a pool; want none", used)
	}
}

// SQLite takes no pool once it is in use; the store is served without.
func TestALargeStoreIsServedWithoutAPool(t *testing.T) {
	t.Parallel()
	path := largeStore(t, PageSize) // in use by now
	db := open(t, path, Options{})
	if got, want := cacheSize(t, db), leastCache; got != want {
		t.Errorf("the writer keeps %d bytes of pages; want %d", got, want)
	}
}
