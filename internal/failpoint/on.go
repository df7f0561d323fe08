//go:build failpoints

// Package failpoint lets tests break a running program at named points. This is the form
// with the build tag failpoints: the environment variable COAX_FAILPOINT says which point
// breaks, and how.
package failpoint

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Enabled reports whether failpoints are compiled in.
const Enabled = true

// armed is the failpoint that breaks, and action how: NAME=kill ends the process as a power
// failure would, NAME=error fails once, NAME=panic panics once, NAME=hold reports it on
// stderr and waits for SIGCONT. It breaks at the first hit, NAME=kill@17 at the seventeenth.
var armed, action, atHit = parse(os.Getenv("COAX_FAILPOINT"))

func parse(text string) (name, action string, atHit int64) {
	name, rest, _ := strings.Cut(text, "=")
	action, number, counted := strings.Cut(rest, "@")
	if !counted {
		return name, action, 1
	}
	atHit, err := strconv.ParseInt(number, 10, 64)
	if err != nil || atHit < 1 {
		// A failpoint that never breaks would look like a program that survives it.
		panic("COAX_FAILPOINT: " + text + " does not say at which hit")
	}
	return name, action, atHit
}

var hits atomic.Int64

// Hit breaks the program if this is the armed failpoint, at the chosen hit.
func Hit(name string) error {
	if name != armed || hits.Add(1) != atHit {
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
