//go:build !linux

package server

import "os"

// moveNew gives a file a new name, and fails if that is taken. The caller removes the old one.
func moveNew(from, to string) error { return os.Link(from, to) }
