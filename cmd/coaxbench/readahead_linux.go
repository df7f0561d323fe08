package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// forget writes a file to the disk and drops it from the page cache.
func forget(file *os.File) error {
	if err := file.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// expectAnyOrder makes the system cache single pages of a file, not large folios of up to two
// megabytes as in a sequential read: changing a page of a folio scans the whole folio.
func expectAnyOrder(file *os.File) error {
	return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_RANDOM)
}
