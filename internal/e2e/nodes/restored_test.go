package nodes

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/transfer"
)

// databaseName returns the name of the database of an address.
func databaseName(t testing.TB, address string) string {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(parsed.Path, "/")
}

// alone runs statements while nobody can connect to the cluster's database.
func (c *cluster) alone(statements ...string) {
	c.TB.Helper()
	name := databaseName(c.TB, c.address)
	parsed, err := url.Parse(c.address)
	if err != nil {
		c.TB.Fatal(err)
	}
	parsed.Path = "/postgres"
	all := []string{
		`ALTER DATABASE ` + name + ` ALLOW_CONNECTIONS false`,
		`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '` + name + `'`,
	}
	all = append(all, statements...)
	all = append(all, `ALTER DATABASE `+name+` ALLOW_CONNECTIONS true`)
	e2e.ExecOnStore(c.TB, server.StoreConfig{Kind: "postgres", URL: parsed.String()}, all...)
}

// copyDatabase copies the cluster's database and returns the copy's name.
func (c *cluster) copyDatabase() string {
	c.TB.Helper()
	backup := databaseName(c.TB, pgtest.NewDatabase(c.TB))
	c.alone(`DROP DATABASE `+backup, `CREATE DATABASE `+backup+` TEMPLATE `+databaseName(c.TB, c.address)+` STRATEGY FILE_COPY`)
	return backup
}

// putBack replaces the cluster's database by a copy.
func (c *cluster) putBack(backup string) {
	c.TB.Helper()
	name := databaseName(c.TB, c.address)
	c.alone(`DROP DATABASE `+name, `CREATE DATABASE `+name+` TEMPLATE `+backup+` STRATEGY FILE_COPY`)
}

// awaitSold sells under a key at a node until it is sold: its connections may have ended.
func (c *cluster) awaitSold(node int, me e2e.Caller, key, mobile string) {
	c.TB.Helper()
	c.WaitUntil("node "+fmt.Sprint(node)+" sells", func() bool {
		got := c.operateAt(node, me, "activate", key, e2e.Activation(mobile))
		if got.Code != fault.OK && got.Code != fault.ServiceUnavailable {
			c.TB.Fatalf("node %d: %s", node, got.Raw)
		}
		return got.Code == fault.OK
	})
}

// operations counts the operations in the store.
func (c *cluster) operations() string {
	c.TB.Helper()
	return fmt.Sprint(c.rows(`SELECT count(*) FROM operations`))
}

// A database is put back from a copy under running nodes that go on getting orders. None of
// them sells anything before a person has accepted the store.
func TestRestoredDatabase_RunningNodesStopSelling(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newCluster(t, 2)
	me := c.NewFundedOperator("me", "1000000")
	for node := range 2 {
		c.awaitSold(node, me, fmt.Sprintf("before-copy-%d", node), fmt.Sprintf("981000000%d", node))
	}
	backup := c.copyDatabase()
	inCopy := c.operations()
	for node := range 2 {
		c.awaitSold(node, me, fmt.Sprintf("since-copy-%d", node), fmt.Sprintf("982000000%d", node))
	}
	mark := func() string { return fmt.Sprint(c.rows(`SELECT value FROM store_mark`)) }
	before := mark()
	c.WaitUntil("the sales are marked", func() bool { return mark() != before })

	c.putBack(backup)
	for node := range 2 {
		c.WaitUntil(fmt.Sprintf("node %d answers again", node), func() bool {
			got := c.operateAt(node, me, "activate", fmt.Sprintf("since-copy-%d", node), e2e.Activation(fmt.Sprintf("982000000%d", node)))
			if got.Code == fault.OK {
				t.Fatalf("node %d sold on a restored store: %s", node, got.Raw)
			}
			return got.Code == fault.ServiceUnavailable && strings.Contains(got.Message, "maintenance")
		})
		if got := c.operateAt(node, me, "activate", fmt.Sprintf("before-copy-%d", node), e2e.Activation(fmt.Sprintf("981000000%d", node))); got.Code != fault.OK {
			t.Errorf("node %d answers a known key with %s", node, got.Raw)
		}
	}
	if now := c.operations(); now != inCopy {
		t.Errorf("the copy had %s operations and has %s now", inCopy, now)
	}
	c.WaitUntil("the staff action is written", func() bool {
		return fmt.Sprint(c.rows(`SELECT count(*) FROM staff_acts WHERE actor = 'node:store_mark'`)) == "[1]"
	})
	if restores := c.rows(`SELECT how, since IS NOT NULL FROM store_restores WHERE outcome = ''`); len(restores) != 1 || !strings.Contains(restores[0], "behind what it had written") {
		t.Errorf("the restores are %q", restores)
	}
	if err := c.Admin.EndMaintenance(t.Context(), false, ""); err == nil || !strings.Contains(err.Error(), "restored from an older copy") {
		t.Errorf("maintenance ends without a comparison: %v", err)
	}
	if err := c.Admin.EndMaintenance(t.Context(), true, "compared"); err != nil {
		t.Fatal(err)
	}
	for node := range 2 {
		c.awaitSold(node, me, fmt.Sprintf("after-all-%d", node), fmt.Sprintf("983000000%d", node))
	}
	// Nodes that come and go find nothing any more.
	c.nodes[0].Kill()
	c.start(1)
	c.awaitSold(2, me, "after-all-2", "9830000002")
	if restores := c.rows(`SELECT outcome FROM store_restores`); fmt.Sprint(restores) != "[accepted]" {
		t.Errorf("the restores are %q", restores)
	}
}

