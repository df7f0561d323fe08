package filesync

import (
	"errors"
	"os"
	"syscall"
)

// Data waits until a file's contents are on the disk. Unlike fsync it does not wait for the
// modification time.
func Data(file *os.File) error {
	for {
		if err := syscall.Fdatasync(int(file.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
