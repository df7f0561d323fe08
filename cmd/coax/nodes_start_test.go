package main

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

// Nodes that are started together on nothing make the schema once, and agree on
// the master key.
func TestNodesThatStartAtOnceOnAnEmptyDatabaseMakeTheSchemaOnce(t *testing.T) {
	aboutPostgres(t)
	t.Parallel()
	c := foundCluster(t)
	c.start(3)
	migrations := presentMigrations(t)
	for query, want := range map[string][]string{
		`SELECT version_id FROM goose_db_version WHERE version_id > 0 AND is_applied`: migrations,
		`SELECT count(*) FROM schema_tolerance`:                                       {strconv.Itoa(len(migrations))},
		`SELECT count(*) FROM master_keys`:                                            {"1"},
	} {
		if got := c.rows(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v; want %v", query, got, want)
		}
	}
	c.furnish()
	me := c.rich("me", "10000")
	for i := range c.nodes {
		if got := c.operateAt(i, me, "activate", fmt.Sprintf("first-order-%d", i), activation(fmt.Sprintf("981111111%d", i))); got.code != fault.OK {
			t.Errorf("node %d: %s", i, got.raw)
		}
		if status := readiness(t, c.nodes[i].internal); status != 200 {
			t.Errorf("node %d: /readyz says %d", i, status)
		}
	}
	if got := c.money(me); got != [2]int64{10_000_00 - 3*199_00, 0} {
		t.Errorf("the wallet is %v; want three charges", got)
	}
	c.clean()
	for i, node := range c.nodes {
		if status := node.Terminate(); status != exitDone {
			t.Errorf("node %d ended with %d", i, status)
		}
	}
}

// The same with more of them than one would start, and nothing but the migration.
func TestManyMigrationsAtOnceAreOne(t *testing.T) {
	aboutPostgres(t)
	t.Parallel()
	program, err := breakable()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c := foundCluster(t)
		var running []*cliProcess
		for range 8 {
			p := cliLaunchProgram(t, program, nil, "migrate", "--config", c.config)
			t.Cleanup(p.Kill)
			running = append(running, p)
		}
		for i, p := range running {
			if status := p.Wait(); status != exitDone {
				t.Errorf("migration %d ended with %d: %s", i, status, p.err)
			}
		}
		if got, want := c.rows(`SELECT version_id FROM goose_db_version WHERE version_id > 0`), presentMigrations(t); !slices.Equal(got, want) {
			t.Errorf("the migrations are %v; want %v, each once", got, want)
		}
		c.furnish()
		c.clean()
	}
}
