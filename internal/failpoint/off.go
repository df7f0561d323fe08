//go:build !failpoints

// Package failpoint lets tests break a running program at named points. Without the build
// tag failpoints, as it ships, a failpoint costs nothing and does nothing.
package failpoint

// Enabled reports whether failpoints are compiled in.
const Enabled = false

// Hit is a point where a test may break the program.
func Hit(string) error { return nil }
