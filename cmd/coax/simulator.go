package main

import (
	"fmt"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

// simulatorListener is the default address: a free loopback port.
const simulatorListener = "127.0.0.1:0"

func (a *app) simulatorCommand() *cobra.Command {
	var addr, state string
	command := &cobra.Command{
		Use:   "simulator [--addr HOST:PORT] [--state FILE]",
		Short: "Run a provider to try things with, in a process of its own",
		Long: `Run a provider to try things with, in a process of its own; demo has one inside. It
remembers every reference, carries out each at most once, and reports its status.

The customer's mobile picks how it behaves: 90000Sxxxx, where S is 0 for success, 1 for a
rejection, 2 for work done without a reply, 3 for no work and no reply, 4 for a 503, 5 for an
answer with a wrong reference, 6 for a combo without its add-on, 7 for success that takes
2 s, 8 for no reply now or later, 9 for work done and a connection that drops. With any
other number it succeeds. /control/script, /control/status and /control/calls steer and show it.`,
		Example: "  coax simulator --addr 127.0.0.1:9500 --state provider.json\n  coax serve --config coax.toml --set provider.url=http://127.0.0.1:9500",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := server.FindSetting("server.addr").Read(&server.Config{}, addr); err != nil {
				return usage("--addr: %v", err)
			}
			server.SetGCPercent(a.environ)
			provider, err := demo.StartSimulator(addr, state)
			if err != nil {
				return err
			}
			defer provider.Stop()
			fmt.Fprintf(a.out, "The simulator listens on %s\n", provider.URL)
			<-c.Context().Done()
			return nil
		},
	}
	command.Flags().StringVar(&addr, "addr", simulatorListener, "`HOST:PORT` to listen on; port 0 takes a free one")
	command.Flags().StringVar(&state, "state", "", "`FILE` to save its state in; none keeps it in memory")
	return command
}
