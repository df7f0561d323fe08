package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/coaxhq/coax/internal/bench"
	"github.com/coaxhq/coax/internal/bench/baseline"
	"github.com/coaxhq/coax/internal/bench/compare"
	"github.com/coaxhq/coax/internal/bench/machine"
)

// moreNodes is how many join the first one.
const moreNodes = 2

// comparePostgres measures renewals on a cluster of our own, beside pgbench.
func (c *comparison) comparePostgres(ctx context.Context) (err error) {
	c.tell("starting PostgreSQL")
	cluster, err := machine.StartCluster(ctx, filepath.Join(c.folder, "postgres"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	pgbench, err := c.preparePgBench(ctx, cluster)
	if err != nil {
		return err
	}
	url, err := cluster.NewDatabase(ctx, "coax")
	if err != nil {
		return err
	}
	store, err := c.prepareStore(ctx, "postgres", map[string]string{"store.url": url})
	if err != nil {
		return err
	}
	node, err := c.startNode(ctx, "postgres-1", store.config)
	if err != nil {
		return err
	}
	c.memory("PostgreSQL, idle", node, false, memoryIdle)
	err = c.compareOnCluster(ctx, cluster, pgbench, store, node)
	c.memory(fmt.Sprintf("PostgreSQL, most of it all, up to %d clients", c.plan.most()), node, true, memoryLoaded)
	if err := errors.Join(err, node.Stop()); err != nil {
		return err
	}
	return c.prove(ctx, store, true)
}

func (c *comparison) preparePgBench(ctx context.Context, cluster *machine.Cluster) (baseline.PgBench, error) {
	c.tell("preparing pgbench, scale %d", c.plan.scale)
	url, err := cluster.NewDatabase(ctx, "pgbench")
	if err != nil {
		return baseline.PgBench{}, err
	}
	pgbench := baseline.PgBench{Bin: cluster.Bin, URL: url}
	return pgbench, pgbench.Prepare(ctx, c.plan.scale)
}

func (c *comparison) compareOnCluster(ctx context.Context, cluster *machine.Cluster, pgbench baseline.PgBench, store *compareStore, node *compareNode) error {
	clients := c.plan.most()
	database := func() (time.Duration, error) { return machine.CPUOfTree(cluster.PID()) }
	one := loading{store: store, nodes: []*compareNode{node}, renewals: true, meter: c.meterOf(node), duration: c.plan.duration}
	one.meter["database"] = database
	below := c.figure(compare.Figure{Name: fmt.Sprintf("pgbench TPC-B, %d clients", clients), Clients: clients, Baseline: true})
	one.figure = c.figure(compare.Figure{Name: fmt.Sprintf("renewals on PostgreSQL, %d clients", clients), Clients: clients})
	three := one
	three.figure = c.figure(compare.Figure{Name: fmt.Sprintf("the same, three nodes, %d clients", clients), Clients: clients})
	if err := c.alternate(
		func() error { return c.runPgBench(ctx, pgbench, below, database) },
		func() error { return c.load(ctx, one) },
		func() error { return c.loadThree(ctx, three, database) },
	); err != nil {
		return err
	}
	c.report.Ratios = append(c.report.Ratios,
		compare.RatioOf(fmt.Sprintf("renewals on PostgreSQL ÷ pgbench TPC-B, %d clients", clients), one.figure, below, 0.40, 1.0),
		compare.RatioOf("three nodes ÷ one node on PostgreSQL", three.figure, one.figure, 0.85, 0))
	if err := c.profile(ctx, one, "renewals-postgres"); err != nil {
		return err
	}
	return c.openLoop(ctx, one, "renewals on PostgreSQL")
}

// loadThree loads three nodes together. The two more are there for this run
// alone: an idle node asks its database things, too.
func (c *comparison) loadThree(ctx context.Context, of loading, database func() (time.Duration, error)) (err error) {
	for i := range moreNodes {
		node, err := c.startNode(ctx, fmt.Sprintf("postgres-%d", i+2), of.store.config)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, node.Stop()) }()
		of.nodes = append(of.nodes, node)
	}
	of.meter = c.meterOf(of.nodes...)
	of.meter["database"] = database
	return c.load(ctx, of)
}

// runPgBench makes one run of pgbench, of the same length and warmed up as long.
func (c *comparison) runPgBench(ctx context.Context, pgbench baseline.PgBench, figure *compare.Figure, database func() (time.Duration, error)) error {
	if c.plan.warmup >= time.Second {
		if _, err := pgbench.Run(ctx, figure.Clients, c.plan.warmup); err != nil {
			return err
		}
	}
	cpu := meter{"database": database}
	before := cpu.read()
	run, err := pgbench.Run(ctx, figure.Clients, c.plan.duration)
	if err != nil {
		return err
	}
	c.take(figure, compare.Run{
		Requests: run.Transactions, Seconds: c.plan.duration.Seconds(), PerSecond: run.PerSecond,
		Latency: bench.Latency{Mean: run.LatencyMS}, CPU: perRequest(before, cpu.read(), run.Transactions),
	})
	return nil
}
