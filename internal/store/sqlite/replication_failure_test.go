package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/replica"
)

// writeNumbers returns a function that writes the next number, and counts those that the
// store has.
func writeNumbers(t *testing.T, db *DB) (write func(size int) error, written *int) {
	written = new(int)
	return func(size int) error {
		err := db.writer.do(t.Context(), number(*written, size))
		if err == nil || errors.Is(err, operation.ErrCommitUnknown) {
			*written++
		}
		return err
	}, written
}

func replicaComplete(t *testing.T, db *DB) {
	t.Helper()
	until(t, "the replica is complete", func() bool { s, _ := db.Replication(); return s.Problem == nil && s.Since.IsZero() })
}

func TestReplica_AsyncOpensWithoutIt(t *testing.T) {
	path, disk := newFile(t), filepath.Join(t.TempDir(), "disk")
	folder := filepath.Join(disk, "replica")
	if _, err := Open(t.Context(), path, Options{Replication: replicated(t, path, folder, true)}); err == nil {
		t.Error("sync mode opened without its replica")
	}
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	db := open(t, path, Options{Replication: replicated(t, path, folder, false)})
	write, written := writeNumbers(t, db)
	if err := write(1000); err != nil {
		t.Fatal(err)
	}
	replicaComplete(t, db)
	if err := errors.Join(db.Close(), os.Rename(disk, disk+".away")); err != nil {
		t.Fatal(err)
	}
	var reported atomic.Int64
	options := replicated(t, path, folder, false)
	options.Report = func(err error) {
		if err != nil {
			reported.Add(1)
		}
	}
	db = open(t, path, Options{Replication: options})
	if err := db.Ready(t.Context()); err != nil || reported.Load() == 0 {
		t.Errorf("ready: %v; reported %d times", err, reported.Load())
	}
	first := *written
	write, written = writeNumbers(t, db)
	for *written = first; *written < 200; { // more than one checkpoint
		if err := write(30_000); err != nil {
			t.Fatal(err)
		}
	}
	if s, _ := db.Replication(); s.Problem == nil || s.Since.IsZero() || s.Errors == 0 {
		t.Errorf("the state without a replica: %+v", s)
	}
	if err := os.Rename(disk+".away", disk); err != nil {
		t.Fatal(err)
	}
	replicaComplete(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantNumbers(t, restoredRows(t, folder, time.Time{}), 200)
	if generations, err := filepath.Glob(filepath.Join(folder, "g*")); err != nil || len(generations) != 1 {
		t.Errorf("%v, %v: want the first generation continued", generations, err)
	}
}

// The replica of another store appears after the start: nothing is written to it.
func TestReplica_ForeignAfterTheStartIsLeftAlone(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	folder, other, path := filepath.Join(disk, "replica"), newFile(t), filepath.Join(t.TempDir(), "coax.db")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	first := open(t, other, Options{Replication: replicated(t, other, folder, true)})
	if err := errors.Join(first.writer.do(t.Context(), number(0, 10)), first.Close(), os.Rename(disk, disk+".away")); err != nil {
		t.Fatal(err)
	}
	db := open(t, path, Options{Replication: replicated(t, path, folder, false)})
	if err := os.Rename(disk+".away", disk); err != nil {
		t.Fatal(err)
	}
	until(t, "it is noticed", func() bool { s, _ := db.Replication(); return errors.Is(s.Problem, replica.ErrForeign) })
	write, _ := writeNumbers(t, db)
	if err := errors.Join(write(10), db.Close()); err != nil {
		t.Fatal(err)
	}
	wantNumbers(t, restoredRows(t, folder, time.Time{}), 1)
}

// smallDisk mounts a file system of the given size; it skips the test where that is not
// allowed.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	folder := t.TempDir()
	if err := mountMemory(folder, size); err != nil {
		t.Skip("mounting is not allowed here:", err)
	}
	t.Cleanup(func() { unmount(folder) })
	return folder
}

