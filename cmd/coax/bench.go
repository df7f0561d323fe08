package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/spf13/cobra"
)

const (
	benchMaxConnections = 4000
	benchMaxSubscribers = 1_000_000
	// benchRate is the number of renewals a second that there are subscribers for, unless
	// --subscribers says otherwise.
	benchRate = 4000
	// benchRateLimit is the highest that an operator can have.
	benchRateLimit = 1_000_000
)

// benchFlags are the flags of coax bench.
type benchFlags struct {
	credentials      string
	only             string
	duration, warmup time.Duration
	connections      int
	subscribers      int
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	command := &cobra.Command{
		Use:   "bench [--credentials FILE]",
		Short: "Load a server with signed requests, and print requests a second and latencies",
		Long: `Load a server with signed requests over HTTPS, and print requests a second and latencies.

Without --credentials it starts a server of its own, a demo in the system's temporary folder
(TMPDIR moves it; every answer waits for that disk), loads it with reads and then with renewals,
compares the wallet with the answers, audits the books, and removes it. The server, its simulated
provider and the bench share this machine.

With --credentials it reads from that server, balance and plans, at nine tenths of the key's rate
limit; the last tenth of every minute is left to the key's owner. Nothing is renewed there: that
would spend the operator's money. The program coaxbench (in the source repository) loads a given
server with renewals, and compares the service with what its parts can do.

The load is a closed loop: each connection sends its next request when the last is answered.
A latency is the time from before a request is signed until its answer is read. No renewal
repeats another of the same subscriber and plan within 2 minutes, so a long or fast run needs
many --subscribers.

Exits with 1 if an answer was neither 200 nor 202 (outcome unknown: money held, in review), if the
wallet does not hold exactly what was answered, or if the audit finds a violation.`,
		Example: `  coax bench
  coax bench --only renewals --duration 30s --connections 128
  coax bench --credentials .demo/demo.json --json | jq '.phases[0].latency_ms'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return a.bench(c.Context(), f)
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.credentials, "credentials", "", "load the server that `FILE` names, as demo writes it (base_url, ca_cert, api_key, api_secret); none starts one")
	flags.StringVar(&f.only, "only", "", "load with `reads` or renewals alone")
	flags.DurationVar(&f.duration, "duration", 10*time.Second, "how long each phase is measured")
	flags.DurationVar(&f.warmup, "warmup", time.Second, "how long each phase is loaded before it is measured")
	flags.IntVar(&f.connections, "connections", 64, "connections, each with one request at a time")
	flags.IntVar(&f.subscribers, "subscribers", 0, "subscribers to renew; none given = enough for 4000 renewals a second")
	flags.BoolVar(&a.asJSON, "json", false, "print one JSON object at the end")
	return command
}

// check validates the flags before anything is started.
func (f *benchFlags) check(c *cobra.Command) error {
	switch {
	case f.only != "" && f.only != "reads" && f.only != "renewals":
		return usage("--only %q: write reads or renewals, or leave it out for both", f.only)
	case f.credentials != "" && (f.only == "renewals" || c.Flags().Changed("subscribers")):
		return usage("a given server is only read from: --only renewals and --subscribers do not go with --credentials; coaxbench load renews there")
	case f.duration <= 0 || f.duration > 24*time.Hour:
		return usage("--duration %s: write a time above zero, such as 10s, and at most 24h", f.duration)
	case f.warmup < 0 || f.warmup > time.Hour:
		return usage("--warmup %s: write a time of 0s to 1h", f.warmup)
	case f.connections < 1 || f.connections > benchMaxConnections:
		return usage("--connections %d: write a number of 1 to %d", f.connections, benchMaxConnections)
	case c.Flags().Changed("subscribers") && (f.subscribers < f.connections || f.subscribers > benchMaxSubscribers):
		return usage("--subscribers %d: write a number of %d to %d, for every connection has a subscriber of its own", f.subscribers, f.connections, benchMaxSubscribers)
	}
	return nil
}

// benchReport is what bench --json prints.
type benchReport struct {
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"` // one sentence each
	Server   struct {
		BaseURL string `json:"base_url"`
		Started bool   `json:"started"` // by the bench
	} `json:"server"`
	Load struct {
		Connections     int     `json:"connections"`
		WarmupSeconds   float64 `json:"warmup_seconds"`
		DurationSeconds float64 `json:"duration_seconds"`
		Subscribers     int     `json:"subscribers"`
		Plans           int     `json:"plans"`
		RateLimit       int     `json:"rate_limit"` // requests a minute
	} `json:"load"`
	Phases []benchPhase `json:"phases"`
	// Books and Audit are null for a given server.
	Books *benchBooks   `json:"books"`
	Audit *audit.Report `json:"audit"`
}

// benchBooks is the wallet after the load: Credited less Charged is Balance.
type benchBooks struct {
	Credited client.Amount `json:"credited"`
	Charged  client.Amount `json:"charged"`
	Balance  client.Amount `json:"balance"`
}

// bench loads a given server or one of its own, and prints the report.
func (a *app) bench(ctx context.Context, f benchFlags) error {
	report := &benchReport{Problems: []string{}, Phases: []benchPhase{}}
	report.Load.Connections, report.Load.WarmupSeconds, report.Load.DurationSeconds = f.connections, f.warmup.Seconds(), f.duration.Seconds()
	load := a.benchGiven
	if f.credentials == "" {
		load = a.benchOwn
	}
	err := load(ctx, f, report)
	if ctx.Err() != nil {
		return errors.New("interrupted: nothing was measured")
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

// benchGiven reads from a running server with the given key, within its rate limit.
func (a *app) benchGiven(ctx context.Context, f benchFlags, report *benchReport) error {
	given, err := a.readCredentials(f.credentials, "", "base_url", "api_key", "api_secret")
	if err != nil {
		return err
	}
	sender, closeIdle, err := benchClient(given, f.connections)
	if err != nil {
		return err
	}
	defer closeIdle()
	workers := make([]*benchWorker, f.connections)
	for i := range workers {
		workers[i] = &benchWorker{client: sender, reads: []string{"balance", "plans"}, nextRead: i}
	}
	first := workers[0].send(ctx, benchRequest{method: http.MethodGet, path: "/api/v1/balance"})
	limit, err := strconv.Atoi(first.header.Get("X-RateLimit-Limit"))
	if first.status != http.StatusOK || err != nil {
		return errors.Join(fmt.Errorf("the server refuses the key: %s", first), first.err)
	}
	report.Server.BaseURL, report.Load.RateLimit = given.BaseURL, limit
	a.announceBench(report)
	return a.benchPhase(ctx, f, &benchRun{next: (*benchWorker).read, phase: benchPhase{Name: "reads"}, rateLimit: limit}, workers, report)
}

// benchClient returns a client that keeps one connection for each worker.
func benchClient(given credentials, connections int) (sender *client.Client, closeIdle func(), err error) {
	transport := &http.Transport{
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 30 * time.Second, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	sender, err = newClient(given, transport, transport)
	return sender, transport.CloseIdleConnections, err
}

// benchOwn starts a server, loads it as its operator, and removes it.
func (a *app) benchOwn(ctx context.Context, f benchFlags, report *benchReport) (err error) {
	fmt.Fprintln(a.err, "starting a server")
	own, err := startBenchServer(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if problem := own.stop(); problem != nil && ctx.Err() == nil {
			err = errors.Join(problem, err)
		}
	}()
	// Environment variables would name other stores.
	a.configFile, a.environ = own.info.Config, server.WithoutSettings(a.environ)
	sender, closeIdle, err := benchClient(credentials{BaseURL: own.info.BaseURL, CACert: own.info.CACert, APIKey: own.info.APIKey, APISecret: own.info.APISecret}, f.connections)
	if err != nil {
		return err
	}
	defer closeIdle()
	workers, credited, err := a.prepareBench(ctx, f, sender, own.info.LCOID)
	if err != nil {
		return err
	}
	report.Server.BaseURL, report.Server.Started = own.info.BaseURL, true
	report.Load.Plans, report.Load.RateLimit = len(workers[0].plans), benchRateLimit
	for _, w := range workers {
		report.Load.Subscribers += len(w.subscribers)
	}
	a.announceBench(report)
	if f.only != "renewals" {
		if err := a.benchPhase(ctx, f, &benchRun{next: (*benchWorker).read, phase: benchPhase{Name: "reads"}}, workers, report); err != nil {
			return err
		}
	}
	if f.only != "reads" {
		if err := a.benchPhase(ctx, f, &benchRun{next: (*benchWorker).renew, phase: benchPhase{Name: "renewals"}}, workers, report); err != nil {
			return err
		}
	}
	if err := checkBenchBooks(ctx, sender, credited, report); err != nil {
		return err
	}
	fmt.Fprintln(a.err, "auditing the books")
	audited, err := a.runAudit(ctx, false, nil)
	if err != nil {
		return err
	}
	report.Audit = &audited
	if !audited.OK {
		report.Problems = append(report.Problems, fmt.Sprintf("the audit finds %s", counted(int64(len(audited.Violations))+audited.LeftOut, "violation")))
	}
	return nil
}

// prepareBench gives the operator the highest rate limit, subscribers, and money for
// all renewals, and divides the subscribers among the workers.
func (a *app) prepareBench(ctx context.Context, f benchFlags, sender *client.Client, operatorID int64) (workers []*benchWorker, credited client.Amount, err error) {
	catalogue, err := sender.Plans(ctx)
	if err != nil {
		return nil, 0, err
	}
	plans := slices.DeleteFunc(catalogue.Plans, func(p client.Plan) bool { return p.Type != "standard" })
	if len(plans) == 0 {
		return nil, 0, errors.New("the server sells no standard plan")
	}
	if f.subscribers == 0 {
		seconds := min(f.warmup+f.duration, benchRest).Seconds()
		f.subscribers = min(f.connections+int(seconds*benchRate)/len(plans), benchMaxSubscribers)
	}
	for i := range f.connections {
		workers = append(workers, &benchWorker{client: sender, reads: []string{"balance", "plans", "subscription"}, plans: plans, name: fmt.Sprintf("bench-%d", i), nextRead: i})
	}
	var file bytes.Buffer
	fmt.Fprintln(&file, "lco,subscriber_id,mobile,name,plan_id,expiry")
	expires := time.Now().AddDate(0, 0, 30).In(subscription.IST).Format(time.DateTime)
	for i := range f.subscribers {
		number := strconv.Itoa(1_000_000_000 + i) // no Indian mobile number begins with 1
		fmt.Fprintf(&file, "%d,%s,%s,Bench %s,%s,%s\n", operatorID, number, number, number, plans[0].ID, expires)
		worker := workers[i%len(workers)]
		worker.subscribers = append(worker.subscribers, number)
	}
	// Each pair of subscriber and plan is renewed at most once in each benchRest.
	var credit int64
	for _, plan := range plans {
		credit += int64(plan.Price) * int64(f.subscribers) * (int64((f.warmup+f.duration)/benchRest) + 1)
	}
	fmt.Fprintf(a.err, "preparing %s\n", counted(int64(f.subscribers), "subscriber"))
	err = a.withService(ctx, func(ctx context.Context, service *admin.Service) error {
		if _, err := service.ChangeOperator(ctx, operatorID, admin.OperatorChange{RateLimit: new(benchRateLimit)}); err != nil {
			return err
		}
		if _, _, err := service.TopUp(ctx, admin.TopUp{OperatorID: operatorID, Amount: money.Paise(credit), Reference: "coax bench"}); err != nil {
			return err
		}
		imported, err := service.ImportSubscribers(ctx, &file, false, a.progress("imported"))
		if err == nil && len(imported.Problems) > 0 {
			err = errors.New(imported.Problems[0].Problem)
		}
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("prepare the operator: %w", err)
	}
	balance, err := sender.Balance(ctx)
	if err != nil {
		return nil, 0, err
	}
	return workers, balance.WalletBalance, nil
}

// checkBenchBooks compares the wallet with the answers. It says nothing if some outcomes
// are unknown; these are listed as answers.
func checkBenchBooks(ctx context.Context, sender *client.Client, credited client.Amount, report *benchReport) error {
	balance, err := sender.Balance(ctx)
	if err != nil {
		return err
	}
	books := benchBooks{Credited: credited, Balance: balance.WalletBalance}
	certain := true
	for _, phase := range report.Phases {
		books.Charged += phase.charged
		certain = certain && (phase.Name == "reads" || phase.Answers["200 OK"] == benchTotal(phase.Answers))
	}
	if left := books.Credited - books.Charged; certain && left != books.Balance {
		report.Problems = append(report.Problems, fmt.Sprintf("the wallet holds %s; of %s, renewals for %s were answered with 200, which leaves %s",
			books.Balance, books.Credited, books.Charged, left))
	}
	report.Books = &books
	return nil
}

func benchTotal(answers map[string]uint64) (sum uint64) {
	for n := range maps.Values(answers) {
		sum += n
	}
	return sum
}

// benchPhase runs one phase and adds it to the report.
func (a *app) benchPhase(ctx context.Context, f benchFlags, run *benchRun, workers []*benchWorker, report *benchReport) error {
	run.start = time.Now().Add(f.warmup)
	run.end = run.start.Add(f.duration)
	phase, err := run.run(ctx, workers, func(text string) { fmt.Fprintln(a.err, text) })
	report.Phases = append(report.Phases, phase)
	report.Problems = append(report.Problems, phase.unexpected()...)
	if phase.Requests == 0 {
		report.Problems = append(report.Problems, phase.Name+": nothing was measured")
	}
	return err
}

// announceBench prints what is about to be loaded, and how.
func (a *app) announceBench(report *benchReport) {
	if a.asJSON {
		return
	}
	load := report.Load
	fmt.Fprintf(a.out, "%s, %gs of warm-up and %gs measured, on %s", counted(int64(load.Connections), "connection"), load.WarmupSeconds, load.DurationSeconds, report.Server.BaseURL)
	if report.Server.Started {
		fmt.Fprintf(a.out, ", started for this; %d subscribers, %d plans\n\n", load.Subscribers, load.Plans)
	} else {
		fmt.Fprintf(a.out, "; only reads, at nine tenths of the key's %d requests a minute\n\n", load.RateLimit)
	}
}

// showBench prints the report.
func (a *app) showBench(report *benchReport) error {
	if a.asJSON {
		return json.NewEncoder(a.out).Encode(report)
	}
	fmt.Fprintf(a.out, "%-8s  %9s  %7s  %10s  %8s  %8s  %8s  %8s  %8s  %8s\n",
		"phase", "requests", "seconds", "per second", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "p99.9 ms", "max ms")
	for _, p := range report.Phases {
		l := p.Latency
		fmt.Fprintf(a.out, "%-8s  %9d  %7.2f  %10.0f  %8.2f  %8.2f  %8.2f  %8.2f  %8.2f  %8.2f\n",
			p.Name, p.Requests, p.Seconds, p.PerSecond, l.P50, l.P90, l.P95, l.P99, l.P999, l.Max)
	}
	fmt.Fprintln(a.out)
	for _, p := range report.Phases {
		for _, answer := range slices.Sorted(maps.Keys(p.Answers)) {
			fmt.Fprintf(a.out, "%s: %d times %s\n", p.Name, p.Answers[answer], answer)
		}
		if p.EndedEarly != "" {
			fmt.Fprintf(a.out, "%s: ended early: %s\n", p.Name, p.EndedEarly)
		}
	}
	if b := report.Books; b != nil {
		fmt.Fprintf(a.out, "wallet: %s credited, %s charged, %s left\n\nThe audit of the whole store:\n", b.Credited, b.Charged, b.Balance)
		if err := a.showAudit(*report.Audit); err != nil {
			return err
		}
	}
	for _, problem := range report.Problems {
		fmt.Fprintln(a.out, "problem:", problem)
	}
	return nil
}
