package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/store/storetest"
)

func TestMain(m *testing.M) {
	login.HashCheaply()
	os.Exit(m.Run())
}

var _ storetest.Store = (*DB)(nil)

// folder is a place on disk for storetest.
type folder string

func (f folder) Open(t testing.TB) storetest.Store {
	// Few nonces fill the buffer, so that some are found in the index.
	db, err := Open(t.Context(), filepath.Join(string(f), "coax.db"), Options{NonceBuffer: 3})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Opener { return folder(filepath.Dir(newFile(t))) })
}

// newFile returns the path of a store that was migrated and has no rows.
var newFile = storetest.PreparedFile(func(path string) error {
	db, err := Open(context.Background(), path, Options{})
	if err != nil {
		return err
	}
	return db.Close()
})

// The writer's page cache grows with the file, within limits.
func TestWriterCache_GrowsWithFile(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int64{0: 8 << 20, 1 << 30: 8 << 20, 4 << 30: 16 << 20, 1 << 40: 48 << 20} {
		if got := writerCache(size); got != want {
			t.Errorf("for a file of %d bytes: %d; want %d", size, got, want)
		}
	}
	path := newFile(t)
	if err := os.Truncate(path, 4<<30); err != nil { // a hole behind the last page
		t.Fatal(err)
	}
	db := open(t, path, Options{})
	var kilobytes int64
	err := db.writer.do(t.Context(), func(tx *tx) error { return tx.QueryRow(`PRAGMA cache_size`).Scan(&kilobytes) })
	if want := -writerCache(4<<30) >> 10; err != nil || kilobytes != want {
		t.Errorf("cache_size = %d, %v; want %d", kilobytes, err, want)
	}
}

// A store that has pages of another size keeps them, and is served like any other.
func TestOpen_PageSize(t *testing.T) {
	t.Parallel()
	fresh := open(t, filepath.Join(t.TempDir(), "coax.db"), Options{})
	if got := count(t, fresh, `PRAGMA page_size`); got != PageSize {
		t.Errorf("a new store has pages of %d bytes; want %d", got, PageSize)
	}
	path := filepath.Join(t.TempDir(), "coax.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := connect(path, "page_size = 4096", "journal_mode = WAL")
	if err != nil {
		t.Fatal(err)
	}
	if err := before.close(); err != nil {
		t.Fatal(err)
	}
	old := open(t, path, Options{})
	if got := count(t, old, `PRAGMA page_size`); got != 4096 {
		t.Errorf("a store with pages of 4096 bytes has pages of %d now", got)
	}
	scratch(t, old)
	fill(t, old, "a", 3*checkpointAt)
	if rows := count(t, old, `SELECT count(*) FROM scratch`); rows != 1 {
		t.Errorf("%d rows; want 1", rows)
	}
}

func BenchmarkRenewal(b *testing.B) {
	storetest.Benchmark(b, func(t testing.TB) storetest.Opener { return counting{folder(t.TempDir()), b} })
}

func BenchmarkCyclesByPlan(b *testing.B) {
	with, without := b.TempDir(), b.TempDir()
	storetest.BenchmarkIndex(b, folder(with), folder(without), func() {
		rawExec(b, filepath.Join(without, "coax.db"), `DROP INDEX cycles_by_plan`)
	}, nil)
}

func BenchmarkBalance(b *testing.B) {
	storetest.BenchmarkReads(b, func(t testing.TB) storetest.Opener { return counting{folder(t.TempDir()), b} }, nil)
}

func BenchmarkLookups(b *testing.B) {
	storetest.BenchmarkLookups(b, func(t testing.TB) storetest.Opener { return folder(t.TempDir()) }, nil)
}

func BenchmarkRetention(b *testing.B) {
	storetest.BenchmarkRetention(b, func(t testing.TB) storetest.Opener { return folder(t.TempDir()) })
}

func BenchmarkReports(b *testing.B) {
	storetest.BenchmarkReports(b, func(t testing.TB) storetest.Opener { return folder(t.TempDir()) })
}

// counting reports how many writes share a commit.
type counting struct {
	folder
	b *testing.B
}

func (c counting) Open(t testing.TB) storetest.Store {
	watch := &observed{}
	db := open(t, filepath.Join(string(c.folder), "coax.db"), Options{Observe: watch})
	t.Cleanup(func() {
		writes := 0
		for _, size := range watch.sizes {
			writes += size
		}
		c.b.Logf("%d writes in %d commits", writes, len(watch.sizes))
	})
	return db
}

func BenchmarkRequestLog(b *testing.B) {
	storetest.BenchmarkRequestLog(b, func(t testing.TB) storetest.Opener { return folder(t.TempDir()) })
}
