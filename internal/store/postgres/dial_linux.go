package postgres

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// userTimeout is how long sent data may stay unacknowledged. A COMMIT has no deadline, so
// this timeout has to detect a dead server.
const userTimeout = 10 * time.Second

func setUserTimeout(_, _ string, conn syscall.RawConn) error {
	var failure error
	err := conn.Control(func(fd uintptr) {
		failure = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout/time.Millisecond))
	})
	if err != nil {
		return err
	}
	if failure == unix.ENOPROTOOPT || failure == unix.EOPNOTSUPP {
		return nil // a Unix socket, where the kernel reports a dead peer
	}
	return failure
}
