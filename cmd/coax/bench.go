package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/bench"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/spf13/cobra"
)

const (
	benchMaxConnections = 4000
	benchMaxSubscribers = 1_000_000
	// benchRate is how many renewals a second there are subscribers for, unless
	// somebody says how many there should be.
	benchRate = 4000
)

// benchFlags is what a bench was asked for.
type benchFlags struct {
	credentials      string
	only             string
	reads            string
	duration, warmup time.Duration
	connections      int
	subscribers      int
	remoteProvider   bool
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	command := &cobra.Command{
		Use:   "bench [--credentials FILE [--config FILE]]",
		Short: "Load a server with signed reads and renewals, measure it, and audit its books",
		Long: `Load a server with signed requests over HTTPS, first reads and then renewals; print how many a
second were answered and how long they took, and audit the books afterwards.

Alone it starts a server of its own, a demo in the system's temporary folder (TMPDIR moves it:
the disk beneath counts, because everything answered is on it), and removes both at the end.
The server, its simulated provider and the bench then share this machine.

With --credentials it loads the server that these name. If a configuration is known, from
--config or from what demo wrote, the bench works in that server's store as a member of staff
would: it makes operators, plans and subscribers of its own, called "Coax bench …", loads with
those alone, and ends by revoking their keys, retiring the plans, taking back the unspent play
money and closing the accounts. What was renewed stays in the books. Renewals become orders at
the server's provider: if that is not on this machine, they are sent only with --remote-provider.

Without a configuration there is nothing to renew, for the given operator's money is not the
bench's to spend. Only balance and plans are read then, with the given key, at nine tenths of
its rate limit; the last tenth of every minute is left to the key's owner.

The load is a closed loop: each connection sends its next request when the last is answered.
A latency is the time from before a request is signed until its answer is read. No renewal
repeats another of the same subscriber and plan within 2 minutes, so a long or fast run needs
many --subscribers.

Exits with 1 if an answer was neither 200 nor 202 (an outcome the provider has left open: held
and followed up), if the store does not hold exactly what was answered, to the paisa, or if the
audit finds anything.`,
		Example: `  coax bench
  coax bench --only renewals --duration 30s --connections 128
  coax bench --credentials .demo/demo.json --reads balance --only reads --json | jq '.phases[0].latency_ms'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c, a.configFile); err != nil {
				return err
			}
			return a.bench(c.Context(), f)
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.credentials, "credentials", "", "load the server that `FILE` names, as demo writes it (base_url, ca_cert, config); none starts one")
	flags.StringVar(&f.only, "only", "", "load with `reads` or renewals alone")
	flags.StringVar(&f.reads, "reads", bench.Mix, "what to read: `KIND` is balance, plans, subscription, transaction, or mix for each in turn")
	flags.DurationVar(&f.duration, "duration", 10*time.Second, "how long each phase is measured")
	flags.DurationVar(&f.warmup, "warmup", time.Second, "how long each phase is loaded before it is measured")
	flags.IntVar(&f.connections, "connections", 64, "connections, each with one request on its way")
	flags.IntVar(&f.subscribers, "subscribers", 0, "subscribers to renew; none given = enough for 4000 renewals a second")
	flags.BoolVar(&f.remoteProvider, "remote-provider", false, "send renewals although they become orders at a provider on another machine")
	flags.BoolVar(&a.asJSON, "json", false, "print one JSON object at the end")
	a.addConfigFlags(command)
	command.AddCommand(a.benchCompareCommand(), a.benchBareCommand(), a.benchFillCommand())
	return command
}

// check finds what cannot be meant, before anything is started.
func (f *benchFlags) check(c *cobra.Command, configFile string) error {
	switch {
	case f.credentials == "" && (configFile != "" || c.Flags().Changed("set")):
		return usage("--config and --set say which store a given server has: give --credentials FILE too, or neither to start a server")
	case f.only != "" && f.only != "reads" && f.only != "renewals":
		return usage("--only %q: write reads or renewals, or leave it out for both", f.only)
	case f.reads != bench.Mix && !slices.Contains(bench.ReadKinds, f.reads):
		return usage("--reads %q: write %s or mix", f.reads, strings.Join(bench.ReadKinds, ", "))
	case f.only == "renewals" && c.Flags().Changed("reads"):
		return usage("--reads does not go with --only renewals: leave one of them out")
	case f.duration <= 0 || f.duration > 24*time.Hour:
		return usage("--duration %s: write a time above zero, such as 10s, and at most 24h", f.duration)
	case f.warmup < 0 || f.warmup > time.Hour:
		return usage("--warmup %s: write a time of 0s to 1h", f.warmup)
	case f.connections < 1 || f.connections > benchMaxConnections:
		return usage("--connections %d: write a number of 1 to %d", f.connections, benchMaxConnections)
	case c.Flags().Changed("subscribers") && (f.subscribers < f.connections || f.subscribers > benchMaxSubscribers):
		return usage("--subscribers %d: write a number of %d to %d, for every connection has a subscriber of its own", f.subscribers, f.connections, benchMaxSubscribers)
	}
	if f.subscribers == 0 {
		f.subscribers = f.enoughSubscribers()
	}
	return nil
}

// enoughSubscribers is how many are needed for benchRate renewals a second, each
// of them with each of the bench's plans.
func (f *benchFlags) enoughSubscribers() int {
	if !f.renews() {
		return max(f.connections, 1000)
	}
	// After two minutes and a little the first may be renewed again.
	seconds := min(f.warmup+f.duration, 130*time.Second).Seconds()
	return min(f.connections+int(seconds*benchRate)/bench.PlanCount, benchMaxSubscribers)
}

func (f *benchFlags) readsAtAll() bool { return f.only != "renewals" }

func (f *benchFlags) renews() bool { return f.only != "reads" }

// benchReport is what bench --json prints.
type benchReport struct {
	OK bool `json:"ok"`
	// Problems is all that is wrong, one sentence each.
	Problems []string      `json:"problems"`
	Server   benchTarget   `json:"server"`
	Load     benchLoad     `json:"load"`
	Phases   []bench.Phase `json:"phases"`
	// Books and Audit are null where the server's store is not known.
	Books *bench.Books  `json:"books"`
	Audit *audit.Report `json:"audit"`
}

type benchTarget struct {
	BaseURL string `json:"base_url"`
	// Started: the bench has started it itself.
	Started bool `json:"started"`
	// Store is empty where it is not known.
	Store string `json:"store"`
}

type benchLoad struct {
	Connections     int     `json:"connections"`
	WarmupSeconds   float64 `json:"warmup_seconds"`
	DurationSeconds float64 `json:"duration_seconds"`
	// Operators are the bench's own; none where it reads with a given key.
	Operators   []int64 `json:"operators"`
	Subscribers int     `json:"subscribers"`
	Plans       int     `json:"plans"`
	// RateLimit is what one operator may send in a minute.
	RateLimit int `json:"rate_limit"`
}

// bench finds the server, loads it and says what came of it.
func (a *app) bench(ctx context.Context, f benchFlags) error {
	report := &benchReport{
		Problems: []string{}, Phases: []bench.Phase{},
		Load: benchLoad{Connections: f.connections, WarmupSeconds: f.warmup.Seconds(), DurationSeconds: f.duration.Seconds(), Operators: []int64{}},
	}
	var err error
	if f.credentials == "" {
		err = a.benchOwn(ctx, f, report)
	} else {
		err = a.benchGiven(ctx, f, report)
	}
	if ctx.Err() != nil {
		return errors.New("interrupted: nothing was proved")
	}
	if err != nil {
		return err
	}
	report.OK = len(report.Problems) == 0
	if err := a.showBench(report); err != nil || report.OK {
		return err
	}
	return fmt.Errorf("%s; the first: %s", counted(int64(len(report.Problems)), "problem"), report.Problems[0])
}

// benchOwn starts a server, loads it, and leaves nothing behind.
func (a *app) benchOwn(ctx context.Context, f benchFlags, report *benchReport) (err error) {
	fmt.Fprintln(a.err, "starting a server")
	server, err := startBenchServer(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if problem := server.stop(); problem != nil && ctx.Err() == nil {
			err = errors.Join(problem, err)
		}
	}()
	// The store is that server's, whatever the environment says of others.
	a.configFile, a.environ = server.line.Config, withoutSettings(a.environ)
	report.Server = benchTarget{BaseURL: server.line.BaseURL, Started: true}
	return a.benchStore(ctx, f, credentials{BaseURL: server.line.BaseURL, CACert: server.line.CACert}, report)
}

// benchGiven loads a server that runs already.
func (a *app) benchGiven(ctx context.Context, f benchFlags, report *benchReport) error {
	given, err := a.readCredentials(f.credentials, "base_url")
	if err != nil {
		return err
	}
	if a.configFile == "" {
		if a.configFile, err = configOf(f.credentials); err != nil {
			return err
		}
	}
	report.Server = benchTarget{BaseURL: given.BaseURL}
	if a.configFile == "" {
		return a.benchKey(ctx, f, report)
	}
	config, err := a.config()
	if err != nil {
		return err
	}
	if most := config.Server.MaxConnectionsPerAddress; f.connections > most {
		return usage("--connections %d: the server takes %d from one address; write at most that, or raise its server.max_connections_per_address", f.connections, most)
	}
	orders := f.renews() || f.reads == bench.Transaction
	if orders && !f.remoteProvider && !onThisMachine(config.Provider.URL) {
		return usage("renewals would become orders at the provider %s, which is not on this machine: "+
			"write --only reads, or --remote-provider if that provider may have them", config.Provider.URL)
	}
	return a.benchStore(ctx, f, given, report)
}

// configOf is the configuration that credentials name, if it is on this machine.
func configOf(credentials string) (string, error) {
	text, err := os.ReadFile(credentials)
	if err != nil {
		return "", fmt.Errorf("read the credentials: %w", err)
	}
	var line demo.Info
	if err := json.Unmarshal(text, &line); err != nil {
		return "", fmt.Errorf("the credentials in %s are not the JSON object that demo writes: %w", credentials, err)
	}
	if line.Config == "" {
		return "", nil
	}
	if _, err := os.Stat(line.Config); err != nil {
		return "", nil
	}
	return line.Config, nil
}

// onThisMachine reports whether an address is loopback.
func onThisMachine(address string) bool {
	at, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(at.Hostname())
	return at.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
