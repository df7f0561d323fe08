package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/spf13/cobra"
)

func (a *app) serveCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run one node of the service",
		Long: `Run one node of the service until SIGTERM or Ctrl-C, which end it cleanly: requests
that are under way are answered, new ones are not accepted. SIGHUP reads the TLS
certificate again, and opens log.security_file again. Logs go to standard error, one
JSON object a line.

The schema is brought up to date at start. Settings that are insecure are logged as
warnings then; with strict = true, serve refuses them all at once and does not start.`,
		Example: "  coax serve --config /etc/coax/coax.toml\n  coax serve --config coax.toml --set server.addr=0.0.0.0:8443 --set log.level=warn",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return stoppedIsDone(c.Context(), a.serve(c.Context()))
		},
	}
	a.addConfigFlags(command)
	a.addNewStoreFlag(command)
	return command
}

func (a *app) serve(ctx context.Context) error {
	config, err := a.config()
	if err != nil {
		return err
	}
	if config.Clock.Offset != 0 {
		return errors.New("clock.offset is for demo only: a service with a wrong clock would set wrong expiries; remove it")
	}
	log, err := server.NewLogger(a.err, config, "json")
	if err != nil {
		return err
	}
	defer telemetry.Flush(log)
	server.SetMemoryLimit(a.environ)
	if config.Store.Kind == "sqlite" {
		server.AddProcessor(a.environ)
	}
	node, err := server.Open(ctx, config, a.environ, log, server.Clock(config.Clock.Offset))
	if err != nil {
		return err
	}
	if err := node.Listen(); err != nil {
		return errors.Join(err, node.Close())
	}
	// What the start used is given back before the collector runs less often.
	debug.FreeOSMemory()
	server.SetGCPercent(a.environ)
	return errors.Join(node.Serve(ctx), node.Close())
}

// stoppedIsDone treats being stopped during the start as a clean end.
func stoppedIsDone(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (a *app) migrateCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "migrate --config FILE",
		Short: "Bring the store's schema up to date, and do nothing else",
		Long: `Bring the store's schema up to date, and do nothing else. serve and demo do the same
when they start; this command does it beforehand.`,
		Example: "  coax migrate --config /etc/coax/coax.toml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := a.config()
			if err != nil {
				return err
			}
			store, err := server.OpenStore(c.Context(), config, server.StoreOptions{Progress: func(text string) { fmt.Fprintln(a.out, text) }})
			if err != nil {
				return err
			}
			if err := server.SignActions(c.Context(), config, a.environ, store); err != nil {
				return errors.Join(err, store.Close())
			}
			if err := store.Close(); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "The schema of %s is up to date.\n", config.Store.Place())
			return nil
		},
	}
	a.addConfigFlags(command)
	a.addNewStoreFlag(command)
	return command
}
