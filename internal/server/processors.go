package server

import (
	"runtime"
)

// processors is Go's own GOMAXPROCS.
var processors = runtime.GOMAXPROCS(0)

// AddProcessor raises GOMAXPROCS by one for a node on SQLite, unless the environment sets
// it. While SQLite's writer waits for the disk, Go counts its thread as running, and would
// leave one processor idle: half of a small machine.
func AddProcessor(environ []string) {
	if !isSet(environ, "GOMAXPROCS") {
		runtime.GOMAXPROCS(processors + 1)
	}
}
