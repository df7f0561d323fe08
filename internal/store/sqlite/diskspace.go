package sqlite

import (
	"fmt"
	"path/filepath"
	"syscall"
)

// minFreeSpace is how much disk space is kept for operations that have started. A
// reservation must be followed by a settlement, so it is refused while the settlement
// might not fit. This is several times what SQLite's log grows to before a checkpoint.
const minFreeSpace = 16 << 20

// checkSpace returns an error while the disk is nearly full.
func (db *DB) checkSpace() error {
	free, err := db.free()
	if err != nil {
		return fmt.Errorf("read the free disk space: %w", err)
	}
	if free < minFreeSpace {
		return fmt.Errorf("the disk is full: of the %d MB that are kept free for operations that have started, %d are left", minFreeSpace>>20, free>>20)
	}
	return nil
}

// freeSpace returns a function that reads how many bytes are free on a file's disk.
func freeSpace(path string) func() (int64, error) {
	folder := filepath.Dir(path)
	return func() (int64, error) {
		var disk syscall.Statfs_t
		err := retryInterrupted(func() error { return syscall.Statfs(folder, &disk) })
		return int64(disk.Bavail) * int64(disk.Bsize), err
	}
}
