package sqlite

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// stretches is how many parts of a file are brought to the disk one after the other,
	// where there is much to bring.
	stretches = 512
	// leastStretch keeps a small file from being asked for in vain.
	leastStretch = 1 << 20
)

// flush waits until the disk has the file's contents. When it was last written is not
// among them, which a whole fsync would wait for. Where many pages are to be brought,
// as after a long read, it takes a stretch of the file at a time: whoever commits
// meanwhile waits behind the pages that are on their way, which took a second for all
// that an audit had left.
func flush(file *os.File, many bool) error {
	if many {
		if err := flushByStretches(file); err != nil {
			return err
		}
	}
	return retryInterrupted(func() error { return unix.Fdatasync(int(file.Fd())) })
}

func flushByStretches(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("ask how large the store's file is: %w", err)
	}
	const waiting = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	stretch := max(info.Size()/stretches, leastStretch)
	for at := int64(0); at < info.Size(); at += stretch {
		err := retryInterrupted(func() error { return unix.SyncFileRange(int(file.Fd()), at, stretch, waiting) })
		switch {
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
			return nil // not every file system knows stretches, and that is no failure of the disk
		case err != nil:
			return err
		}
	}
	return nil
}
