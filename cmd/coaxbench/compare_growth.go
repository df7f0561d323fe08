package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/crowd"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/generator"
)

// compareGrowth compares renewals on large stores with renewals on small ones, on both kinds. It
// is the last part.
func (c *comparison) compareGrowth(ctx context.Context) error {
	c.plan.rounds = c.plan.growthRounds
	for _, kind := range []struct {
		growth.Kind
		name    string
		compare func(context.Context, growth.Store) error
	}{
		{growth.SQLite, "SQLite", c.compareGrownSQLite},
		{growth.Postgres, "PostgreSQL", c.compareGrownPostgres},
	} {
		filled, err := c.filledStore(ctx, kind.Kind, kind.name)
		if err != nil {
			return fmt.Errorf("fill a store: %w", err)
		}
		if err := kind.compare(ctx, filled); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return nil
}

// filledStore returns the largest store in the cache, or else fills a smaller one, which takes
// less time.
func (c *comparison) filledStore(ctx context.Context, kind growth.Kind, name string) (growth.Store, error) {
	filled, found := growth.Find(c.flags.out, kind, c.plan.large)
	if !found || filled.Operations < c.plan.enough {
		c.tell("%s: filling a store with %d operations", name, c.plan.enough)
		told := time.Now()
		var err error
		filled, err = growth.Filled(ctx, c.flags.out, kind, c.plan.enough, func(p growth.Progress) {
			if time.Since(told) >= time.Second {
				c.tell("%s: %.0f %% filled: %s", name, 100*float64(p.Done)/float64(p.Total), p.Step)
				told = time.Now()
			}
		})
		if err != nil {
			return filled, err
		}
	}
	note := fmt.Sprintf("the store that has grown on %s had %d operations of %d subscribers when it was filled", name, filled.Operations, filled.Subscribers)
	if filled.Operations < c.plan.large {
		note += fmt.Sprintf("; `coaxbench fill --store %s --cache %s` makes one of %d", kind, c.flags.out, c.plan.large)
	}
	c.report.Notes = append(c.report.Notes, note)
	return filled, nil
}

// crowdOf returns as many operators and subscribers of a filled store as any other load has,
// spread evenly over it.
func crowdOf(filled growth.Store, size crowd.Size) crowd.Crowd {
	c := crowd.Crowd{Plans: filled.PlanIDs}
	operators := min(size.Operators, filled.Operators)
	// The last subscribers bought just before the store was filled, and the same renewal
	// would be refused.
	each := min(size.Subscribers/size.Operators, filled.SubscribersOf()/2)
	for i := range operators {
		at := i * filled.Operators / operators
		operator := filled.Accounts[at]
		account := generator.NewAccount(operator.ID, operator.Key, operator.Secret)
		for nth := range each {
			account.Subscribers = append(account.Subscribers, filled.Subscriber(at, nth))
		}
		c.Accounts = append(c.Accounts, account)
	}
	return c
}

// grownStore is a filled store, ready for nodes.
func (c *comparison) grownStore(ctx context.Context, filled growth.Store, name, url string) (*compareStore, error) {
	key, err := filepath.Abs(filled.MasterKeyFile())
	if err != nil {
		return nil, err
	}
	file, err := c.writeConfig(name, map[string]string{
		"store.url": url, "secrets.master_key_file": key, "store.mark_file": filepath.Join(filepath.Dir(key), "store.mark"),
	})
	if err != nil {
		return nil, err
	}
	s := &compareStore{name: name, config: file, crowd: crowdOf(filled, c.plan.crowd)}
	config, err := s.readConfig()
	if err != nil {
		return nil, err
	}
	c.tell("%s: counting what is in the ledger", name)
	s.charges, _, err = countCharges(ctx, config)
	return s, err
}

// warm reads a store's files once, so that the page cache has what fits, as after some days of
// service: reading page by page from the disk would measure the disk. The files are opened for
// random access, because that is how a service reads; cached pages are read again, because they
// may have been read sequentially, by an audit for example.
func (c *comparison) warm(ctx context.Context, path string) error {
	c.tell("reading %s once", path)
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := errors.Join(forget(file), expectAnyOrder(file)); err != nil {
			return fmt.Errorf("read %s once: %w", name, err)
		}
		// A system that expects no order reads nothing ahead.
		piece := make([]byte, 1<<20)
		for err == nil {
			_, err = file.Read(piece)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
}

func (c *comparison) compareGrownSQLite(ctx context.Context, filled growth.Store) error {
	path, err := filepath.Abs(filled.Path())
	if err != nil {
		return err
	}
	if err := c.warm(ctx, path); err != nil {
		return err
	}
	large, err := c.grownStore(ctx, filled, "sqlite-large", "sqlite:"+path)
	if err != nil {
		return err
	}
	small, err := c.prepareStore(ctx, "sqlite-small", map[string]string{"store.url": "sqlite:sqlite-small/coax.db"})
	if err != nil {
		return err
	}
	return c.compareSizes(ctx, "SQLite", filled.Operations, large, small)
}

func (c *comparison) compareGrownPostgres(ctx context.Context, filled growth.Store) (err error) {
	// Each has a PostgreSQL of its own, so that they do not share buffers.
	if err := c.warm(ctx, filled.Data()); err != nil {
		return err
	}
	grown, err := c.openCluster(ctx, filled.Data())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, grown.Stop()) }()
	large, err := c.grownStore(ctx, filled, "postgres-large", grown.URL(growth.Database))
	if err != nil {
		return err
	}
	fresh, err := c.startCluster(ctx, "postgres-small")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fresh.Stop()) }()
	if err := fresh.CreateDatabase(ctx, growth.Database); err != nil {
		return err
	}
	small, err := c.prepareStore(ctx, "postgres-small", map[string]string{"store.url": fresh.URL(growth.Database)})
	if err != nil {
		return err
	}
	large.database, small.database = cpuOf(grown), cpuOf(fresh)
	return c.compareSizes(ctx, "PostgreSQL", filled.Operations, large, small)
}

