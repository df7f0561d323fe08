//go:build long

package nodes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/program"
	"github.com/coaxhq/coax/internal/fault"
)

// newer builds the program with one more migration, as a next release would have. It is
// built once.
var newer = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root, "internal/store/postgres/migrations/00099_next_release.sql"): filepath.Join(root, "internal/e2e/nodes/testdata/next_release.sql"),
	}})
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "coax-overlay-*.json")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(overlay); err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	return program.Build("coax-newer", "-tags", "failpoints", "-overlay", file.Name())
})

// traffic is a continuous load of orders on the nodes in the load balancer.
type traffic struct {
	c     *cluster
	as    e2e.Caller
	mu    sync.Mutex
	nodes []int // those in the load balancer
	// all is a copy of the cluster's nodes, because more may be started meanwhile.
	all    []*clusterNode
	served map[int]int
	// slowest is the longest time to an answer.
	slowest time.Duration
	orders  atomic.Int64
	stop    func()
}

// traffic starts sending orders. Each must succeed, on another node if one does not
// answer.
func (c *cluster) traffic(as e2e.Caller, nodes ...int) *traffic {
	l := &traffic{c: c, as: as, nodes: nodes, all: slices.Clone(c.nodes), served: map[int]int{}}
	done := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				l.order(l.orders.Add(1))
			}
		})
	}
	l.stop = sync.OnceFunc(func() { close(done); group.Wait() })
	c.TB.Cleanup(l.stop)
	return l
}

// order activates a subscriber and renews it.
func (l *traffic) order(i int64) {
	first := l.mustOrder(i, "activate", e2e.Activation(fmt.Sprintf("98%08d", i)))
	l.mustOrder(i, "renew", e2e.Order{"subscriber_id": first.Text("customer.subscriber_id"), "plan_id": "FAMILY-1"})
}

func (l *traffic) mustOrder(i int64, endpoint string, o e2e.Order) e2e.Answer {
	key := fmt.Sprintf("traffic-%s-%06d", endpoint, i)
	for try := 0; ; try++ {
		l.mu.Lock()
		node := l.nodes[(int(i)+try)%len(l.nodes)]
		at := l.all[node]
		l.mu.Unlock()
		began := time.Now()
		got, answered := l.c.tryOn(at, l.as, endpoint, key, o)
		if answered && got.Code == fault.OK {
			l.mu.Lock()
			l.slowest = max(l.slowest, time.Since(began))
			l.served[node]++
			l.mu.Unlock()
			return got
		}
		// A node that was just stopped does not answer; a refusal is always an error.
		if answered && got.Code != fault.RequestInProgress || try > 100 {
			l.c.TB.Errorf("%s: %v %s\n%s", key, answered, got.Raw, at.about(got.ID))
			return got
		}
	}
}

// routeTo sends the traffic to these nodes and waits until each has served some of it.
func (l *traffic) routeTo(nodes ...int) {
	l.c.TB.Helper()
	l.mu.Lock()
	l.nodes, l.all = nodes, slices.Clone(l.c.nodes)
	clear(l.served)
	l.mu.Unlock()
	l.c.waitSlowly(fmt.Sprintf("orders are served by %v", nodes), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, node := range nodes {
			if l.served[node] < 15 {
				return false
			}
		}
		return true
	})
}

