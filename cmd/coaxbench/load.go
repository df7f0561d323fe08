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

	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

const (
	loadMaxConnections = 4000
	loadMaxSubscribers = 1_000_000
	// loadRate is the number of renewals a second that there are subscribers for, unless
	// --subscribers says otherwise.
	loadRate = 4000
)

// loadFlags are the flags of coaxbench load.
type loadFlags struct {
	credentials      string
	only             string
	reads            string
	duration, warmup time.Duration
	connections      int
	subscribers      int
	remoteProvider   bool
	config           string
	sets             []string
	asJSON           bool
}

func (a *app) loadCommand() *cobra.Command {
	var f loadFlags
	command := &cobra.Command{
		Use:   "load --credentials FILE [--config FILE]",
		Short: "Load a running server with signed reads and renewals, and audit its books",
		Long: `Load a running server with signed requests over HTTPS, first reads and then renewals; print
requests a second and latencies, and audit the books afterwards. coax bench does the same with a
server of its own.

If the server's configuration is known, from --config or from the file that demo wrote, operators,
plans and subscribers called "Coax bench …" are created in the server's store, and these alone send
the load. At the end their keys are revoked, the plans retired, the unspent play money is taken back
and the operators are deactivated; the renewals stay in the books. Renewals become orders at the
server's provider: if that is not on this machine, they are sent only with --remote-provider.

Without a configuration only balance and plans are read, with the given key, at nine tenths of its
rate limit; the last tenth of every minute is left to the key's owner. Renewals would spend the
given operator's money.

The load is a closed loop: each connection sends its next request when the last is answered.
A latency is the time from before a request is signed until its answer is read. No renewal
repeats another of the same subscriber and plan within 2 minutes, so a long or fast run needs
many --subscribers.

Exits with 1 if an answer was neither 200 nor 202 (outcome unknown: money held, in review), if the
store does not hold exactly what was answered, or if the audit finds a violation.`,
		Example: `  coaxbench load --credentials .demo/demo.json
  coaxbench load --credentials .demo/demo.json --reads balance --only reads --json | jq '.phases[0].latency_ms'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			if err := a.findCoax(); err != nil {
				return err
			}
			return a.load(c.Context(), f)
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.credentials, "credentials", "", "load the server that `FILE` names, as demo writes it (base_url, ca_cert, config)")
	flags.StringVar(&f.only, "only", "", "load with `reads` or renewals alone")
	flags.StringVar(&f.reads, "reads", load.Mix, "what to read: `KIND` is balance, plans, subscription, transaction, or mix for each in turn")
	flags.DurationVar(&f.duration, "duration", 10*time.Second, "how long each phase is measured")
	flags.DurationVar(&f.warmup, "warmup", time.Second, "how long each phase is loaded before it is measured")
	flags.IntVar(&f.connections, "connections", 64, "connections, each with one request at a time")
	flags.IntVar(&f.subscribers, "subscribers", 0, "subscribers to renew; none given = enough for 4000 renewals a second")
	flags.BoolVar(&f.remoteProvider, "remote-provider", false, "send renewals although they become orders at a provider on another machine")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object at the end")
	flags.StringVar(&f.config, "config", "", "the server's configuration `FILE`")
	flags.StringArrayVar(&f.sets, "set", nil, "a setting as `key=value`, over the file; may be repeated")
	a.addCoaxFlag(command)
	return command
}

// check validates the flags.
func (f *loadFlags) check(c *cobra.Command) error {
	switch {
	case f.credentials == "":
		return usage("which server? Give --credentials FILE; coax bench loads a server of its own")
	case f.only != "" && f.only != "reads" && f.only != "renewals":
		return usage("--only %q: write reads or renewals, or leave it out for both", f.only)
	case f.reads != load.Mix && !slices.Contains(load.ReadKinds, f.reads):
		return usage("--reads %q: write %s or mix", f.reads, strings.Join(load.ReadKinds, ", "))
	case f.only == "renewals" && c.Flags().Changed("reads"):
		return usage("--reads does not go with --only renewals: leave one of them out")
	case f.duration <= 0 || f.duration > 24*time.Hour:
		return usage("--duration %s: write a time above zero, such as 10s, and at most 24h", f.duration)
	case f.warmup < 0 || f.warmup > time.Hour:
		return usage("--warmup %s: write a time of 0s to 1h", f.warmup)
	case f.connections < 1 || f.connections > loadMaxConnections:
		return usage("--connections %d: write a number of 1 to %d", f.connections, loadMaxConnections)
	case c.Flags().Changed("subscribers") && (f.subscribers < f.connections || f.subscribers > loadMaxSubscribers):
		return usage("--subscribers %d: write a number of %d to %d, for every connection has a subscriber of its own", f.subscribers, f.connections, loadMaxSubscribers)
	}
	if f.subscribers == 0 {
		f.subscribers = f.enoughSubscribers()
	}
	return nil
}

// enoughSubscribers returns how many are needed for loadRate renewals a second, each
// with each plan.
func (f *loadFlags) enoughSubscribers() int {
	if !f.renews() {
		return max(f.connections, 1000)
	}
	// After two minutes and a little the first may be renewed again.
	seconds := min(f.warmup+f.duration, 130*time.Second).Seconds()
	return min(f.connections+int(seconds*loadRate)/load.PlanCount, loadMaxSubscribers)
}

func (f *loadFlags) readsAtAll() bool { return f.only != "renewals" }

func (f *loadFlags) renews() bool { return f.only != "reads" }

// loadReport is what load --json prints.
type loadReport struct {
	OK bool `json:"ok"`
	// Problems has one sentence each.
	Problems []string     `json:"problems"`
	Server   loadServer   `json:"server"`
	Load     loadSize     `json:"load"`
	Phases   []load.Phase `json:"phases"`
	// Books and Audit are null if the server's store is not known.
	Books *load.Books   `json:"books"`
	Audit *audit.Report `json:"audit"`
}

type loadServer struct {
	BaseURL string `json:"base_url"`
	// Store is empty if it is not known.
	Store string `json:"store"`
}

type loadSize struct {
	Connections     int     `json:"connections"`
	WarmupSeconds   float64 `json:"warmup_seconds"`
	DurationSeconds float64 `json:"duration_seconds"`
	// Operators were created for the load; none if it reads with a given key.
	Operators   []int64 `json:"operators"`
	Subscribers int     `json:"subscribers"`
	Plans       int     `json:"plans"`
	// RateLimit is of one operator, in requests a minute.
	RateLimit int `json:"rate_limit"`
}

// load loads the server and prints the report.
func (a *app) load(ctx context.Context, f loadFlags) error {
	report := &loadReport{
		Problems: []string{}, Phases: []load.Phase{},
		Load: loadSize{Connections: f.connections, WarmupSeconds: f.warmup.Seconds(), DurationSeconds: f.duration.Seconds(), Operators: []int64{}},
	}
	err := a.loadGiven(ctx, f, report)
	if ctx.Err() != nil {
		return errors.New("interrupted: nothing was measured")
	}
	if err != nil {
		return err
	}
	report.OK = len(report.Problems) == 0
	if err := a.showLoad(report, f.asJSON); err != nil || report.OK {
		return err
	}
	return fmt.Errorf("%s; the first: %s", counted(len(report.Problems), "problem"), report.Problems[0])
}

// loadGiven loads with operators of its own if the server's configuration is known, or
// else with the given key.
func (a *app) loadGiven(ctx context.Context, f loadFlags, report *loadReport) error {
	given, err := readCredentials(f.credentials)
	if err != nil {
		return err
	}
	if _, err := os.Stat(given.Config); f.config == "" && given.Config != "" && err == nil {
		f.config = given.Config
	}
	report.Server.BaseURL = given.BaseURL
	if f.config == "" {
		return a.loadKey(ctx, f, given, report)
	}
	config, err := server.LoadConfig(server.Sources{File: f.config, Sets: f.sets})
	if err != nil {
		return err
	}
	if limit := config.Server.MaxConnectionsPerAddress; f.connections > limit {
		return usage("--connections %d: the server takes %d from one address; write at most that, or raise its server.max_connections_per_address", f.connections, limit)
	}
	orders := f.renews() || f.reads == load.Transaction
	if orders && !f.remoteProvider && !onThisMachine(config.Provider.URL) {
		return usage("renewals would become orders at the provider %s, which is not on this machine: "+
			"write --only reads, or --remote-provider if that provider may have them", config.Provider.URL)
	}
	return a.loadStore(ctx, f, config, given, report)
}

// readCredentials reads the file that demo writes.
func readCredentials(file string) (demo.Info, error) {
	var line demo.Info
	text, err := os.ReadFile(file)
	if err != nil {
		return line, fmt.Errorf("read the credentials: %w", err)
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return line, fmt.Errorf("the credentials in %s are not the JSON object that demo writes: %w", file, err)
	}
	if line.BaseURL == "" {
		return line, fmt.Errorf("%s has no base_url", file)
	}
	return line, nil
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