// compareSizes loads a node on each of two stores in turn.
func (c *comparison) compareSizes(ctx context.Context, kind string, operations int, large, small *compareStore) (err error) {
	nodeOf := func(store *compareStore, size string) (of loading, stop func() error, err error) {
		node, err := c.startNode(ctx, store.name, store.config)
		if err != nil {
			return of, nil, err
		}
		return loading{
			store: store, nodes: []*compareNode{node}, renewals: true, meter: c.meterOf(store, node), duration: c.plan.duration,
			figure: c.figure(compare.Figure{Name: fmt.Sprintf("renewals, %s of %s operations", kind, size), Clients: c.plan.maxClients()}),
		}, node.Stop, nil
	}
	below, stopBelow, err := nodeOf(small, short(c.plan.small))
	if err != nil {
		return err
	}
	grown, stopGrown, err := nodeOf(large, short(operations))
	if err != nil {
		return errors.Join(err, stopBelow())
	}
	// Both have answered the same number of requests before, and have all operators cached.
	err = c.grow(ctx, below)
	if err == nil {
		err = c.grow(ctx, grown)
	}
	if err == nil {
		err = c.alternate(ctx,
			func() error { return c.load(ctx, below) },
			func() error { return c.load(ctx, grown) },
		)
	}
	if err == nil {
		err = c.profile(ctx, grown, "renewals-grown-"+strings.ToLower(kind))
	}
	if err == nil {
		c.memory(fmt.Sprintf("%s, most of it all, %s operations in the store", kind, short(operations)), grown.nodes[0], true, memoryFilled)
	}
	if err := errors.Join(err, stopBelow(), stopGrown()); err != nil {
		return err
	}
	c.report.Ratios = append(c.report.Ratios, compare.RatioOf(
		fmt.Sprintf("%s of %s operations ÷ of %s", kind, short(operations), short(c.plan.small)), grown.figure, below.figure, 0.90, 0))
	if err := c.prove(ctx, small, true); err != nil {
		return err
	}
	return c.prove(ctx, large, false)
}

// grow renews until a store has as many more operations as a small store has in all.
func (c *comparison) grow(ctx context.Context, of loading) error {
	for of.store.answered.Done < uint64(c.plan.small) {
		before := of.store.answered.Done
		result, err := c.send(ctx, of, nil, nil)
		if err != nil {
			return err
		}
		if of.store.answered.Done == before {
			return fmt.Errorf("no renewal came through: %v", result.Problems)
		}
	}
	return nil
}

// short writes a large number as people say it.
func short(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.3g million", float64(n)/1e6)
	case n >= 1_000:
		return fmt.Sprintf("%.3g thousand", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}
