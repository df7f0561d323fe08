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
	// Few nonces make a run, so that some are found in one.
	db, err := Open(t.Context(), filepath.Join(string(f), "coax.db"), Options{NonceRun: 3})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Place { return folder(t.TempDir()) })
}

// A large store's writer keeps more of it in memory, within bounds.
func TestTheWritersCacheGrowsWithTheFile(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]string{
		0: "cache_size = -8192", 1 << 30: "cache_size = -8192", 4 << 30: "cache_size = -16384", 1 << 40: "cache_size = -49152",
	} {
		if got := writerCache(size); got != want {
			t.Errorf("for a file of %d bytes: %s; want %s", size, got, want)
		}
	}
}

func BenchmarkRenewal(b *testing.B) {
	storetest.Benchmark(b, func(t testing.TB) storetest.Place { return counting{folder(t.TempDir()), b} })
}

func BenchmarkBalance(b *testing.B) {
	storetest.BenchmarkReads(b, func(t testing.TB) storetest.Place { return counting{folder(t.TempDir()), b} })
}

func BenchmarkReports(b *testing.B) {
	storetest.BenchmarkReports(b, func(t testing.TB) storetest.Place { return folder(t.TempDir()) })
}

// counting reports how many facts share a commit.
type counting struct {
	folder
	b *testing.B
}

func (c counting) Open(t testing.TB) storetest.Store {
	watch := &observed{}
	db := open(t, filepath.Join(string(c.folder), "coax.db"), Options{Observe: watch})
	t.Cleanup(func() {
		facts := 0
		for _, size := range watch.sizes {
			facts += size
		}
		c.b.Logf("%d facts in %d commits", facts, len(watch.sizes))
	})
	return db
}

func BenchmarkRequestLog(b *testing.B) {
	storetest.BenchmarkRequestLog(b, func(t testing.TB) storetest.Place { return folder(t.TempDir()) })
}
