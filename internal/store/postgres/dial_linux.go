package postgres

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// silence is how long a server may leave what was sent unacknowledged. A COMMIT
// has no deadline, so a server that is gone without a word must be noticed here.
const silence = 10 * time.Second

func giveUpOnSilence(_, _ string, conn syscall.RawConn) error {
	var failure error
	err := conn.Control(func(fd uintptr) {
		failure = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence/time.Millisecond))
	})
	if err != nil {
		return err
	}
	if failure == unix.ENOPROTOOPT || failure == unix.EOPNOTSUPP {
		return nil // a socket in the file system: its other end cannot go silently
	}
	return failure
}
