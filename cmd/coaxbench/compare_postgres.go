package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/baseline"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/latency"
	"github.com/coaxhq/coax/internal/store/pgtest/pgprogram"
	"github.com/jackc/pgx/v5"
)

// moreNodes is the number of additional nodes.
const moreNodes = 2

// comparePostgres measures renewals on a cluster of our own, beside pgbench.
func (c *comparison) comparePostgres(ctx context.Context) (err error) {
	cluster, err := c.startCluster(ctx, "postgres")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	pgbench, err := c.preparePgBench(ctx, cluster)
	if err != nil {
		return err
	}
	if err := cluster.CreateDatabase(ctx, growth.Database); err != nil {
		return err
	}
	store, err := c.prepareStore(ctx, "postgres", map[string]string{"store.url": cluster.URL(growth.Database)})
	if err != nil {
		return err
	}
	store.database, store.vacuum = cpuOf(cluster), vacuumOf(cluster)
	node, err := c.startNode(ctx, "postgres-1", store.config)
	if err != nil {
		return err
	}
	c.memory("PostgreSQL, idle", node, false, memoryIdle)
	err = c.compareReads(ctx, "PostgreSQL", readTargets{balance: 0.25, others: 0.15}, store, node)
	if err == nil {
		err = c.compareOnCluster(ctx, cluster, pgbench, store, node)
	}
	c.memory(fmt.Sprintf("PostgreSQL, most of it all, up to %d clients", c.plan.maxClients()), node, true, memoryLoaded)
	if err := errors.Join(err, node.Stop()); err != nil {
		return err
	}
	return c.prove(ctx, store, true)
}

// startCluster creates a PostgreSQL cluster that survives power failures, like one in
// production.
func (c *comparison) startCluster(ctx context.Context, name string) (*growth.Cluster, error) {
	c.tell("starting PostgreSQL")
	data := filepath.Join(c.folder, name, "data")
	if err := os.Mkdir(filepath.Dir(data), 0o755); err != nil {
		return nil, err
	}
	if err := growth.InitCluster(data); err != nil {
		return nil, err
	}
	return c.openCluster(ctx, data)
}

// openCluster starts a PostgreSQL on its data, and reads back what its figures
// rest on.
func (c *comparison) openCluster(ctx context.Context, data string) (*growth.Cluster, error) {
	cluster, err := growth.StartCluster(ctx, data, clusterSettings(c.report.Machine.MemoryMB)...)
	if err != nil {
		return nil, err
	}
	connection, err := pgx.Connect(ctx, cluster.URL("postgres"))
	if err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	defer connection.Close(ctx)
	for _, promise := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		var value string
		if err := connection.QueryRow(ctx, "SHOW "+promise).Scan(&value); err != nil || value != "on" {
			return nil, errors.Join(fmt.Errorf("PostgreSQL has %s = %q; want on", promise, value), err, cluster.Stop())
		}
	}
	return cluster, nil
}

// clusterSettings are what an administrator would give a PostgreSQL on such a machine: a
// quarter of its memory, as its manual advises. What must survive a crash is as
// PostgreSQL has it by itself.
func clusterSettings(memoryMB int64) []string {
	const minimum, limit = 256, 4096
	return []string{fmt.Sprintf("shared_buffers=%dMB", min(max(memoryMB/4, minimum), limit)), "max_wal_size=4GB"}
}

// vacuuming is how fast a database is cleaned up: as fast as it goes, or with the
// rests that it takes where it does so by itself.
type vacuuming string

const (
	atOnce    vacuuming = "0"
	inPassing vacuuming = "2ms"
)

// vacuumOf cleans up what is in the stores of a cluster.
func vacuumOf(cluster *growth.Cluster) func(context.Context, vacuuming) error {
	return func(ctx context.Context, how vacuuming) error {
		connection, err := pgx.Connect(ctx, cluster.URL(growth.Database))
		if err != nil {
			return err
		}
		defer connection.Close(ctx)
		for _, text := range []string{"SET vacuum_cost_delay = '" + string(how) + "'", "VACUUM (ANALYZE)"} {
			if _, err := connection.Exec(ctx, text); err != nil {
				return fmt.Errorf("clean the database up: %w", err)
			}
		}
		return nil
	}
}

