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

// FolderLock is a folder that one process has to itself.
type FolderLock struct{ file *os.File }

// Close lets others in. It unlocks before it closes: a child that is being
// started at this moment still shares the file, and would share the lock.
func (l *FolderLock) Close() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// LockFolder keeps a second node out of a folder, by a file in it. The lock goes
// with the process, however it ends.
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

// turnstile lets `coax admin` write beside a busy node. SQLite's own lock has
// no queue, so a writer that comes back at once can keep another one out for
// seconds. A node therefore passes the turnstile before each batch, and a tool
// holds it from before its transaction until after: it waits for one batch of
// the node's at most, and the node waits for one transaction of the tool's.
type turnstile struct {
	file *os.File
	// holds: stay in the turnstile while writing, as a tool does.
	holds bool
}

// turnstilePatience is how long a node waits for a tool that stands still in
// the turnstile. The turnstile is for fairness; SQLite's own lock keeps two
// writers apart, so going on is safe.
const turnstilePatience = 2 * time.Second

// courtesy is how long a tool steps aside before each turn, so that one with much
// to write, such as an import, does not keep the node from writing at all.
const courtesy = 2 * time.Millisecond

// enter waits for the turn and returns what ends it.
func (t turnstile) enter() (leave func(), err error) {
	fd := int(t.file.Fd())
	if t.holds {
		time.Sleep(courtesy)
		if err := retryInterrupted(func() error { return syscall.Flock(fd, syscall.LOCK_EX) }); err != nil {
			return nil, fmt.Errorf("wait for the turn to write: %w", err)
		}
		return func() { _ = syscall.Flock(fd, syscall.LOCK_UN) }, nil
	}
	for waited := time.Duration(0); waited < turnstilePatience; {
		err := retryInterrupted(func() error { return syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB) })
		if err == nil {
			_ = syscall.Flock(fd, syscall.LOCK_UN)
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("pass the turnstile: %w", err)
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
