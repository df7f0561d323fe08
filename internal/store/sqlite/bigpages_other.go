//go:build !linux

package sqlite

// bigPages is memory for the life of the process, outside of Go's; nil here, where
// nobody has measured what it is good for.
func bigPages(int) []byte { return nil }
