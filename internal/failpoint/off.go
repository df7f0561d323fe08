//go:build !failpoints

// Package failpoint lets tests break a running program at named places. Without
// the build tag failpoints, as it ships, a place costs nothing and does nothing.
package failpoint

// Enabled reports whether places can break at all.
const Enabled = false

// Hit is a place where a test may break the program.
func Hit(string) error { return nil }
