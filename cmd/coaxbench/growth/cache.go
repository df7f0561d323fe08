package growth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// Filled returns a store with the given number of operations from the cache folder, or fills
// one there, which takes minutes. A store of another schema or another version of the filler
// has another folder.
//
// It returns the store itself, not a copy: ten million operations take tens of gigabytes, and
// copying them takes longer than a benchmark and fills the page cache. So the store grows by
// what a benchmark adds, a few percent. Remove the folder to have it filled again.
func Filled(ctx context.Context, cache string, kind Kind, operations int, tell func(Progress)) (Store, error) {
	folder, err := folderOf(cache, kind, operations)
	if err != nil {
		return Store{}, err
	}
	if s, err := readStore(folder); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Store{}, fmt.Errorf("make the cache: %w", err)
	}
	lock, err := sqlite.LockFolder(folder + ".lock")
	if err != nil {
		return Store{}, fmt.Errorf("another process is filling it: %w", err)
	}
	defer lock.Close()
	if err := checkSpace(cache, kind, operations, freeSpace); err != nil {
		return Store{}, err
	}
	return fillInto(ctx, folder, kind, operations, tell)
}

// Find returns the largest store in the cache with at most the given number of operations, and
// whether there is one.
func Find(cache string, kind Kind, atMost int) (s Store, found bool) {
	mark, err := fingerprintOf(kind)
	if err != nil {
		return s, false
	}
	folders, _ := filepath.Glob(filepath.Join(cache, fmt.Sprintf("filled-%s-*-%s", kind, mark)))
	for _, folder := range folders {
		other, err := readStore(folder)
		if err == nil && other.Operations > s.Operations && shapeOf(atMost).books(time.Time{}).bought() >= other.Subscribers*usualRounds {
			s, found = other, true
		}
	}
	return s, found
}

// folderOf returns the folder of a store, named by its kind, size and schema.
func folderOf(cache string, kind Kind, operations int) (string, error) {
	mark, err := fingerprintOf(kind)
	return filepath.Join(cache, fmt.Sprintf("filled-%s-%d-%s", kind, operations, mark)), err
}

// fillVersion changes with the content of filled stores, so that an older store is not reused.
const fillVersion = "2"

func fingerprintOf(kind Kind) (string, error) {
	schema, err := sqlite.Schema()
	made := fmt.Sprint(fillVersion, sqlite.PageSize)
	if kind == Postgres {
		schema, err = postgres.Schema()
		made = fillVersion
	}
	sum := sha256.Sum256([]byte(made + schema))
	return hex.EncodeToString(sum[:6]), err
}

// resting is the time between the last operation and the filling of a store.
const resting = 10 * time.Minute

// fillInto fills a temporary folder and renames it, so that a partly filled store is never
// used.
func fillInto(ctx context.Context, folder string, kind Kind, operations int, tell func(Progress)) (s Store, err error) {
	began := time.Now()
	half := folder + ".partial"
	if err := os.RemoveAll(half); err != nil {
		return s, err
	}
	if err := os.Mkdir(half, 0o755); err != nil {
		return s, err
	}
	defer func() { _ = os.RemoveAll(half) }()
	masterKey, err := access.NewMasterKey()
	if err != nil {
		return s, err
	}
	// The same renewal is refused for two minutes, and a benchmark begins at once.
	end := began.Add(-resting).UTC().Truncate(time.Millisecond)
	if kind == Postgres {
		s, err = fillCluster(ctx, half, operations, end, masterKey, tell)
	} else {
		s, err = FillSQLite(ctx, Store{Folder: half}.Path(), operations, end, masterKey, tell)
	}
	if err != nil {
		return s, err
	}
	s.Folder, s.Took = half, time.Since(began)
	if s.Bytes, err = sizeOf(half); err != nil {
		return s, err
	}
	if err := s.write(); err != nil {
		return s, err
	}
	s.Folder = folder
	return s, os.Rename(half, folder)
}

// fillCluster creates a PostgreSQL cluster in the folder, and fills it.
func fillCluster(ctx context.Context, folder string, operations int, end time.Time, masterKey []byte, tell func(Progress)) (s Store, err error) {
	data := Store{Folder: folder}.Data()
	if err := InitCluster(data); err != nil {
		return s, err
	}
	// With wal_level=minimal, rows written to new tables are not logged.
	cluster, err := StartCluster(ctx, data, "wal_level=minimal", "max_wal_senders=0", "max_wal_size=4GB", "shared_buffers=512MB")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := cluster.CreateDatabase(ctx, Database); err != nil {
		return s, err
	}
	return FillPostgres(ctx, cluster.URL(Database), operations, end, masterKey, tell)
}

func sizeOf(folder string) (total int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}

// perOperation is the disk space of an operation with all its rows, measured and rounded up;
// sorting is the additional space for creating indexes.
var perOperation = map[Kind]int64{SQLite: 1_600, Postgres: 2_500}

const (
	sorting   = 4 // one part in so many more
	leaveFree = 2 << 30
)

// checkSpace refuses to fill a store that does not fit on the disk.
func checkSpace(folder string, kind Kind, operations int, free func(string) (int64, error)) error {
	there, err := free(folder)
	if err != nil {
		return fmt.Errorf("read the free space of the disk: %w", err)
	}
	needed := int64(operations) * perOperation[kind]
	needed += needed/sorting + leaveFree
	if there < needed {
		return fmt.Errorf("a %s store of %d operations needs %.1f GB of free space, and the disk of %s has %.1f GB: "+
			"free some space, ask for fewer operations, or name another folder", kind, operations, gigabytes(needed), folder, gigabytes(there))
	}
	return nil
}

func gigabytes(bytes int64) float64 { return float64(bytes) / (1 << 30) }

func freeSpace(folder string) (int64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(folder, &disk); err != nil {
		return 0, err
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil
}
