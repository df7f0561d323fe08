package sqlite

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/coaxhq/coax/internal/fileowner"
)

// FolderLock keeps other nodes out of a folder.
type FolderLock struct{ file *os.File }

// Close releases the lock. It unlocks before it closes the file: a child process that is
// being started at this moment still shares the file, and would share the lock.
func (l *FolderLock) Close() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// LockFolder locks a folder by a file in it. The lock ends with the process.
func LockFolder(path string) (*FolderLock, error) {
	file, err := fileowner.OpenFile(path, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the folder's lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path)
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another node (process %s) serves from this folder: stop it, or give this one a folder of its own (%s)",
				strings.TrimSpace(string(holder)), path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// For the message above only; the lock is what counts.
	if err := file.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(file, os.Getpid())
	}
	return &FolderLock{file}, nil
}

// writeLock lets `coax admin` write beside a busy node. SQLite's own lock has no queue,
// so a process that takes it again at once can keep another one out for seconds. A node
// therefore waits before each batch until no tool has the lock, and a tool holds it for
// its whole transaction. The tool waits for at most one batch of the node, and the node
// for one transaction of the tool. The file is named .turnstile.
type writeLock struct {
	file *os.File
	// exclusive: hold the lock while writing, as a tool does.
	exclusive bool
}

// writeLockTimeout is how long a node waits for a tool that hangs. The lock is only for
// fairness: SQLite's own lock keeps two writers apart, so going on is safe.
const writeLockTimeout = 2 * time.Second

// toolPause is how long a tool waits before each transaction, so that one with much to
// write, such as an import, leaves the node time to write.
const toolPause = 2 * time.Millisecond

// acquire waits for the lock and returns a function that releases it.
func (l writeLock) acquire() (release func(), err error) {
	fd := int(l.file.Fd())
	if l.exclusive {
		time.Sleep(toolPause)
		if err := retryInterrupted(func() error { return syscall.Flock(fd, syscall.LOCK_EX) }); err != nil {
			return nil, fmt.Errorf("wait for the write lock: %w", err)
		}
		return func() { _ = syscall.Flock(fd, syscall.LOCK_UN) }, nil
	}
	for waited := time.Duration(0); waited < writeLockTimeout; {
		err := retryInterrupted(func() error { return syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB) })
		if err == nil {
			_ = syscall.Flock(fd, syscall.LOCK_UN)
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("wait for the write lock: %w", err)
		}
		const pause = 200 * time.Microsecond
		time.Sleep(pause)
		waited += pause
	}
	return func() {}, nil
}

func retryInterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
