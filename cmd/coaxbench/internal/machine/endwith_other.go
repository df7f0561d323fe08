//go:build !linux

package machine

import "syscall"

func endWithParent(*syscall.SysProcAttr) {}
