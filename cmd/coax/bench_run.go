package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bench"
	"github.com/coaxhq/coax/internal/server"
)

// benchStore loads with operators of the bench's own, made in the server's store,
// and proves the books.
func (a *app) benchStore(ctx context.Context, f benchFlags, given credentials, report *benchReport) (err error) {
	config, err := a.config()
	if err != nil {
		return err
	}
	report.Server.Store = config.Store.Address()
	target := bench.Target{BaseURL: given.BaseURL, Now: server.Clock(config.Clock.Offset)}
	transport := benchTransport(f.connections)
	if err := trust(transport, given.CACert); err != nil {
		return err
	}
	target.HTTP = &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	defer transport.CloseIdleConnections()

	wishes := bench.Wishes{
		Connections: f.connections, Subscribers: f.subscribers, Loading: f.warmup + f.duration, Reads: f.reads,
		// Reads of transactions need some that were made.
		Renewals: f.renews() || report.Server.Started || f.remoteProvider || onThisMachine(config.Provider.URL),
	}
	var grounds *bench.Grounds
	var readers, renewers []bench.Source
	err = a.withService(ctx, func(ctx context.Context, service *admin.Service) (err error) {
		fmt.Fprintf(a.err, "preparing %s\n", counted(int64(f.subscribers), "subscriber"))
		if grounds, err = bench.Prepare(ctx, service, target, wishes, a.progress("imported")); err != nil {
			return err
		}
		readers, renewers, err = grounds.Open(ctx, service)
		return err
	})
	if err == nil {
		report.Load.of(grounds)
		a.announceBench(report)
		err = a.benchPhases(ctx, f, grounds, readers, renewers, report)
	}
	// A server of our own is about to be removed with all of it.
	if grounds != nil && !report.Server.Started {
		fmt.Fprintln(a.err, "tidying up")
		if problem := a.withService(context.WithoutCancel(ctx), grounds.Tidy); problem != nil {
			// Said at once: what comes after it may not say it again.
			fmt.Fprintln(a.err, problem)
			err = errors.Join(err, problem)
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(a.err, "auditing the books")
	books, err := a.runAudit(ctx, false, nil)
	if err != nil {
		return err
	}
	report.Audit = &books
	if !books.OK {
		report.Problems = append(report.Problems, fmt.Sprintf("the audit finds %s", counted(int64(len(books.Violations))+books.LeftOut, "violation")))
	}
	return nil
}

// of notes what the load is carried by.
func (l *benchLoad) of(g *bench.Grounds) {
	for _, operator := range g.Operators {
		l.Operators = append(l.Operators, operator.ID)
		l.Subscribers += len(operator.Subscribers)
	}
	l.Plans, l.RateLimit = len(g.PlanIDs), bench.RateLimit
}

// benchPhases loads with reads, then with renewals, and holds what was answered
// against the store.
func (a *app) benchPhases(ctx context.Context, f benchFlags, grounds *bench.Grounds, readers, renewers []bench.Source, report *benchReport) error {
	load := bench.Load{Warmup: f.warmup, Duration: f.duration, Progress: a.benchProgress}
	answered := grounds.First
	if f.readsAtAll() {
		phase, err := load.Run(ctx, "reads", readers)
		report.add(phase)
		if err != nil {
			return err
		}
	}
	if f.renews() {
		phase, err := load.Run(ctx, "renewals", renewers)
		grounds.Explain(&phase, load)
		report.add(phase)
		answered.Add(phase.Tally)
		if err != nil {
			return err
		}
	}
	config, err := a.config()
	if err != nil {
		return err
	}
	snapshot, done, err := server.OpenSnapshot(ctx, config.Store)
	if err != nil {
		return fmt.Errorf("open the store at %s: %w", config.Store.Place(), err)
	}
	defer done()
	books, err := grounds.ReadBooks(ctx, snapshot, answered)
	if err != nil {
		return err
	}
	report.Books = &books
	report.Problems = append(report.Problems, books.Problems()...)
	return nil
}

// add takes a phase in, with what is wrong with it.
func (r *benchReport) add(phase bench.Phase) {
	r.Phases = append(r.Phases, phase)
	unexpected := phase.Unexpected()
	for _, answer := range slices.Sorted(maps.Keys(unexpected)) {
		r.Problems = append(r.Problems, fmt.Sprintf("%s: %d times %s", phase.Name, unexpected[answer], answer))
	}
	if phase.Requests == 0 {
		r.Problems = append(r.Problems, phase.Name+": nothing was measured")
	}
}

// benchKey reads with the key that was given, within its rate limit.
func (a *app) benchKey(ctx context.Context, f benchFlags, report *benchReport) error {
	given, err := a.readCredentials(f.credentials, "base_url", "api_key", "api_secret")
	if err != nil {
		return err
	}
	if f.only == "renewals" {
		return usage("renewals need the server's configuration: give --config FILE. The bench renews with operators of its own, never with somebody's money")
	}
	kinds := []string{f.reads}
	switch f.reads {
	case bench.Mix:
		kinds = []string{bench.Balance, bench.Plans}
	case bench.Subscription, bench.Transaction:
		return usage("--reads %s needs the server's configuration: give --config FILE, or write --reads balance or plans", f.reads)
	}
	now, err := given.clock()
	if err != nil {
		return err
	}
	transport := benchTransport(f.connections)
	defer transport.CloseIdleConnections()
	sender, err := newClient(given, transport)
	if err != nil {
		return err
	}
	first, err := sender.Send(ctx, http.MethodGet, "/api/v1/"+kinds[0], nil, nil)
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(first.Header.Get("X-RateLimit-Limit"))
	if first.Status != http.StatusOK || err != nil {
		return fmt.Errorf("the server does not let the key in: it answers %d %.300s", first.Status, first.Body)
	}
	report.Load.RateLimit = limit
	a.announceBench(report)
	readers := make([]bench.Source, f.connections)
	for i := range readers {
		readers[i] = bench.NewReads(sender, kinds)
	}
	load := bench.Load{Warmup: f.warmup, Duration: f.duration, Progress: a.benchProgress, Pace: bench.NewPacer(limit, now)}
	phase, err := load.Run(ctx, "reads", readers)
	report.add(phase)
	return err
}

// benchTransport keeps one connection for each worker, and speaks HTTP/1.1 as the
// service does.
func benchTransport(connections int) *http.Transport {
	return &http.Transport{
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 30 * time.Second, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
}

// benchProgress tells once a second how a phase goes.
func (a *app) benchProgress(p bench.Progress) {
	what := p.Phase
	if p.Warming {
		what += ", warming up"
	}
	fmt.Fprintf(a.err, "%s: %.0fs  %.0f/s  %d unexpected\n", what, p.Elapsed.Seconds(), float64(p.Requests)/p.Elapsed.Seconds(), p.Unexpected)
}

// announceBench says what is about to be run against what.
func (a *app) announceBench(report *benchReport) {
	if a.asJSON {
		return
	}
	server, load := report.Server, report.Load
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	whose := "given"
	if server.Started {
		whose = "started for this, on this machine"
	}
	fmt.Fprintf(table, "server\t%s, %s\n", server.BaseURL, whose)
	if server.Store != "" {
		fmt.Fprintf(table, "store\t%s\n", server.Store)
	}
	fmt.Fprintf(table, "load\t%s, each with one request at a time; %gs of warm-up, %gs measured\n",
		counted(int64(load.Connections), "connection"), load.WarmupSeconds, load.DurationSeconds)
	if len(load.Operators) > 0 {
		fmt.Fprintf(table, "as\t%s of the bench's own (lco %d to %d), %d requests a minute each\n", counted(int64(len(load.Operators)), "operator"),
			load.Operators[0], load.Operators[len(load.Operators)-1], load.RateLimit)
		fmt.Fprintf(table, "renewals\t%s and %s: %d within two minutes\n", counted(int64(load.Subscribers), "subscriber"),
			counted(int64(load.Plans), "plan"), load.Subscribers*load.Plans)
	} else {
		fmt.Fprintf(table, "as\tthe given key, of %d requests a minute: nine tenths of that are used\n", load.RateLimit)
		fmt.Fprintln(table, "only reads\tthe server's configuration is not known; with --config FILE the bench renews too, at full speed")
	}
	_ = table.Flush()
	fmt.Fprintln(a.out)
}

// showBench prints what came of it all.
func (a *app) showBench(report *benchReport) error {
	if a.asJSON {
		return json.NewEncoder(a.out).Encode(report)
	}
	if err := bench.WritePhases(a.out, report.Phases); err != nil {
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
		fmt.Fprintln(a.out, "\nThe audit of the whole store:")
		if err := a.showAudit(*report.Audit); err != nil {
			return err
		}
	}
	for _, problem := range report.Problems {
		fmt.Fprintln(a.out, "problem:", problem)
	}
	return nil
}
