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

// Filled is a store of so many operations: the one in the cache folder, or else
// one that is made there, which takes minutes. A store of another schema, or that
// another release would have filled otherwise, is another store.
//
// The store itself is handed out, not a copy. One of ten million operations takes
// tens of gigabytes, so that a disk has seldom room for two, and copying it would
// take longer than any bench; and it would leave the machine's memory full of
// pages that nobody asks for. So the store grows by whatever is done to it, which
// is as lawful as the rest: a bench adds a few in a hundred. Who wants it as it
// was removes its folder.
func Filled(ctx context.Context, cache string, kind Kind, operations int, tell func(Progress)) (Store, error) {
	folder, err := place(cache, kind, operations)
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
		return Store{}, fmt.Errorf("somebody else is filling it: %w", err)
	}
	defer lock.Close()
	if err := checkRoom(cache, kind, operations, freeSpace); err != nil {
		return Store{}, err
	}
	return fillInto(ctx, folder, kind, operations, tell)
}

// Find is the largest store in the cache that Filled would hand out for so many
// operations or fewer, and whether there is one.
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

// place is where a store is kept: what it is called says what is in it.
func place(cache string, kind Kind, operations int) (string, error) {
	mark, err := fingerprintOf(kind)
	return filepath.Join(cache, fmt.Sprintf("filled-%s-%d-%s", kind, operations, mark)), err
}

// ways changes with what is filled in, so that an older store is not taken for one
// of this release's.
const ways = "2"

func fingerprintOf(kind Kind) (string, error) {
	schema, err := sqlite.Schema()
	made := fmt.Sprint(ways, sqlite.PageSize)
	if kind == Postgres {
		schema, err = postgres.Schema()
		made = ways
	}
	sum := sha256.Sum256([]byte(made + schema))
	return hex.EncodeToString(sum[:6]), err
}

// resting is how long before its filling the trade in a store ends.
const resting = 10 * time.Minute

// fillInto fills a folder of another name first: one that was left half filled is
// never taken for a whole one.
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
	// Nobody may buy the same twice within two minutes, and a bench begins at once.
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

// fillCluster makes a PostgreSQL of its own in the folder, and fills it.
func fillCluster(ctx context.Context, folder string, operations int, end time.Time, masterKey []byte, tell func(Progress)) (s Store, err error) {
	data := Store{Folder: folder}.Data()
	if err := InitCluster(data); err != nil {
		return s, err
	}
	// What is written into tables that were empty before need not be logged.
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

// perOperation is what an operation takes on the disk with all its rows, measured
// and rounded up; sorting is what making indexes takes besides.
var perOperation = map[Kind]int64{SQLite: 1_600, Postgres: 2_500}

const (
	sorting   = 4 // one part in so many more
	leaveFree = 2 << 30
)

// checkRoom refuses to begin what the disk has no room for.
func checkRoom(folder string, kind Kind, operations int, free func(string) (int64, error)) error {
	there, err := free(folder)
	if err != nil {
		return fmt.Errorf("ask how much room the disk has: %w", err)
	}
	needed := int64(operations) * perOperation[kind]
	needed += needed/sorting + leaveFree
	if there < needed {
		return fmt.Errorf("a %s store of %d operations needs %.1f GB of room to be made, and the disk of %s has %.1f GB: "+
			"make room, ask for fewer operations, or name another folder", kind, operations, gigabytes(needed), folder, gigabytes(there))
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
