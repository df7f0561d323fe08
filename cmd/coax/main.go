// Command coax is the whole of Coax: the service, its demo, its administration
// and the tools of those who integrate with it.
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
	// A second Ctrl-C ends a process that does not drain fast enough for its
	// user; nothing that was answered can be lost by that.
	context.AfterFunc(ctx, stop)
	// net/http prints stray bytes of the other side through the standard
	// logger. Nothing of ours uses it, and nobody vouches for those bytes.
	log.SetOutput(io.Discard)
	program := &app{out: os.Stdout, err: os.Stderr, environ: os.Environ(), ownProcess: true}
	os.Exit(program.run(ctx, os.Args[1:]))
}
