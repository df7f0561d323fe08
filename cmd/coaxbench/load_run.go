package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/server"
)

// loadStore loads with operators that it creates in the server's store, and audits the
// store afterwards.
func (a *app) loadStore(ctx context.Context, f loadFlags, config server.Config, given demo.Info, report *loadReport) (err error) {
	report.Server.Store = config.Store.Address()
	target := load.Target{BaseURL: given.BaseURL, Now: server.Clock(config.Clock.Offset)}
	transport, err := loadTransport(f.connections, given.CACert)
	if err != nil {
		return err
	}
	target.HTTP = &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	defer transport.CloseIdleConnections()

	size := load.Size{
		Connections: f.connections, Subscribers: f.subscribers, Loading: f.warmup + f.duration, Reads: f.reads,
		// Look-ups of transactions need renewals.
		Renewals: f.renews() || f.remoteProvider || onThisMachine(config.Provider.URL),
	}
	var accounts *load.Accounts
	var readers, renewers []load.Source
	err = withService(ctx, config, func(ctx context.Context, service *admin.Service) (err error) {
		fmt.Fprintf(a.err, "preparing %s\n", counted(f.subscribers, "subscriber"))
		imported := func(done, total int) {
			if done == total {
				fmt.Fprintf(a.err, "imported %d of %d\n", done, total)
			}
		}
		if accounts, err = load.Prepare(ctx, service, target, size, imported); err != nil {
			return err
		}
		readers, renewers, err = accounts.Open(ctx, service)
		return err
	})
	if err == nil {
		report.Load.of(accounts)
		a.announceLoad(report, f.asJSON)
		err = a.loadPhases(ctx, f, config, accounts, readers, renewers, report)
	}
	if accounts != nil {
		fmt.Fprintln(a.err, "cleaning up")
		if problem := withService(context.WithoutCancel(ctx), config, accounts.Close); problem != nil {
			fmt.Fprintln(a.err, problem) // printed in any case, as err may be replaced
			err = errors.Join(err, problem)
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(a.err, "auditing the books")
	audited, err := a.audit(ctx, f.config, f.sets...)
	if err != nil {
		return err
	}
	report.Audit = &audited
	if !audited.OK {
		report.Problems = append(report.Problems, fmt.Sprintf("the audit finds %s", counted(int64(len(audited.Violations))+audited.LeftOut, "violation")))
	}
	return nil
}

// withService opens a store for staff actions.
func withService(ctx context.Context, config server.Config, do func(context.Context, *admin.Service) error) error {
	vault, err := server.OpenVault(config, os.Environ())
	if err != nil {
		return err
	}
	store, err := server.OpenStore(ctx, config, server.StoreOptions{Tool: true})
	if err != nil {
		return err
	}
	defer store.Close()
	now := server.Clock(config.Clock.Offset)
	if _, _, err := server.UnlockStore(ctx, store, vault, now()); err != nil {
		return err
	}
	return do(ctx, admin.NewService(store, vault, "coaxbench", now).WithMaxPlanMonths(config.Plans.MaxMonths))
}

// of records the accounts that send the load.
func (l *loadSize) of(g *load.Accounts) {
	for _, operator := range g.Operators {
		l.Operators = append(l.Operators, operator.ID)
		l.Subscribers += len(operator.Subscribers)
	}
	l.Plans, l.RateLimit = len(g.PlanIDs), load.RateLimit
}

// loadPhases loads with reads, then with renewals, and compares the store with the
// answers.
func (a *app) loadPhases(ctx context.Context, f loadFlags, config server.Config, accounts *load.Accounts, readers, renewers []load.Source, report *loadReport) error {
	closedLoop := load.Load{Warmup: f.warmup, Duration: f.duration, Progress: a.loadProgress}
	answered := accounts.First
	if f.readsAtAll() {
		phase, err := closedLoop.Run(ctx, "reads", readers)
		report.add(phase)
		if err != nil {
			return err
		}
	}
	if f.renews() {
		phase, err := closedLoop.Run(ctx, "renewals", renewers)
		accounts.Explain(&phase, closedLoop)
		report.add(phase)
		answered.Add(phase.Tally)
		if err != nil {
			return err
		}
	}
	snapshot, done, err := server.OpenSnapshot(ctx, config.Store)
	if err != nil {
		return fmt.Errorf("open the store at %s: %w", config.Store.Place(), err)
	}
	defer done()
	books, err := accounts.ReadBooks(ctx, snapshot, answered)
	if err != nil {
		return err
	}
	report.Books = &books
	report.Problems = append(report.Problems, books.Problems()...)
	return nil
}

// add adds a phase and its problems.
func (r *loadReport) add(phase load.Phase) {
	r.Phases = append(r.Phases, phase)
	unexpected := phase.Unexpected()
	for _, answer := range slices.Sorted(maps.Keys(unexpected)) {
		r.Problems = append(r.Problems, fmt.Sprintf("%s: %d times %s", phase.Name, unexpected[answer], answer))
	}
	if phase.Requests == 0 {
		r.Problems = append(r.Problems, phase.Name+": nothing was measured")
	}
}

// loadKey reads with the given key, within its rate limit.
func (a *app) loadKey(ctx context.Context, f loadFlags, given demo.Info, report *loadReport) error {
	if f.only == "renewals" {
		return usage("renewals need the server's configuration: give --config FILE. They are sent for operators of their own, never with the given operator's money")
	}
	kinds := []string{f.reads}
	switch f.reads {
	case load.Mix:
		kinds = []string{load.Balance, load.Plans}
	case load.Subscription, load.Transaction:
		return usage("--reads %s needs the server's configuration: give --config FILE, or write --reads balance or plans", f.reads)
	}
	offset, err := time.ParseDuration(cmp.Or(given.ClockOffset, "0s"))
	if err != nil {
		return fmt.Errorf("the credentials' clock_offset: %w", err)
	}
	now := server.Clock(offset)
	transport, err := loadTransport(f.connections, given.CACert)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	sender, err := client.New(client.Config{
		BaseURL: given.BaseURL, Key: given.APIKey, Secret: client.Secret(given.APISecret), Now: now,
		HTTP: &http.Client{Transport: transport, Timeout: 2 * time.Minute},
	})
	if err != nil {
		return err
	}
	first, err := sender.Send(ctx, http.MethodGet, "/api/v1/"+kinds[0], nil, nil)
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(first.Header.Get("X-RateLimit-Limit"))
	if first.Status != http.StatusOK || err != nil {
		return fmt.Errorf("the server refuses the key: it answers %d %.300s", first.Status, first.Body)
	}
	report.Load.RateLimit = limit
	a.announceLoad(report, f.asJSON)
	readers := make([]load.Source, f.connections)
	for i := range readers {
		readers[i] = load.NewReads(sender, kinds)
	}
	closedLoop := load.Load{Warmup: f.warmup, Duration: f.duration, Progress: a.loadProgress, Pace: load.NewPacer(limit, now)}
	phase, err := closedLoop.Run(ctx, "reads", readers)
	report.add(phase)
	return err
}

// loadTransport keeps one connection for each worker, and trusts the CA in a file if
// one is given.
func loadTransport(connections int, caFile string) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA certificate: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(pem)
	}
	return &http.Transport{
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 30 * time.Second, TLSClientConfig: config,
	}, nil
}

