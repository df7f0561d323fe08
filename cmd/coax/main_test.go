package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

const (
	// cliAsProgram makes the test binary be coax itself, so that the race
	// detector sees what runs in processes of their own, too.
	cliAsProgram = "COAX_TEST_AS_PROGRAM"
	// cliParentPipe says that file 3 is a pipe whose other end the test holds.
	cliParentPipe = "COAX_TEST_PARENT_PIPE"
)

func TestMain(m *testing.M) {
	if os.Getenv(cliAsProgram) == "1" {
		os.Exit(cliBeProgram())
	}
	looktest.Host()
	code := m.Run()
	looktest.Close()
	removeFurnished()
	cliEndShared()
	pgtest.StopShared()
	if code == 0 && everyTestRan() {
		code = received.report(os.Stderr, fault.Contract)
	}
	pgtest.StopShared()
	os.Exit(code)
}

// cliBeProgram is main, word for word, but for what a test needs.
func cliBeProgram() int {
	if os.Getenv(cliParentPipe) == "1" {
		// What this process starts has no such pipe.
		_ = os.Unsetenv(cliParentPipe)
		// A test run that is killed must not leave services behind.
		go func() {
			_, _ = io.Copy(io.Discard, os.NewFile(3, "parent"))
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}()
	}
	var environ []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "COAX_TEST_") {
			environ = append(environ, entry)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	program := &app{out: os.Stdout, err: os.Stderr, environ: environ, giveWay: giveWay}
	return program.run(ctx, os.Args[1:])
}
