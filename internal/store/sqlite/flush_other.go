//go:build !linux

package sqlite

import "os"

// flush waits until the file's contents are on the disk.
func flush(file *os.File) error { return file.Sync() }
