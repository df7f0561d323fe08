package generator

import (
	"syscall"
	"time"
)

// sleepExactly waits in the kernel. The runtime's timers are kept to the
// millisecond when nothing else wakes it, which is as long as a request takes.
func sleepExactly(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}
