package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

func (a *app) demoCommand() *cobra.Command {
	var folder, addr string
	var untilEOF, history bool
	command := &cobra.Command{
		Use:   "demo [--dir DIR] [--addr HOST:PORT]",
		Short: "Run a whole Coax with nothing to configure",
		Long: `Run a whole Coax with nothing to configure: a certificate of its own, an embedded store, a
few plans, an operator who has an API key and 10,000.00 to spend, and logins for the pages.
It prints where to sign in, and a first command to try. Ctrl-C ends it; started again in the same folder it finds everything again.

With --history a new demo has three months behind it: some hundred made-up subscribers, what
they bought, what went wrong, and two more operators. The wallet holds 10,000.00 all the same.
A demo that was created without a history stays without one.

Settings given with --set are saved in DIR/coax.toml, so that coax admin --config
DIR/coax.toml works on the same store, also while the demo runs.`,
		Example: "  coax demo\n  coax demo --dir /tmp/try --addr 127.0.0.1:0 --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("addr") {
				addr = "" // server.addr may say otherwise
			} else if err := server.FindSetting("server.addr").Read(&server.Config{}, addr); err != nil {
				return usage("--addr: %v", err)
			}
			ctx := c.Context()
			if untilEOF {
				var stop context.CancelFunc
				ctx, stop = context.WithCancel(ctx)
				defer stop()
				go func() {
					_, _ = io.Copy(io.Discard, c.InOrStdin())
					stop()
				}()
			}
			return stoppedIsDone(ctx, demo.Run(ctx, demo.Options{
				Folder: folder, Addr: addr, Sets: a.sets, Environ: a.environ, NewStore: a.newStore, History: history,
				Log: a.err, JSONLog: a.asJSON, Ready: a.announce,
			}))
		},
	}
	command.Flags().StringVar(&folder, "dir", "coax-demo", "the `DIR` for everything; created if it is missing")
	command.Flags().StringVar(&addr, "addr", server.DefaultAddr, "`HOST:PORT` to serve on; port 0 takes a free one")
	command.Flags().BoolVar(&a.asJSON, "json", false, "print one line of JSON once ready, for scripts")
	command.Flags().BoolVar(&untilEOF, "until-eof", false, "end when standard input is closed, as it is when the process that started the demo dies")
	command.Flags().BoolVar(&history, "history", false, "give a new demo three months of made-up history")
	a.addSetFlag(command)
	a.addNewStoreFlag(command)
	return command
}

// passkeysURL returns the panel's address with the machine's name in place of its loopback
// address, because passkeys work at names only.
func passkeysURL(panel string) string {
	at, err := url.Parse(panel)
	if err != nil {
		return panel
	}
	if addr, err := netip.ParseAddr(at.Hostname()); err == nil && addr.IsLoopback() {
		at.Host = net.JoinHostPort("localhost", at.Port())
	}
	return at.String()
}

// announce prints that the demo is ready: one line of JSON for a script, or where to
// begin for a person.
func (a *app) announce(info demo.Info) error {
	if a.asJSON {
		return json.NewEncoder(a.out).Encode(info)
	}
	program, err := os.Executable()
	if err != nil {
		program = "coax"
	}
	folder := filepath.Dir(info.Config)
	file := server.ShellQuote(filepath.Join(folder, "demo.json"))
	_, err = fmt.Fprintf(a.out, `
  Coax is running.

  Panel        %s  (the certificate is the demo's own, so the browser warns)
  Passkeys     need a name: open the panel as %s
  Operator     sign in as %s with %s
  Staff        sign in as %s with %s
  Finance      sign in as %s with %s, to approve what %s proposes

  API          %s
  Account      lco %d, with a prepaid wallet
  API key      %s
  API secret   %s
  CA           %s
  Simulator    %s
  Metrics      %s/metrics

  Make a first signed call, from another terminal:

    %s call GET /api/v1/balance --credentials %s

  Activate a subscriber:

    %s call POST /api/v1/activate --idempotency-key first-order --credentials %s \
        --data '{"full_name":"Asha Rao","mobile":"9876543210","plan_id":"BASIC-1"}'

  Show the operator's ledger:

    %s admin --config %s ledger --lco %d

  Ctrl-C ends it. Started again with --dir %s it finds everything again.

`, info.PanelURL, passkeysURL(info.PanelURL), info.Operator.Username, info.Operator.Password, info.Admin.Username, info.Admin.Password,
		info.Finance.Username, info.Finance.Password, info.Admin.Username,
		info.BaseURL, info.LCOID, info.APIKey, info.APISecret, info.CACert, info.SimulatorURL, info.InternalURL,
		server.ShellQuote(program), file, server.ShellQuote(program), file, server.ShellQuote(program), server.ShellQuote(info.Config), info.LCOID, server.ShellQuote(folder))
	return err
}
