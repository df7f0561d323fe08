//go:build !linux

package postgres

import "syscall"

// setUserTimeout does nothing: keep-alive probes notice a server that is gone.
func setUserTimeout(_, _ string, _ syscall.RawConn) error { return nil }
