package sqlite

import (
	"os"
	"syscall"
)

// flush waits until the disk has the file's contents. When it was last written is not
// among them, which a whole fsync would wait for.
func flush(file *os.File) error {
	return retryInterrupted(func() error { return syscall.Fdatasync(int(file.Fd())) })
}
