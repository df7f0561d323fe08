package main

import (
	"context"
	"fmt"

	"github.com/coaxhq/coax/internal/bench/compare"
)

// openLoop is a load that sends at half of what a closed loop has reached,
// whatever comes back.
func (c *comparison) openLoop(like loading, name string) loading {
	rate := max(1, like.figure.Median.PerSecond/2)
	like.figure = c.figure(compare.Figure{Name: fmt.Sprintf("%s, open loop, %.0f/s", name, rate), Clients: c.plan.most(), Rate: rate})
	like.duration = c.plan.open
	return like
}

// compareLatency asks how long renewals take at half of what a node can do, and
// whether somebody who audits the store meanwhile makes them take longer.
func (c *comparison) compareLatency(ctx context.Context, like loading, name string) error {
	alone := c.openLoop(like, name)
	beside := alone
	beside.figure = c.figure(compare.Figure{Name: "the same, beside audits", Clients: alone.figure.Clients, Rate: alone.figure.Rate})
	if err := c.alternate(
		func() error { return c.load(ctx, alone) },
		func() error {
			return c.auditing(ctx, alone.store, func() error { return c.load(ctx, beside) })
		},
	); err != nil {
		return err
	}
	c.report.Ratios = append(c.report.Ratios, compare.LatencyRatioOf("p99 of "+name+" beside audits ÷ alone", beside.figure, alone.figure, 2))
	return nil
}

// auditing does something while another process audits the store, again and
// again.
func (c *comparison) auditing(ctx context.Context, store *compareStore, meanwhile func() error) error {
	auditing, stop := context.WithCancel(ctx)
	defer stop()
	audited := make(chan error, 1)
	go func() {
		for auditing.Err() == nil {
			if err := runProgram(auditing, "audit", "--config", store.config); err != nil && auditing.Err() == nil {
				audited <- err
				return
			}
		}
		audited <- nil
	}()
	err := meanwhile()
	stop()
	if problem := <-audited; problem != nil {
		c.report.Problems = append(c.report.Problems, fmt.Sprintf("%s: an audit beside the load: %v", store.name, problem))
	}
	return err
}
