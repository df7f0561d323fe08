package nodes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// Nodes that start together on an empty database migrate it once and agree on the master
// key.
func TestNodes_ConcurrentStartMigratesOnce(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newEmptyCluster(t)
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
	c.setUp()
	me := c.NewFundedOperator("me", "10000")
	for i := range c.nodes {
		if got := c.operateAt(i, me, "activate", fmt.Sprintf("first-order-%d", i), e2e.Activation(fmt.Sprintf("981111111%d", i))); got.Code != fault.OK {
			t.Errorf("node %d: %s", i, got.Raw)
		}
		if status := e2e.Readiness(t, c.nodes[i].internal); status != 200 {
			t.Errorf("node %d: /readyz says %d", i, status)
		}
	}
	if got := c.WalletPaise(me); got != [2]int64{10_000_00 - 3*199_00, 0} {
		t.Errorf("the wallet is %v; want three charges", got)
	}
	c.checkClean()
	for i, node := range c.nodes {
		if status := node.Terminate(); status != e2e.ExitDone {
			t.Errorf("node %d ended with %d", i, status)
		}
	}
}

// Eight concurrent `coax migrate` apply every migration once.
func TestMigrate_ConcurrentRunsApplyOnce(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	program := e2e.FailpointBinary(t)
	for range 3 {
		c := newEmptyCluster(t)
		var running []*e2e.Process
		for range 8 {
			p := e2e.LaunchProgram(t, program, nil, "migrate", "--config", c.config)
			t.Cleanup(p.Kill)
			running = append(running, p)
		}
		for i, p := range running {
			if status := p.Wait(); status != e2e.ExitDone {
				t.Errorf("migration %d ended with %d: %s", i, status, p.Err)
			}
		}
		if got, want := c.rows(`SELECT version_id FROM goose_db_version WHERE version_id > 0`), presentMigrations(t); !slices.Equal(got, want) {
			t.Errorf("the migrations are %v; want %v, each once", got, want)
		}
		c.setUp()
		c.checkClean()
	}
}

// presentMigrations returns the numbers of the migrations in the source tree.
func presentMigrations(t *testing.T) (numbers []string) {
	t.Helper()
	files, err := filepath.Glob("../../store/postgres/migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations: %v", len(files), err)
	}
	for _, file := range files {
		number, _, _ := strings.Cut(filepath.Base(file), "_")
		numbers = append(numbers, strings.TrimLeft(number, "0"))
	}
	return numbers
}
