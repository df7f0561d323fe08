//go:build !linux

package filesync

import "os"

// Data waits until a file's contents are on the disk.
func Data(file *os.File) error { return file.Sync() }
