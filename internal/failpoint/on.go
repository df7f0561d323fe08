//go:build failpoints

// Package failpoint lets tests break a running program at named places. This is
// the form with the build tag failpoints: the environment's COAX_FAILPOINT says
// which place breaks, and how.
package failpoint

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
)

// Enabled reports whether places can break at all.
const Enabled = true

// armed is the place that breaks and how: NAME=kill ends the process as a power
// failure would, NAME=error fails once, NAME=panic panics once.
var armed, action, _ = strings.Cut(os.Getenv("COAX_FAILPOINT"), "=")

var sprung atomic.Bool

// Hit breaks the program if this is the place, the first time it is come by.
func Hit(name string) error {
	if name != armed || !sprung.CompareAndSwap(false, true) {
		return nil
	}
	switch action {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "panic":
		panic("failpoint " + name)
	}
	return errors.New("failpoint " + name)
}
