package server

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// moveNew renames a file, and fails if the new name is taken. File systems without it, as
// some network ones, have hard links instead.
func moveNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		return os.Link(from, to) // the caller removes the old name
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
