//go:build long

package growth

import "time"

// SizeOf returns the size of a store with this many operations.
func SizeOf(operations int) Size { return shapeOf(operations).books(time.Time{}).size() }
