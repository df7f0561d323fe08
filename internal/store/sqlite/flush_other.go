//go:build !linux

package sqlite

import "os"

// flush waits until the disk has the file's contents.
func flush(file *os.File) error { return file.Sync() }
