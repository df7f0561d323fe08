//go:build !manpages

// Command coax is the service, its demo, its administration and the tools for integrators.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the process without draining. Nothing that was answered is lost.
	context.AfterFunc(ctx, stop)
	// net/http's client prints unexpected bytes of a server through the standard logger,
	// which we do not use. They are untrusted.
	log.SetOutput(io.Discard)
	program := &app{out: os.Stdout, err: os.Stderr, environ: os.Environ(), ownProcess: true}
	os.Exit(program.run(ctx, os.Args[1:]))
}
