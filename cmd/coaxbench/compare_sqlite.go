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
	memoryIdle   = 35_000_000
	memoryLoaded = 130_000_000
	memoryFilled = 220_000_000
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
		err = c.compareReads(ctx, "SQLite", readTargets{balance: 0.45, others: 0.33}, store, node)
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
		c.oneClient(renewing, "SQLite", 3)
	}
	below := c.figure(compare.Figure{Name: "rows alone on SQLite, 64 a commit", Baseline: true})
	renewing.figure = figureOf(c.plan.maxClients())
	activating := c.activationsLike(renewing, "SQLite")
	if err := c.alternate(ctx,
		func() error { return c.runRaw(ctx, raw, below) },
		func() error { return c.load(ctx, renewing) },
		func() error { return c.load(ctx, activating) },
	); err != nil {
		return err
	}
	c.report.Ratios = append(c.report.Ratios,
		compare.RatioOf(renewing.figure.Name+" ÷ rows alone", renewing.figure, below, 0.60, 0),
		compare.RatioOf("activations ÷ renewals on SQLite", activating.figure, renewing.figure, 0.80, 0))
	if err := c.profile(ctx, renewing, "renewals-sqlite"); err != nil {
		return err
	}
	return c.compareLatency(ctx, renewing, "renewals on SQLite")
}

// activationsLike is a load of activations instead of renewals.
func (c *comparison) activationsLike(renewing loading, kind string) loading {
	renewing.activate = true
	clients := renewing.figure.Clients
	renewing.figure = c.figure(compare.Figure{Name: fmt.Sprintf("activations on %s, %s", kind, counted(clients, "client")), Clients: clients})
	return renewing
}

// oneClient adds how long one client alone waits for a renewal, if that is what was measured.
func (c *comparison) oneClient(renewing loading, kind string, milliseconds float64) {
	if renewing.figure.Clients == 1 {
		c.report.Ratios = append(c.report.Ratios, compare.MillisecondsOf(
			fmt.Sprintf("ms of one client's renewal on %s, without the simulator's", kind), renewing.figure, "simulator", milliseconds))
	}
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
