package nodes

import (
	"database/sql"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
)

// cluster is several nodes, each its own process, on one PostgreSQL database. Their
// provider runs in the test's process. All use the machine's clock.
type cluster struct {
	*e2e.Env // its admin service works on the nodes' store
	address  string
	config   string
	nodes    []*clusterNode
}

// clusterNode is one node with the addresses it listens on.
type clusterNode struct {
	*e2e.Process
	base     string
	internal string
}

// newCluster sets up a new database and starts n nodes on it at once.
func newCluster(t testing.TB, n int, settings ...string) *cluster {
	t.Helper()
	c := clusterOn(t, e2e.NewMigratedDatabase(t), settings...)
	c.setUp()
	c.start(n)
	return c
}

// newEmptyCluster has a provider, a configuration, keys, an empty database and no nodes.
func newEmptyCluster(t testing.TB, settings ...string) *cluster {
	t.Helper()
	return clusterOn(t, pgtest.NewDatabase(t), settings...)
}

func clusterOn(t testing.TB, database string, settings ...string) *cluster {
	t.Helper()
	c := &cluster{Env: &e2e.Env{TB: t, Folder: t.TempDir()}, address: database}
	var err error
	if c.Simulator, err = demo.StartSimulator("127.0.0.1:0", ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Simulator.Stop)
	// Many nodes share the server's connection limit.
	c.address += "&pool_max_conns=8"
	in := demo.Folder{Path: c.Folder, Sets: append([]string{
		"store.url=" + c.address, "limits.failed_auth_per_minute=1000000",
	}, settings...)}
	if _, err = demo.Prepare(in, "127.0.0.1:0", c.Simulator.URL); err != nil {
		t.Fatal(err)
	}
	c.config = filepath.Join(c.Folder, "coax.toml")
	c.HTTP = e2e.NewHTTPClient(t, filepath.Join(c.Folder, "ca.pem"))
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

// setUp creates the demo's operator and catalogue in the store, and the test's admin
// service, through a node that never serves.
func (c *cluster) setUp() {
	c.TB.Helper()
	config, err := server.LoadConfig(server.Sources{File: c.config})
	if err != nil {
		c.TB.Fatal(err)
	}
	node, err := server.Open(c.TB.Context(), config, nil, slog.New(slog.DiscardHandler), server.Clock(0))
	if err != nil {
		c.TB.Fatal(err)
	}
	c.TB.Cleanup(func() { _ = node.Close() })
	if c.Demo, err = demo.Setup(c.TB.Context(), node, filepath.Join(c.Folder, "demo.json")); err != nil {
		c.TB.Fatal(err)
	}
	c.Admin = admin.NewService(node.Store, node.Vault, "test", server.Clock(0))
	c.LiftRateLimit(c.DemoCaller())
}

// start starts n nodes at once and waits until each of them serves.
func (c *cluster) start(n int) {
	c.TB.Helper()
	var started []*clusterNode
	for range n {
		started = append(started, c.launch("", nil))
	}
	for _, node := range started {
		node.await()
	}
}

// launch starts a node without waiting, of another build of the program if one is named,
// with more in its environment.
func (c *cluster) launch(program string, environ []string) *clusterNode {
	c.TB.Helper()
	args := append([]string{"serve", "--config", c.config}, e2e.FreePorts...)
	node := &clusterNode{}
	if program == "" {
		node.Process = e2e.Launch(c.TB, args...)
	} else {
		node.Process = e2e.LaunchProgram(c.TB, program, environ, args...)
	}
	c.TB.Cleanup(node.Kill)
	c.nodes = append(c.nodes, node)
	return node
}

// await waits until a node serves, and reads its addresses from the log.
func (n *clusterNode) await() {
	n.TB.Helper()
	n.AwaitReady()
	for line := range strings.SplitSeq(n.Err.String(), "\n") {
		var said struct {
			Msg          string `json:"msg"`
			Addr         string `json:"addr"`
			InternalAddr string `json:"internal_addr"`
		}
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "serving" {
			n.base, n.internal = "https://"+said.Addr, "http://"+said.InternalAddr
			return
		}
	}
	n.TB.Fatalf("the node did not log its addresses:\n%s", n.Err)
}

// about returns the lines of a node's log about a request.
func (n *clusterNode) about(request string) string {
	var said []string
	for line := range strings.SplitSeq(n.Err.String(), "\n") {
		if request != "" && strings.Contains(line, request) {
			said = append(said, line)
		}
	}
	return strings.Join(said, "\n")
}

// withTB returns the same cluster for a subtest.
func (c *cluster) withTB(t testing.TB) *cluster {
	return &cluster{
		Env: &e2e.Env{
			TB: t, Folder: c.Folder, Admin: c.Admin, Demo: c.Demo, HTTP: c.HTTP, Simulator: c.Simulator,
		},
		address: c.address, config: c.config, nodes: c.nodes,
	}
}

// at sends a call to one of the nodes.
func (c *cluster) at(node int, request e2e.Call) e2e.Answer {
	c.TB.Helper()
	request.Base = c.nodes[node%len(c.nodes)].base
	return c.SendNow(request)
}

// operateAt requests an operation of one of the nodes.
func (c *cluster) operateAt(node int, as e2e.Caller, endpoint, key string, o e2e.Order) e2e.Answer {
	c.TB.Helper()
	return c.at(node, e2e.Call{
		As: as, Method: "POST", Path: "/api/v1/" + endpoint, Body: o.JSON(), Header: map[string][]string{"Idempotency-Key": {key}},
	})
}

// tryAt is operateAt of a node that may die meanwhile. It returns false if no answer came.
func (c *cluster) tryAt(node int, as e2e.Caller, endpoint, key string, o e2e.Order) (e2e.Answer, bool) {
	c.TB.Helper()
	return c.tryOn(c.nodes[node%len(c.nodes)], as, endpoint, key, o)
}

// tryOn is tryAt for use while more nodes are started.
func (c *cluster) tryOn(node *clusterNode, as e2e.Caller, endpoint, key string, o e2e.Order) (e2e.Answer, bool) {
	c.TB.Helper()
	target := &e2e.Env{TB: c.TB, HTTP: c.HTTP, Demo: demo.Info{BaseURL: node.base + "/api/v1"}}
	return target.TryOperate(as, endpoint, key, o)
}

// open opens the store's database for queries.
func (c *cluster) open() *sql.DB {
	c.TB.Helper()
	db, err := postgres.OpenSQL(c.address)
	if err != nil {
		c.TB.Fatal(err)
	}
	c.TB.Cleanup(func() { db.Close() })
	return db
}

// rows returns the rows of a query as texts.
func (c *cluster) rows(query string) []string {
	c.TB.Helper()
	return e2e.QueryRows(c.TB, c.open(), query)
}

// checkClean checks that the audit passes, that the provider applied nothing twice, and
// that every operation was settled once.
func (c *cluster) checkClean() {
	c.TB.Helper()
	if got := e2e.Run(c.TB, "audit", "--config", c.config); got.Code != e2e.ExitDone {
		c.TB.Errorf("audit: %s", got)
	}
	for reference, effects := range c.Simulator.Effects() {
		if effects > 1 {
			c.TB.Errorf("the provider applied %s %d times", reference, effects)
		}
	}
	twice := c.rows(`SELECT operation_id, count(*) FROM operation_events WHERE to_status IN ('success', 'failed') GROUP BY 1 HAVING count(*) > 1`)
	if len(twice) > 0 {
		c.TB.Errorf("settled more than once: %v", twice)
	}
}

// awaitSettled repeats a request on the first node until it is settled, and checks that
// the others give the same result.
func (c *cluster) awaitSettled(nodes []int, as e2e.Caller, endpoint, key string, o e2e.Order) e2e.Answer {
	c.TB.Helper()
	var got e2e.Answer
	c.waitSlowly("the operation "+key+" is settled", func() bool {
		got = c.operateAt(nodes[0], as, endpoint, key, o)
		return got.Text("status") == "success" || got.Text("status") == "failed"
	})
	for _, node := range nodes[1:] {
		other := c.operateAt(node, as, endpoint, key, o)
		if other.Code != got.Code || other.Text("transaction_id") != got.Text("transaction_id") || other.Header.Get("Idempotent-Replayed") != "true" {
			c.TB.Errorf("the same key on another node gives %s; want the replay of %s", other.Raw, got.Raw)
		}
	}
	return got
}

// waitSlowly is WaitUntil with longer pauses, for conditions that take seconds: polling
// would take the processor from the nodes.
func (c *cluster) waitSlowly(what string, condition func() bool) {
	c.TB.Helper()
	timeout := time.After(e2e.Timeout)
	for !condition() {
		select {
		case <-timeout:
			c.TB.Fatalf("timed out waiting until %s", what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