func (c *comparison) preparePgBench(ctx context.Context, cluster *growth.Cluster) (baseline.PgBench, error) {
	c.tell("preparing pgbench, scale %d", c.plan.scale)
	const database = "pgbench"
	program, err := pgprogram.Find("pgbench")
	if err != nil {
		return baseline.PgBench{}, err
	}
	if err := cluster.CreateDatabase(ctx, database); err != nil {
		return baseline.PgBench{}, err
	}
	pgbench := baseline.PgBench{Program: program, URL: cluster.URL(database)}
	return pgbench, pgbench.Prepare(ctx, c.plan.scale)
}

func (c *comparison) compareOnCluster(ctx context.Context, cluster *growth.Cluster, pgbench baseline.PgBench, store *compareStore, node *compareNode) error {
	one := loading{store: store, nodes: []*compareNode{node}, renewals: true, meter: c.meterOf(store, node), duration: c.plan.duration}
	for _, clients := range c.plan.clients {
		many := counted(clients, "client")
		below := c.figure(compare.Figure{Name: "pgbench TPC-B, " + many, Clients: clients, Baseline: true})
		one.figure = c.figure(compare.Figure{Name: "renewals on PostgreSQL, " + many, Clients: clients})
		runs := []func() error{
			func() error { return c.runPgBench(ctx, pgbench, below, cpuOf(cluster)) },
			func() error { return c.load(ctx, one) },
		}
		atLeast, three, activating := 0.0, one, one
		if clients == c.plan.maxClients() {
			atLeast = 1
			activating = c.activationsLike(one, "PostgreSQL")
			runs = append(runs, func() error { return c.load(ctx, activating) })
			three.figure = c.figure(compare.Figure{Name: "the same, three nodes, " + many, Clients: clients})
			runs = append(runs, func() error { return c.loadThree(ctx, three) })
		}
		if err := c.alternate(ctx, runs...); err != nil {
			return err
		}
		c.report.Ratios = append(c.report.Ratios,
			compare.RatioOf("renewals on PostgreSQL ÷ pgbench TPC-B, "+many, one.figure, below, atLeast, 0))
		c.oneClient(one, "PostgreSQL", 5)
		if clients == c.plan.maxClients() {
			c.report.Ratios = append(c.report.Ratios,
				compare.RateRatioOf("the same by rate", one.figure, below, 0.85),
				compare.RatioOf("three nodes ÷ one node on PostgreSQL", three.figure, one.figure, 1, 0),
				compare.RatioOf("activations ÷ renewals on PostgreSQL", activating.figure, one.figure, 0, 0))
		}
	}
	if err := c.profile(ctx, one, "renewals-postgres"); err != nil {
		return err
	}
	return c.compareLatency(ctx, one, "renewals on PostgreSQL")
}

// loadThree loads three nodes together. The two others run only meanwhile, because an idle node
// queries the database, too. They cache the same operators before anything is measured.
func (c *comparison) loadThree(ctx context.Context, of loading) (err error) {
	for i := range moreNodes {
		node, err := c.startNode(ctx, fmt.Sprintf("postgres-%d", i+2), of.store.config)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, node.Stop()) }()
		of.nodes = append(of.nodes, node)
	}
	of.meter, of.warmup = c.meterOf(of.store, of.nodes...), c.plan.meeting
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
	used := perRequest(before, cpu.read(), run.Transactions)
	if run.Transactions > 0 {
		used["generator"] = float64(run.CPU.Microseconds()) / float64(run.Transactions)
	}
	c.take(figure, compare.Run{
		Requests: run.Transactions, Seconds: c.plan.duration.Seconds(), PerSecond: run.PerSecond,
		Latency: latency.Summary{Mean: run.LatencyMS}, CPU: used,
	})
	return nil
}