// The same while no node runs: the next one that starts notices.
func TestRestoredDatabase_NoticedAtStart(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newEmptyCluster(t)
	c.start(1)
	c.nodes[0].Kill()
	backup := c.copyDatabase()
	c.start(1)
	c.nodes[1].Kill()
	c.putBack(backup)
	c.start(2)
	if restores := c.rows(`SELECT how FROM store_restores WHERE outcome = ''`); len(restores) != 1 || !strings.Contains(restores[0], "its mark is ") {
		t.Errorf("the restores are %q", restores)
	}
	if mode := c.rows(`SELECT actor FROM maintenance`); fmt.Sprint(mode) != "[node:store_mark]" {
		t.Errorf("maintenance is %q", mode)
	}
}

// Killed nodes, nodes without a file and two nodes that mark at once never look like a restore.
func TestMark_NodesComeAndGo(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newCluster(t, 2)
	me := c.NewFundedOperator("me", "1000000")
	for round := range 5 {
		c.awaitSold(2*round, me, fmt.Sprintf("sold-round-%d", round), fmt.Sprintf("98400000%02d", round))
		c.nodes[len(c.nodes)-1].Kill()
		c.nodes[len(c.nodes)-2].Kill()
		c.start(2)
	}
	if restores := c.rows(`SELECT how FROM store_restores`); len(restores) != 0 {
		t.Errorf("restores were found: %q", restores)
	}
}

// `coax restore` has no master key: the next node writes the staff action.
func TestRestoredDatabase_RecordedWithoutAKey(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newEmptyCluster(t)
	c.start(1)
	c.nodes[0].Kill()
	at := time.Now()
	if err := transfer.MarkRestored(t.Context(), transfer.Store{DB: c.open(), Postgres: true}, "it was restored from a backup", at.Add(-time.Hour), at); err != nil {
		t.Fatal(err)
	}
	c.start(1)
	if acts := c.rows(`SELECT actor, reason FROM staff_acts WHERE action = 'maintenance on'`); len(acts) != 1 || !strings.Contains(acts[0], "restored from a backup") {
		t.Errorf("the staff actions are %q", acts)
	}
	if restores := c.rows(`SELECT how, since, found_at, logged_at IS NOT NULL FROM store_restores`); len(restores) != 1 ||
		!strings.Contains(restores[0], fmt.Sprint(at.Add(-time.Hour).UnixMilli())) || !strings.Contains(restores[0], "true") {
		t.Errorf("the restores are %q", restores)
	}
}
