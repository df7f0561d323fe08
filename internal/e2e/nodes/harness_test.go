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

// cluster is several nodes, each a process of its own, on one PostgreSQL. Their
// provider is outside of them, and survives them. Everybody has the machine's
// clock.
type cluster struct {
	*e2e.Env // whose service works on the store beside the nodes
	address  string
	config   string
	nodes    []*clusterNode
}

// clusterNode is one of them, with the address it found.
type clusterNode struct {
	*e2e.Process
	base     string
	internal string
}

// newCluster furnishes a database of its own and starts n nodes on it at once.
func newCluster(t testing.TB, n int, settings ...string) *cluster {
	t.Helper()
	c := clusterOn(t, e2e.NewMigratedDatabase(t), settings...)
	c.furnish()
	c.start(n)
	return c
}

// foundCluster has a provider, a configuration, keys and an empty database.
func foundCluster(t testing.TB, settings ...string) *cluster {
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
	// Many nodes share the server's connections.
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

// furnish gives the store the demo's operator and catalogue, and the test a service.
// What it works through opens the store as a node does, and never serves.
func (c *cluster) furnish() {
	c.TB.Helper()
	config, err := server.LoadConfig(server.Sources{File: c.config})
	if err != nil {
		c.TB.Fatal(err)
	}
	beside, err := server.Open(c.TB.Context(), config, nil, slog.New(slog.DiscardHandler), server.Clock(0))
	if err != nil {
		c.TB.Fatal(err)
	}
	c.TB.Cleanup(func() { _ = beside.Close() })
	if c.Demo, err = demo.Furnish(c.TB.Context(), beside, filepath.Join(c.Folder, "demo.json")); err != nil {
		c.TB.Fatal(err)
	}
	c.Admin = admin.NewService(beside.Store, beside.Vault, "test", server.Clock(0))
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

// launch starts a node and waits for nothing: of another build of the program, if
// one is named, with more in its environment.
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

// await waits until a node serves, and reads from its log where.
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
	n.TB.Fatalf("the node does not say where it serves:\n%s", n.Err)
}

// about is what a node's log says of a request.
func (n *clusterNode) about(request string) string {
	var said []string
	for line := range strings.SplitSeq(n.Err.String(), "\n") {
		if request != "" && strings.Contains(line, request) {
			said = append(said, line)
		}
	}
	return strings.Join(said, "\n")
}

// in is the same cluster for a subtest.
func (c *cluster) in(t testing.TB) *cluster {
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

// operateAt asks one of the nodes for an operation.
func (c *cluster) operateAt(node int, as e2e.Caller, endpoint, key string, o e2e.Order) e2e.Answer {
	c.TB.Helper()
	return c.at(node, e2e.Call{
		As: as, Method: "POST", Path: "/api/v1/" + endpoint, Body: o.JSON(), Header: map[string][]string{"Idempotency-Key": {key}},
	})
}

// tryAt is operateAt of a node that may die meanwhile; false if no answer came.
func (c *cluster) tryAt(node int, as e2e.Caller, endpoint, key string, o e2e.Order) (e2e.Answer, bool) {
	c.TB.Helper()
	return c.tryOn(c.nodes[node%len(c.nodes)], as, endpoint, key, o)
}

// tryOn is tryAt, while more nodes may be started.
func (c *cluster) tryOn(node *clusterNode, as e2e.Caller, endpoint, key string, o e2e.Order) (e2e.Answer, bool) {
	c.TB.Helper()
	aimed := &e2e.Env{TB: c.TB, HTTP: c.HTTP, Demo: demo.Info{BaseURL: node.base + "/api/v1"}}
	return aimed.TryOperate(as, endpoint, key, o)
}

// open opens the store for looking into, over one connection.
func (c *cluster) open() *sql.DB {
	c.TB.Helper()
	db, err := postgres.OpenSQL(c.address)
	if err != nil {
		c.TB.Fatal(err)
	}
	c.TB.Cleanup(func() { db.Close() })
	return db
}

// rows is what a query finds in the store, as texts.
func (c *cluster) rows(query string) []string {
	c.TB.Helper()
	return e2e.QueryRows(c.TB, c.open(), query)
}

// clean demands that the books agree, that the provider did nothing twice, and
// that whatever is settled was settled once.
func (c *cluster) clean() {
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

// awaitSettled asks the given node for an operation until it is settled, and then
// demands the same result of every other node.
func (c *cluster) awaitSettled(nodes []int, as e2e.Caller, endpoint, key string, o e2e.Order) e2e.Answer {
	c.TB.Helper()
	var got e2e.Answer
	c.patiently("the operation "+key+" is settled", func() bool {
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

// patiently is until for what takes seconds: clusters that are asked without a
// pause would have no time to do anything.
func (c *cluster) patiently(what string, condition func() bool) {
	c.TB.Helper()
	patience := time.After(e2e.Timeout)
	for !condition() {
		select {
		case <-patience:
			c.TB.Fatalf("gave up waiting until %s", what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
