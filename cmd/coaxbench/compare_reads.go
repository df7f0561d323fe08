package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
)

// maxTail is what the 99th percentile of a look-up may be of its median, at half of the
// throughput.
const maxTail = 4

// readTargets are what balances and the other look-ups must reach of the bare handler.
type readTargets struct{ balance, others float64 }

// compareReads compares signed look-ups of every kind with a bare handler: balances with any
// number of clients, the others with the most.
func (c *comparison) compareReads(ctx context.Context, kind string, targets readTargets, store *compareStore, node *compareNode) (err error) {
	bare, err := c.startBare(ctx, node, store.crowd.Accounts[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Stop()) }()
	reading := loading{store: store, nodes: []*compareNode{node}, meter: c.meterOf(store, node), duration: c.plan.duration}
	if err := c.makeTransactions(ctx, reading); err != nil {
		return err
	}
	var most []loading
	for _, clients := range c.plan.clients {
		reads, asked := []string{load.Balance}, readTargets{}
		if clients == c.plan.maxClients() {
			reads, asked = load.ReadKinds, targets
		}
		if most, err = c.compareWithBare(ctx, kind, reads, clients, asked, reading, bare); err != nil {
			return err
		}
	}
	for _, read := range most {
		if err := c.profile(ctx, read, read.lookup+"-"+store.name); err != nil {
			return err
		}
	}
	return c.compareTails(ctx, kind, most)
}

// makeTransactions renews, so that there are transactions to look up.
func (c *comparison) makeTransactions(ctx context.Context, like loading) error {
	like.renewals = true
	like.figure = &compare.Figure{Name: "renewals, to be looked up", Clients: c.plan.maxClients()}
	_, err := c.send(ctx, like, nil, nil)
	return err
}

// compareWithBare loads the bare handler and a node with each kind of look-up in turn.
func (c *comparison) compareWithBare(ctx context.Context, kind string, reads []string, clients int, asked readTargets, like loading, bare *compareNode) (all []loading, err error) {
	many := counted(clients, "client")
	below := like
	below.figure = c.figure(compare.Figure{Name: fmt.Sprintf("bare TLS handler beside %s, %s", kind, many), Clients: clients, Baseline: true})
	below.nodes, below.meter = []*compareNode{bare}, c.meterOf(like.store, bare)
	runs := []func() error{func() error { return c.load(ctx, below) }}
	for _, read := range reads {
		ours := like
		ours.lookup = read
		ours.figure = c.figure(compare.Figure{Name: fmt.Sprintf("%s on %s, %s", read, kind, many), Clients: clients})
		all = append(all, ours)
		runs = append(runs, func() error { return c.load(ctx, ours) })
	}
	if err := c.alternate(ctx, runs...); err != nil {
		return nil, err
	}
	for _, ours := range all {
		atLeast := asked.others
		if ours.lookup == load.Balance {
			atLeast = asked.balance
		}
		c.report.Ratios = append(c.report.Ratios, compare.RatioOf(ours.figure.Name+" ÷ bare TLS handler", ours.figure, below.figure, atLeast, 0))
	}
	return all, nil
}

// compareTails measures the latency of look-ups at half of a node's throughput.
func (c *comparison) compareTails(ctx context.Context, kind string, closed []loading) error {
	var open []loading
	var runs []func() error
	for _, read := range closed {
		half := c.openLoop(read, read.lookup+" on "+kind)
		open = append(open, half)
		runs = append(runs, func() error { return c.load(ctx, half) })
	}
	if err := c.alternate(ctx, runs...); err != nil {
		return err
	}
	for _, half := range open {
		c.report.Ratios = append(c.report.Ratios, compare.TailRatioOf(fmt.Sprintf("p99 ÷ p50 of %s on %s at half load", half.lookup, kind), half.figure, maxTail))
	}
	return nil
}