// An older and a newer binary serve from one store, in either order of start, and no
// order fails.
func TestUpgrade_TwoReleasesServeSideBySide(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	present := e2e.FailpointBinary(t)
	next, err := newer()
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		name          string
		first, second string
	}
	e2e.RunConcurrently(t, []row{{"the older first", present, next}, {"the newer first", next, present}}, func(r row) string { return r.name }, func(t *testing.T, r row) {
		c := newEmptyCluster(t)
		c.launch(r.first, nil).await()
		c.setUp() // in this process, with the older code
		me := c.NewFundedOperator("me", "1000000")
		if r.first == present {
			tool := e2e.LaunchProgram(t, next, nil, "admin", "--config", c.config, "lco", "list")
			if status := tool.Wait(); status != e2e.ExitRefused {
				t.Errorf("a newer tool beside older nodes ended with %d", status)
			}
			e2e.CheckMentions(t, "the refusal", tool.Err.String(), "older than this binary", "coax migrate")
		}

		l := c.traffic(me, 0)
		l.routeTo(0)
		c.launch(r.second, nil).await()
		l.routeTo(0, 1)
		for i, node := range c.nodes {
			if status := e2e.Readiness(t, node.internal); status != 200 {
				t.Errorf("node %d: /readyz says %d", i, status)
			}
		}
		// Take one node out of the load balancer and stop it, then the other.
		l.routeTo(1)
		if status := c.nodes[0].Terminate(); status != e2e.ExitDone {
			t.Errorf("the first node ended with %d", status)
		}
		c.launch(r.first, nil).await()
		l.routeTo(1, 2)
		if status := c.nodes[1].Terminate(); status != e2e.ExitDone {
			t.Errorf("the second node ended with %d", status)
		}
		l.routeTo(2)
		l.stop()

		if got, want := c.rows(`SELECT version_id FROM goose_db_version WHERE version_id > 0`), append(presentMigrations(t), "99"); !slices.Equal(got, want) {
			t.Errorf("the migrations are %v; want %v, each once", got, want)
		}
		orders := l.orders.Load()
		t.Logf("%d orders", orders)
		if got := c.WalletPaise(me); got != [2]int64{1_000_000_00 - orders*(199_00+349_00), 0} {
			t.Errorf("the wallet is %v; want %d activations and renewals", got, orders)
		}
		if carried := int64(len(c.Simulator.Effects())); carried != 2*orders {
			t.Errorf("the provider carried out %d of %d orders", carried, 2*orders)
		}
		e2e.RequireOK(t, e2e.Run(t, "admin", "--config", c.config, "lco", "list"))
		c.checkClean()
	})
}

// A long read holds a lock that a migration needs. The migration waits, and the serving
// nodes do not wait behind it.
func TestUpgrade_WaitingMigrationBlocksNoNode(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	present := e2e.FailpointBinary(t)
	next, err := newer()
	if err != nil {
		t.Fatal(err)
	}
	c := newEmptyCluster(t)
	c.setUp()
	c.launch(present, nil).await()
	me := c.NewFundedOperator("me", "1000000")
	l := c.traffic(me, 0)
	l.routeTo(0)

	audit, err := c.open().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = audit.Rollback() }()
	if _, err := audit.Exec(`SELECT count(*) FROM subscribers`); err != nil {
		t.Fatal(err)
	}
	watch := c.open()
	// It waits for the lock, gives up and retries.
	upgraded := c.launch(next, nil)
	waiting := func() bool {
		return e2e.QueryRows(t, watch, `SELECT count(*) FROM pg_locks
			WHERE relation = 'subscribers'::regclass AND NOT granted AND mode = 'AccessExclusiveLock'`)[0] == "1"
	}
	for range 2 {
		c.WaitUntil("the migration waits", waiting)
		c.WaitUntil("the migration gives up the lock", func() bool { return !waiting() })
	}
	l.routeTo(0)
	if strings.Contains(upgraded.Err.String(), `"serving"`) {
		t.Error("the newer node serves before its migration can have been applied")
	}
	if err := audit.Rollback(); err != nil {
		t.Fatal(err)
	}
	upgraded.await()
	l.routeTo(0, 1)
	l.stop()
	t.Logf("the slowest of %d orders took %s", l.orders.Load(), l.slowest.Round(time.Millisecond))
	c.checkClean()
}

// A binary older than the schema tolerates does not start.
func TestUpgrade_IncompatibleSchemaIsRefused(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newEmptyCluster(t)
	c.setUp()
	if _, err := c.open().Exec(`INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (9000, 9000)`); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{append([]string{"serve", "--config", c.config}, e2e.FreePorts...), {"admin", "--config", c.config, "lco", "list"}} {
		e2e.CheckRefused(t, e2e.Run(t, args...), "newer release", "generation 9000")
	}
}
