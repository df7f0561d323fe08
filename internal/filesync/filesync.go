// Package filesync waits until files and folders are on the disk.
package filesync

import (
	"errors"
	"os"
	"syscall"
)

// Folder waits until the names in a folder are on the disk, so that a new file survives a
// power cut.
func Folder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	err = folder.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // some network file systems cannot
	}
	return errors.Join(err, folder.Close())
}