// loadProgress prints the progress of a phase.
func (a *app) loadProgress(p load.Progress) {
	what := p.Phase
	if p.Warming {
		what += ", warming up"
	}
	fmt.Fprintf(a.err, "%s: %.0fs  %.0f/s  %d unexpected\n", what, p.Elapsed.Seconds(), float64(p.Requests)/p.Elapsed.Seconds(), p.Unexpected)
}

// announceLoad prints what is about to be loaded, and how.
func (a *app) announceLoad(report *loadReport, asJSON bool) {
	if asJSON {
		return
	}
	server, size := report.Server, report.Load
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "server\t%s\n", server.BaseURL)
	if server.Store != "" {
		fmt.Fprintf(table, "store\t%s\n", server.Store)
	}
	fmt.Fprintf(table, "load\t%s, each with one request at a time; %gs of warm-up, %gs measured\n",
		counted(size.Connections, "connection"), size.WarmupSeconds, size.DurationSeconds)
	if len(size.Operators) > 0 {
		fmt.Fprintf(table, "as\t%s created for this (lco %d to %d), %d requests a minute each\n", counted(len(size.Operators), "operator"),
			size.Operators[0], size.Operators[len(size.Operators)-1], size.RateLimit)
		fmt.Fprintf(table, "renewals\t%s and %s: %d within two minutes\n", counted(size.Subscribers, "subscriber"),
			counted(size.Plans, "plan"), size.Subscribers*size.Plans)
	} else {
		fmt.Fprintf(table, "as\tthe given key, of %d requests a minute: nine tenths of that are used\n", size.RateLimit)
		fmt.Fprintln(table, "only reads\tthe server's configuration is not known; with --config FILE it is loaded with renewals too, at full speed")
	}
	_ = table.Flush()
	fmt.Fprintln(a.out)
}

// showLoad prints the report.
func (a *app) showLoad(report *loadReport, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.out).Encode(report)
	}
	if err := load.WritePhases(a.out, report.Phases); err != nil {
		return err
	}
	if b := report.Books; b != nil {
		fmt.Fprintln(a.out, "\nAll renewals, those of the warm-up and the first few too:")
		table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(table, "answered\t%d done, %d in review, %d without a clear answer, %d refused\n",
			b.Answered.Done, b.Answered.Pending, b.Answered.Unknown, b.Answered.Refused)
		fmt.Fprintf(table, "stored\t%d success, %d needs_review, %d processing, %d failed\n", b.Stored.Success, b.Stored.NeedsReview, b.Stored.Processing, b.Stored.Failed)
		fmt.Fprintf(table, "money\t%s credited, %s charged, %s held, %s left\n", b.Credited, b.Charged, b.Held, b.Balance)
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if report.Audit != nil {
		fmt.Fprintf(a.out, "\nThe audit of the whole store: %s, %s, %s\n", counted(report.Audit.Counts.Operations.Total, "operation"),
			counted(report.Audit.Counts.Subscribers, "subscriber"), counted(int64(len(report.Audit.Violations))+report.Audit.LeftOut, "violation"))
		for _, violation := range report.Audit.Violations {
			fmt.Fprintln(a.out, violation)
		}
	}
	for _, problem := range report.Problems {
		fmt.Fprintln(a.out, "problem:", problem)
	}
	return nil
}