func TestReplica_FullAndReadOnlyDisk(t *testing.T) {
	for _, harm := range []struct {
		name       string
		harm, mend func(disk string) error
	}{
		{"full", func(disk string) error {
			file, err := os.Create(filepath.Join(disk, "filler"))
			if err != nil {
				return err
			}
			for block := make([]byte, 4096); err == nil; {
				_, err = file.Write(block)
			}
			return file.Close()
		}, func(disk string) error { return os.Remove(filepath.Join(disk, "filler")) }},
		{"read-only", func(disk string) error { return remount(disk, true) }, func(disk string) error { return remount(disk, false) }},
	} {
		t.Run(harm.name, func(t *testing.T) {
			modes(t, func(t *testing.T, synchronous bool) {
				disk, path := smallDisk(t, "12m"), newFile(t)
				folder := filepath.Join(disk, "replica")
				db := open(t, path, Options{Replication: replicated(t, path, folder, synchronous)})
				write, written := writeNumbers(t, db)
				if err := write(1000); err != nil {
					t.Fatal(err)
				}
				replicaComplete(t, db)
				if harm.name == "read-only" {
					// A file that is open for writing keeps a file system from it.
					if err := db.Close(); err != nil {
						t.Fatal(err)
					}
					if err := harm.harm(disk); err != nil {
						t.Skip("remounting is not allowed here:", err)
					}
					if _, err := Open(t.Context(), path, Options{Replication: replicated(t, path, folder, true)}); err == nil || !strings.Contains(err.Error(), "read-only") {
						t.Errorf("sync mode on a read-only disk: %v", err)
					}
					db = open(t, path, Options{Replication: replicated(t, path, folder, false)})
					first := *written
					write, written = writeNumbers(t, db)
					*written = first
				} else if err := harm.harm(disk); err != nil {
					t.Fatal(err)
				}
				failed := false
				for range 20 {
					if err := write(10_000); err != nil {
						if failed = true; !errors.Is(err, operation.ErrCommitUnknown) && !errors.Is(err, operation.ErrUnavailable) {
							t.Fatal(err)
						}
					}
				}
				until(t, "the failure is noticed", func() bool { s, _ := db.Replication(); return s.Problem != nil && s.Errors > 0 })
				if failed != (synchronous && harm.name == "full") {
					t.Errorf("writes failed: %v", failed)
				}
				if err := harm.mend(disk); err != nil {
					t.Fatal(err)
				}
				replicaComplete(t, db)
				if err := errors.Join(write(10), db.Close()); err != nil {
					t.Fatal(err)
				}
				wantNumbers(t, restoredRows(t, folder, time.Time{}), *written)
			})
		})
	}
}

// A copy of the store that cannot be completed leaves nothing behind that fills the disk.
func TestReplica_CopyThatFailsIsRemoved(t *testing.T) {
	disk, path := smallDisk(t, "1m"), newFile(t)
	folder := filepath.Join(disk, "replica")
	db := open(t, path, Options{})
	write, written := writeNumbers(t, db)
	for range 80 {
		if err := write(30_000); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, Options{Replication: replicated(t, path, folder, false)})
	until(t, "two copies have failed", func() bool { s, _ := db.Replication(); return s.Errors > 1 })
	until(t, "the place is empty again", func() bool {
		left, _ := filepath.Glob(filepath.Join(folder, "g*", "*"))
		return len(left) == 0
	})
	if err := growMemory(disk, "32m"); err != nil {
		t.Skip("remounting is not allowed here:", err)
	}
	replicaComplete(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantNumbers(t, restoredRows(t, folder, time.Time{}), *written)
}

func TestReplica_SnapshotsUnderLoad(t *testing.T) {
	modes(t, func(t *testing.T, synchronous bool) {
		path, folder := newFile(t), filepath.Join(t.TempDir(), "replica")
		var clock atomic.Int64
		clock.Store(noon.UnixMilli())
		now := func() time.Time { return time.UnixMilli(clock.Load()) }
		options := replicated(t, path, folder, synchronous)
		options.Now = now
		options.Open = func(_ context.Context, store string) (Replica, error) {
			address, err := replica.ParseAddress("file://" + folder)
			if err != nil {
				return nil, err
			}
			return replica.New(address, replica.Options{File: path, Store: store, Now: now, Getenv: os.Getenv})
		}
		db := open(t, path, Options{Replication: options})
		var group sync.WaitGroup
		var next, stop atomic.Int64
		for range 4 {
			group.Go(func() {
				for stop.Load() == 0 {
					if err := db.writer.do(t.Context(), number(int(next.Add(1)-1), 5_000)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for day := range 2 {
			before := next.Load()
			until(t, "the log was checkpointed", func() bool { return next.Load() > before+200 })
			newest := newestSnapshot(folder)
			clock.Add(25 * time.Hour.Milliseconds())
			until(t, "another snapshot is there", func() bool { return newestSnapshot(folder) > newest })
			if got := restoredRows(t, folder, now()); len(got) < int(before) {
				t.Errorf("day %d: %d numbers of %d", day, len(got), before)
			}
		}
		stop.Store(1)
		group.Wait()
		replicaComplete(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		wantNumbers(t, restoredRows(t, folder, time.Time{}), int(next.Load()))
	})
}

func newestSnapshot(folder string) (name string) {
	found, _ := filepath.Glob(filepath.Join(folder, "g*", "snapshot-*.json"))
	for _, one := range found {
		name = max(name, one)
	}
	return name
}
