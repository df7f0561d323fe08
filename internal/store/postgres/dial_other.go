//go:build !linux

package postgres

import "syscall"

// setUserTimeout does nothing: keep-alive probes detect a dead server.
func setUserTimeout(_, _ string, _ syscall.RawConn) error { return nil }
