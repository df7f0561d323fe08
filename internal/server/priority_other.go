//go:build !linux

package server

// LowerPriority does nothing on this system.
func LowerPriority() {}
