package server

import (
	"runtime"
)

// processors is how many Go would use by itself.
var processors = runtime.GOMAXPROCS(0)

// WaitBesideWork has Go work on as many processors as there are while SQLite's writer
// waits for the disk. That thread is not known to be waiting: Go takes it for one
// that works, and would leave a processor to it, half of a small machine. Whoever has
// set GOMAXPROCS has decided themselves.
func WaitBesideWork(environ []string) {
	if !isSet(environ, "GOMAXPROCS") {
		runtime.GOMAXPROCS(processors + 1)
	}
}
