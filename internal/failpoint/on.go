//go:build failpoints

// Package failpoint lets tests break a running program at named places. This is
// the form with the build tag failpoints: the environment's COAX_FAILPOINT says
// which place breaks, and how.
package failpoint

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
)

// Enabled reports whether places can break at all.
const Enabled = true

// armed is the place that breaks and how: NAME=kill ends the process as a power
// failure would, NAME=error fails once, NAME=panic panics once, NAME=hold says
// so on stderr and stays there until the process is continued (SIGCONT).
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
	case "hold":
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, syscall.SIGCONT)
		fmt.Fprintln(os.Stderr, "failpoint", name, "holds")
		<-continued
		signal.Stop(continued)
		return nil
	case "panic":
		panic("failpoint " + name)
	}
	return errors.New("failpoint " + name)
}
