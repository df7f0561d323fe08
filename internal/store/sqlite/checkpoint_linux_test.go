package sqlite

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// With a file that a process closes it loses the locks that connections hold on it, and
// another process would take the log for unused.
func TestCheckpoint_KeepsFileLocked(t *testing.T) {
	db := open(t, newFile(t), Options{})
	scratch(t, db)
	for range 3 * checkEvery {
		fill(t, db, "a", checkpointAt)
	}
	file, err := os.Open(db.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // after the store's, which come later
	// SQLite's shared lock, as another process would ask for it.
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 0x40000002, Len: 510}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		t.Fatal(err)
	}
	if lock.Type == unix.F_UNLCK {
		t.Error("no lock is held on the store's file")
	}
}
