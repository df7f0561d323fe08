package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// forget has the system write a file out and drop what it keeps of it in its memory.
func forget(file *os.File) error {
	if err := file.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// expectAnyOrder has the system keep a file in its memory as it is read, and not in
// pieces of up to two megabytes, as it does with what is read from beginning to end:
// whoever changes a page in such a piece has the whole piece looked through.
func expectAnyOrder(file *os.File) error {
	return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_RANDOM)
}
