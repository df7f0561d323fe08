// Command pgserver starts a PostgreSQL server, runs a command that finds it in its
// environment, stops the server, and exits with the command's status. With it, all
// packages of a test run share one server.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/coaxhq/coax/internal/store/pgtest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: pgserver COMMAND [ARGUMENT ...]")
		os.Exit(2)
	}
	os.Exit(run(os.Args[1], os.Args[2:]))
}

func run(name string, args []string) int {
	server, err := pgtest.StartForRun()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgserver:", err)
		return 1
	}
	defer server.Stop()
	// Ctrl-C reaches the command by itself; the server is stopped after it.
	signal.Ignore(os.Interrupt)
	command := exec.Command(name, args...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Env = append(os.Environ(), server.Environ())
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	err = command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "pgserver:", err)
		return 1
	}
	if code := command.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	return 1 // a signal ended it
}
