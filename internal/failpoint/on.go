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
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Enabled reports whether places can break at all.
const Enabled = true

// armed is the place that breaks and how: NAME=kill ends the process as a power
// failure would, NAME=error fails once, NAME=panic panics once, NAME=hold says
// so on stderr and stays there until the process is continued (SIGCONT). It
// breaks the first time it is come by; NAME=kill@17 does so the seventeenth time.
var armed, action, turn = parse(os.Getenv("COAX_FAILPOINT"))

func parse(text string) (name, action string, turn int64) {
	name, rest, _ := strings.Cut(text, "=")
	action, number, counted := strings.Cut(rest, "@")
	if !counted {
		return name, action, 1
	}
	turn, err := strconv.ParseInt(number, 10, 64)
	if err != nil || turn < 1 {
		// A place that never breaks would look like a program that survives it.
		panic("COAX_FAILPOINT: " + text + " does not say which time")
	}
	return name, action, turn
}

var passed atomic.Int64

// Hit breaks the program if this is the place and its time has come.
func Hit(name string) error {
	if name != armed || passed.Add(1) != turn {
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
