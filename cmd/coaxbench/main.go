// Command coaxbench measures Coax beside what its parts can do: it starts nodes, a
// provider simulator and databases, loads them, and compares. It also fills the large
// stores that are measured. It is no part of the product.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

// Exit codes, the same as coax has.
const (
	exitDone    = 0
	exitRefused = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit((&app{out: os.Stdout, err: os.Stderr}).run(ctx, os.Args[1:]))
}

// app is one run of the program.
type app struct {
	out, err io.Writer
	// coax is the path of the binary that is measured.
	coax string
	// began is set once a command's RunE runs; errors before that are usage errors.
	began bool
}

// usageError is a usage mistake that only the command's own code could find.
type usageError struct{ reason string }

func (e *usageError) Error() string { return e.reason }

func usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

func (a *app) run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:   "coaxbench",
		Short: "Measure Coax beside what its parts can do",
		Long: `Measure Coax beside what its parts can do, and fill the large stores that are measured.
coax bench is the small form of load.`,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.PersistentPreRun = func(*cobra.Command, []string) { a.began = true }
	root.AddCommand(a.compareCommand(), a.loadCommand(), a.fillCommand(), a.bareHandlerCommand())
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(a.err, "coaxbench: %s\n", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n           "))
	var usage *usageError
	if !a.began || errors.As(err, &usage) {
		fmt.Fprintf(a.err, "Try `%s --help`.\n", command.CommandPath())
		return exitUsage
	}
	return exitRefused
}

func (a *app) addCoaxFlag(command *cobra.Command) {
	command.Flags().StringVar(&a.coax, "coax", "", "the coax `BINARY` to run; default: the one beside this program, or else in PATH")
}

// findCoax finds the coax binary beside this program, or else in PATH, if --coax does
// not name one.
func (a *app) findCoax() error {
	if a.coax != "" {
		return nil
	}
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), "coax")
		if _, err := os.Stat(beside); err == nil {
			a.coax = beside
			return nil
		}
	}
	path, err := exec.LookPath("coax")
	if err != nil {
		return usage("which coax? There is none beside this program and none in PATH: give --coax BINARY")
	}
	a.coax = path
	return nil
}

// coaxCommand is the measured binary with arguments, in an environment without COAX_*
// settings.
func (a *app) coaxCommand(args ...string) *exec.Cmd {
	command := exec.Command(a.coax, args...)
	command.Env = server.WithoutSettings(os.Environ())
	return command
}

// counted returns "1 client", "2 clients".
func counted[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
