package sqlite

import (
	"fmt"
	"path/filepath"
	"syscall"
)

// minRoom is how much of the disk is left to what has begun. A reservation is the
// one fact that others must follow, whatever happens, so it is the one that is not
// made while they might not fit. It is several times what SQLite's log can grow to
// before it is written back.
const minRoom = 16 << 20

// checkRoom refuses while the disk is as good as full.
func (db *DB) checkRoom() error {
	free, err := db.free()
	if err != nil {
		return fmt.Errorf("ask how much room the disk has: %w", err)
	}
	if free < minRoom {
		return fmt.Errorf("the disk is full: of the %d MB that have to stay free for what has begun, %d are left", minRoom>>20, free>>20)
	}
	return nil
}

// freeSpace asks how many bytes the disk with a file has for us.
func freeSpace(path string) func() (int64, error) {
	folder := filepath.Dir(path)
	return func() (int64, error) {
		var disk syscall.Statfs_t
		err := retryInterrupted(func() error { return syscall.Statfs(folder, &disk) })
		return int64(disk.Bavail) * int64(disk.Bsize), err
	}
}
