package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/baseline"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
)

// What a node may take of the machine's memory.
const (
	memoryIdle   = 50_000_000
	memoryLoaded = 200_000_000
	memoryFilled = 300_000_000
)

// compareSQLite measures reads and renewals of one node on a file.
func (c *comparison) compareSQLite(ctx context.Context) (err error) {
	store, err := c.prepareStore(ctx, "sqlite", map[string]string{"store.url": "sqlite:sqlite/coax.db"})
	if err != nil {
		return err
	}
	node, err := c.startNode(ctx, "sqlite", store.config)
	if err != nil {
		return err
	}
	c.memory("SQLite, idle", node, false, memoryIdle)
	if c.flags.wants("reads") {
		err = c.compareReads(ctx, store, node)
	}
	if err == nil && c.flags.wants("sqlite") {
		err = c.compareRenewals(ctx, store, node)
	}
	if err == nil {
		c.memory(fmt.Sprintf("SQLite, most of it all, up to %d clients", c.plan.maxClients()), node, true, memoryLoaded)
	}
	if err := errors.Join(err, node.Stop()); err != nil {
		return err
	}
	return c.prove(ctx, store, true)
}

// compareReads compares signed reads with a bare handler.
func (c *comparison) compareReads(ctx context.Context, store *compareStore, node *compareNode) (err error) {
	bare, err := c.startBare(ctx, node, store.crowd.Accounts[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Stop()) }()
	reading := loading{store: store, nodes: []*compareNode{node}, meter: c.meterOf(store, node), duration: c.plan.duration}
	for _, clients := range c.plan.clients {
		below, ours := reading, reading
		below.figure = c.figure(compare.Figure{Name: "bare TLS handler, " + counted(clients, "client"), Clients: clients, Baseline: true})
		below.nodes, below.meter = []*compareNode{bare}, c.meterOf(store, bare)
		ours.figure = c.figure(compare.Figure{Name: "balance, " + counted(clients, "client"), Clients: clients})
		if err := c.alternate(ctx,
			func() error { return c.load(ctx, below) },
			func() error { return c.load(ctx, ours) },
		); err != nil {
			return err
		}
		atLeast, aim := 0.0, 0.0
		if clients == c.plan.maxClients() {
			atLeast, aim = 0.40, 0.60
			reading.figure = ours.figure
		}
		c.report.Ratios = append(c.report.Ratios, compare.RatioOf("balance ÷ bare TLS handler, "+counted(clients, "client"), ours.figure, below.figure, atLeast, aim))
	}
	if err := c.profile(ctx, reading, "reads"); err != nil {
		return err
	}
	open := c.openLoop(reading, "balance")
	return c.alternate(ctx, func() error { return c.load(ctx, open) })
}

// compareRenewals compares renewals with writing their rows alone.
func (c *comparison) compareRenewals(ctx context.Context, store *compareStore, node *compareNode) (err error) {
	c.tell("preparing the raw store")
	raw, err := baseline.OpenRawSQLite(ctx, filepath.Join(c.folder, "raw.db"), c.plan.crowd.Operators, c.plan.crowd.Subscribers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	renewing := loading{store: store, nodes: []*compareNode{node}, renewals: true, meter: c.meterOf(store, node), duration: c.plan.duration}
	figureOf := func(clients int) *compare.Figure {
		return c.figure(compare.Figure{Name: fmt.Sprintf("renewals on SQLite, %s", counted(clients, "client")), Clients: clients})
	}
	for _, fewer := range c.plan.clients[:len(c.plan.clients)-1] {
		renewing.figure = figureOf(fewer)
		if err := c.alternate(ctx, func() error { return c.load(ctx, renewing) }); err != nil {
			return err
		}
	}
	below := c.figure(compare.Figure{Name: "rows alone on SQLite, 64 a commit", Baseline: true})
	renewing.figure = figureOf(c.plan.maxClients())
	if err := c.alternate(ctx,
		func() error { return c.runRaw(ctx, raw, below) },
		func() error { return c.load(ctx, renewing) },
	); err != nil {
		return err
	}
	c.report.Ratios = append(c.report.Ratios, compare.RatioOf(renewing.figure.Name+" ÷ rows alone", renewing.figure, below, 0.25, 0.45))
	if err := c.profile(ctx, renewing, "renewals-sqlite"); err != nil {
		return err
	}
	return c.compareLatency(ctx, renewing, "renewals on SQLite")
}

// runRaw makes one run of the rows alone, in this process.
func (c *comparison) runRaw(ctx context.Context, raw *baseline.RawSQLite, figure *compare.Figure) error {
	before, err := ownCPU()
	if err != nil {
		before = -1
	}
	operations, elapsed, err := raw.Run(ctx, c.plan.duration)
	if err != nil {
		return fmt.Errorf("write rows alone: %w", err)
	}
	run := compare.Run{Requests: uint64(operations), Seconds: elapsed.Seconds(), PerSecond: float64(operations) / elapsed.Seconds(), CPU: map[string]float64{}}
	if after, err := ownCPU(); err == nil && before >= 0 && operations > 0 {
		run.CPU["database"] = float64((after - before).Microseconds()) / float64(operations)
	}
	c.take(figure, run)
	return nil
}
