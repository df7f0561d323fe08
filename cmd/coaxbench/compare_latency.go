package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/generator"
)

const (
	// jobClients is how many requests of a job are under way at a time.
	jobClients = 4
	// unknownRate is the number of operations a second with an unknown outcome beside a load,
	// about as many as the review verifies.
	unknownRate = 30
	// bulkEvery is how often a bulk job has something to send.
	bulkEvery = time.Second
)

// openLoop returns a load with half the rate that a closed loop has reached, independent of the
// answers.
func (c *comparison) openLoop(like loading, name string) loading {
	rate := max(1, like.figure.Median.PerSecond/2)
	like.figure = c.figure(compare.Figure{Name: fmt.Sprintf("%s, open loop, %.0f/s", name, rate), Clients: c.plan.maxClients(), Rate: rate})
	like.duration = c.plan.open
	return like
}

// job is a background job beside a load.
type job struct {
	name string
	// takes is how many renewals a second are the job's own. The load makes so many
	// less: together they are what the load is alone.
	takes float64
	// run runs until the load is over, and returns the answers to its own requests, if any.
	run func(ctx context.Context, over <-chan struct{}) (generator.Result, error)
	// after waits for what the job has left to do; nil if nothing.
	after func(ctx context.Context) error
}

// compareLatency measures the latency of renewals at half of a node's throughput, alone and
// beside background jobs. Checkpoints always run.
func (c *comparison) compareLatency(ctx context.Context, like loading, name string) error {
	alone := c.openLoop(like, name)
	runs := []func() error{func() error { return c.load(ctx, alone) }}
	jobs := []job{c.audits(alone.store), c.reviews(alone), c.bulk(alone)}
	if alone.store.vacuum != nil {
		jobs = append(jobs, vacuum(alone.store))
	}
	besides := make([]loading, len(jobs))
	for i, job := range jobs {
		beside := alone
		beside.accounts = alone.store.crowd.Accounts[bulkAccounts(alone.store):]
		beside.figure = c.figure(compare.Figure{
			Name: fmt.Sprintf("%.0f/s of them beside %s", alone.figure.Rate-job.takes, job.name), Clients: alone.figure.Clients, Rate: alone.figure.Rate - job.takes,
		})
		besides[i] = beside
		runs = append(runs, func() error { return c.loadBeside(ctx, job, beside) })
	}
	if err := c.alternate(ctx, cleaned(ctx, alone.store, runs)...); err != nil {
		return err
	}
	for i, job := range jobs {
		c.report.Ratios = append(c.report.Ratios,
			compare.LatencyRatioOf(fmt.Sprintf("p99 of %s beside %s ÷ alone", name, job.name), besides[i].figure, alone.figure, 2))
	}
	return nil
}

// loadBeside makes one run of a load while a job goes on.
func (c *comparison) loadBeside(ctx context.Context, job job, of loading) error {
	type outcome struct {
		result generator.Result
		err    error
	}
	over, ended := make(chan struct{}), make(chan outcome, 1)
	go func() {
		result, err := job.run(ctx, over)
		ended <- outcome{result, err}
	}()
	err := c.load(ctx, of)
	close(over)
	did := <-ended
	of.store.answered.Add(did.result.Tally)
	for _, problem := range did.result.Problems {
		c.report.Problems = append(c.report.Problems, fmt.Sprintf("%s: %s: %s", of.store.name, job.name, problem))
	}
	if err := errors.Join(err, did.err); err != nil || job.after == nil {
		return err
	}
	return job.after(ctx)
}

// audits are one after the other, in a process of their own each.
func (c *comparison) audits(store *compareStore) job {
	return job{name: "audits", run: func(ctx context.Context, over <-chan struct{}) (result generator.Result, err error) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			<-over
			stop()
		}()
		for ctx.Err() == nil {
			if _, err := c.runCoax(ctx, "audit", "--config", store.config); err != nil && ctx.Err() == nil {
				result.Problems = append(result.Problems, err.Error())
				return result, nil
			}
		}
		return result, nil
	}}
}

// cleaned vacuums the database before each run. Autovacuum would run once a minute for five
// seconds: beside one run in five, and always beside the same one, because runs take about a
// minute.
func cleaned(ctx context.Context, store *compareStore, runs []func() error) []func() error {
	if store.vacuum == nil {
		return runs
	}
	after := make([]func() error, len(runs))
	for i, run := range runs {
		after[i] = func() error {
			if err := store.vacuum(ctx, atOnce); err != nil {
				return err
			}
			return run()
		}
	}
	return after
}

// vacuum is what a database does to clean itself up, at the pace that it has by
// itself: once, for it does so once a minute.
func vacuum(store *compareStore) job {
	return job{name: "a vacuum", run: func(ctx context.Context, _ <-chan struct{}) (result generator.Result, err error) {
		return result, store.vacuum(ctx, inPassing)
	}}
}

// reviews is a job of operations without a provider reply, which are verified by status calls.
func (c *comparison) reviews(like loading) job {
	unanswered := like
	unanswered.accounts, unanswered.unknownOutcome = like.store.crowd.UnknownOutcome, true
	unanswered.figure = &compare.Figure{Clients: jobClients, Rate: min(unknownRate, like.figure.Rate/2)}
	return job{
		name: "reviews", takes: unanswered.figure.Rate,
		run: func(ctx context.Context, _ <-chan struct{}) (generator.Result, error) {
			return c.loadOf(unanswered).Run(ctx)
		},
		after: func(ctx context.Context) error {
			c.tell("%s: waiting until nothing is unknown any more", like.store.name)
			if err := c.awaitReviews(ctx, like.store); err != nil {
				return err
			}
			for _, account := range like.store.crowd.UnknownOutcome {
				account.NothingOpen()
			}
			return nil
		},
	}
}

// bulk sends bursts of renewals, like the bulk jobs of some operators' systems. On average they
// are half of the load.
func (c *comparison) bulk(like loading) job {
	burst := like
	burst.accounts, burst.burst = like.store.crowd.Accounts[:bulkAccounts(like.store)], bulkEvery
	burst.figure = &compare.Figure{Clients: jobClients, Rate: like.figure.Rate / 2}
	return job{
		name: "a bulk job", takes: burst.figure.Rate,
		run: func(ctx context.Context, _ <-chan struct{}) (generator.Result, error) {
			return c.loadOf(burst).Run(ctx)
		},
	}
}

// bulkAccounts is how many operators have a bulk job.
func bulkAccounts(store *compareStore) int { return len(store.crowd.Accounts) / 4 }
