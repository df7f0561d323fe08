package sqlite

import (
	"os"
	"syscall"
)

// flush waits until the file's contents are on the disk. Unlike fsync it does not wait
// for the modification time.
func flush(file *os.File) error {
	return retryInterrupted(func() error { return syscall.Fdatasync(int(file.Fd())) })
}
