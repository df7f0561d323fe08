package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
)

// requestLogLeaves is what keeping operators' calls may leave of a node's figures.
const requestLogLeaves = 0.95

// compareRequestLog measures what it costs to keep operators' calls: a node that
// does beside one that does not, each on a store of its own.
func (c *comparison) compareRequestLog(ctx context.Context) (err error) {
	if err := c.compareKeeping(ctx, "SQLite", func(name string) (string, error) { return "sqlite:" + name + "/coax.db", nil }); err != nil {
		return err
	}
	cluster, err := c.startCluster(ctx, "postgres-calls")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	return c.compareKeeping(ctx, "PostgreSQL", func(name string) (string, error) { return cluster.URL(name), cluster.CreateDatabase(ctx, name) })
}

// compareKeeping does so on stores of one kind.
func (c *comparison) compareKeeping(ctx context.Context, kind string, newStore func(name string) (url string, err error)) (err error) {
	type side struct {
		store *compareStore
		node  *compareNode
	}
	begin := func(name, keep string) (s side, err error) {
		url, err := newStore(name)
		if err != nil {
			return s, err
		}
		if s.store, err = c.prepareStore(ctx, name, map[string]string{"store.url": url, "request_log.keep": keep}); err != nil {
			return s, err
		}
		s.node, err = c.startNode(ctx, name, s.store.config)
		return s, err
	}
	keeping, err := begin("calls_kept_"+kind, "720h")
	if err != nil {
		return err
	}
	forgetting, err := begin("calls_forgotten_"+kind, "0s")
	if err != nil {
		return errors.Join(err, keeping.node.Stop())
	}
	for _, renewals := range []bool{false, true} {
		what := map[bool]string{false: "balance", true: "renewals"}[renewals]
		load := func(s side, words string) loading {
			return loading{
				store: s.store, nodes: []*compareNode{s.node}, renewals: renewals, meter: c.meterOf(s.store, s.node), duration: c.plan.duration,
				figure: c.figure(compare.Figure{Name: fmt.Sprintf("%s on %s, %s, %d clients", what, kind, words, c.plan.maxClients()), Clients: c.plan.maxClients()}),
			}
		}
		with, without := load(keeping, "calls kept"), load(forgetting, "calls not kept")
		if err = c.alternate(ctx,
			func() error { return c.load(ctx, without) },
			func() error { return c.load(ctx, with) },
		); err != nil {
			break
		}
		c.report.Ratios = append(c.report.Ratios,
			compare.RatioOf(fmt.Sprintf("%s on %s, calls kept ÷ not kept", what, kind), with.figure, without.figure, requestLogLeaves, 0))
	}
	if err := errors.Join(err, keeping.node.Stop(), forgetting.node.Stop()); err != nil {
		return err
	}
	return errors.Join(c.prove(ctx, keeping.store, true), c.prove(ctx, forgetting.store, true))
}
