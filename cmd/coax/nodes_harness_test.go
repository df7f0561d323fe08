package main

import (
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
)

// cluster is several nodes, each a process of its own, on one PostgreSQL. Their
// provider is outside of them, and survives them. Everybody has the machine's
// clock.
type cluster struct {
	*world  // whose desk works on the store beside the nodes
	address string
	config  string
	nodes   []*clusterNode
}

// clusterNode is one of them, with the address it found.
type clusterNode struct {
	*cliProcess
	base     string
	internal string
}

// newCluster furnishes a database of its own and starts n nodes on it at once.
func newCluster(t testing.TB, n int, settings ...string) *cluster {
	t.Helper()
	c := clusterOn(t, migrated(t), settings...)
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
	c := &cluster{world: &world{t: t, folder: t.TempDir()}, address: database}
	var err error
	if c.simulator, err = startSimulator("127.0.0.1:0", ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.simulator.stop)
	// Many nodes share the server's connections.
	c.address += "&pool_max_conns=8"
	a := &app{out: io.Discard, err: io.Discard, sets: append([]string{
		"store.url=" + c.address, "limits.failed_auth_per_minute=1000000",
	}, settings...)}
	if _, err = a.prepareDemo(c.folder, "127.0.0.1:0", c.simulator.url); err != nil {
		t.Fatal(err)
	}
	c.config = filepath.Join(c.folder, "coax.toml")
	c.http = trusting(t, filepath.Join(c.folder, "ca.pem"))
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// furnish gives the store the demo's operator and catalogue, and the test a desk.
// What it works through opens the store as a node does, and never serves.
func (c *cluster) furnish() {
	c.t.Helper()
	config, err := loadConfig(sources{file: c.config})
	if err != nil {
		c.t.Fatal(err)
	}
	beside, err := openNode(c.t.Context(), config, nil, slog.New(slog.DiscardHandler), clock(0))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = beside.close() })
	if c.line, err = furnish(c.t.Context(), beside, filepath.Join(c.folder, "demo.json")); err != nil {
		c.t.Fatal(err)
	}
	c.desk = admin.NewDesk(beside.store, beside.vault, "test", clock(0))
	c.unlimited(c.demoCaller())
}

// start starts n nodes at once and waits until each of them serves.
func (c *cluster) start(n int) {
	c.t.Helper()
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
	c.t.Helper()
	args := append([]string{"serve", "--config", c.config}, cliFreePorts...)
	node := &clusterNode{}
	if program == "" {
		node.cliProcess = cliLaunch(c.t, args...)
	} else {
		node.cliProcess = cliLaunchProgram(c.t, program, environ, args...)
	}
	c.t.Cleanup(node.Kill)
	c.nodes = append(c.nodes, node)
	return node
}

// await waits until a node serves, and reads from its log where.
func (n *clusterNode) await() {
	n.t.Helper()
	n.awaitReady()
	for line := range strings.SplitSeq(n.err.String(), "\n") {
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
	n.t.Fatalf("the node does not say where it serves:\n%s", n.err)
}

// about is what a node's log says of a request.
func (n *clusterNode) about(request string) string {
	var said []string
	for line := range strings.SplitSeq(n.err.String(), "\n") {
		if request != "" && strings.Contains(line, request) {
			said = append(said, line)
		}
	}
	return strings.Join(said, "\n")
}

// in is the same cluster for a subtest.
func (c *cluster) in(t testing.TB) *cluster {
	return &cluster{
		world: &world{
			t: t, folder: c.folder, desk: c.desk, line: c.line, http: c.http, simulator: c.simulator,
		},
		address: c.address, config: c.config, nodes: c.nodes,
	}
}

// at sends a call to one of the nodes.
func (c *cluster) at(node int, request call) answer {
	c.t.Helper()
	request.base = c.nodes[node%len(c.nodes)].base
	return c.sendNow(request)
}

// operateAt asks one of the nodes for an operation.
func (c *cluster) operateAt(node int, as caller, endpoint, key string, o order) answer {
	c.t.Helper()
	return c.at(node, call{
		as: as, method: "POST", path: "/api/v1/" + endpoint, body: o.json(), header: map[string][]string{"Idempotency-Key": {key}},
	})
}

// tryAt is operateAt of a node that may die meanwhile; false if no answer came.
func (c *cluster) tryAt(node int, as caller, endpoint, key string, o order) (answer, bool) {
	c.t.Helper()
	return c.tryOn(c.nodes[node%len(c.nodes)], as, endpoint, key, o)
}

// tryOn is tryAt, while more nodes may be started.
func (c *cluster) tryOn(node *clusterNode, as caller, endpoint, key string, o order) (answer, bool) {
	c.t.Helper()
	aimed := &world{t: c.t, http: c.http, line: demoLine{BaseURL: node.base + "/api/v1"}}
	return aimed.tryOperate(as, endpoint, key, o)
}

// activation is the body of a request for a new subscriber.
func activation(mobile string) order {
	return order{"full_name": "Asha", "mobile": mobile, "plan_id": "BASIC-1"}
}

// open opens the store for looking into, over one connection.
func (c *cluster) open() *sql.DB {
	c.t.Helper()
	db, err := postgres.OpenSQL(c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { db.Close() })
	return db
}

// rows is what a query finds in the store, as texts.
func (c *cluster) rows(query string) []string {
	c.t.Helper()
	return cliRows(c.t, c.open(), query)
}

// clean demands that the books agree, that the provider did nothing twice, and
// that whatever is settled was settled once.
func (c *cluster) clean() {
	c.t.Helper()
	if got := cliRun(c.t, "audit", "--config", c.config); got.code != exitDone {
		c.t.Errorf("audit: %s", got)
	}
	for reference, effects := range c.simulator.Effects() {
		if effects > 1 {
			c.t.Errorf("the provider applied %s %d times", reference, effects)
		}
	}
	twice := c.rows(`SELECT operation_id, count(*) FROM operation_events WHERE to_status IN ('success', 'failed') GROUP BY 1 HAVING count(*) > 1`)
	if len(twice) > 0 {
		c.t.Errorf("settled more than once: %v", twice)
	}
}

// awaitSettled asks the given node for an operation until it is settled, and then
// demands the same result of every other node.
func (c *cluster) awaitSettled(nodes []int, as caller, endpoint, key string, o order) answer {
	c.t.Helper()
	var got answer
	c.patiently("the operation "+key+" is settled", func() bool {
		got = c.operateAt(nodes[0], as, endpoint, key, o)
		return got.text("status") == "success" || got.text("status") == "failed"
	})
	for _, node := range nodes[1:] {
		other := c.operateAt(node, as, endpoint, key, o)
		if other.code != got.code || other.text("transaction_id") != got.text("transaction_id") || other.header.Get("Idempotent-Replayed") != "true" {
			c.t.Errorf("the same key on another node gives %s; want the replay of %s", other.raw, got.raw)
		}
	}
	return got
}

// patiently is until for what takes seconds: clusters that are asked without a
// pause would have no time to do anything.
func (c *cluster) patiently(what string, condition func() bool) {
	c.t.Helper()
	patience := time.After(cliPatience)
	for !condition() {
		select {
		case <-patience:
			c.t.Fatalf("gave up waiting until %s", what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// together runs subtests that mostly wait, all at once, however few processors
// there are.
func together[R any](t *testing.T, rows []R, name func(R) string, run func(*testing.T, R)) {
	t.Helper()
	var group sync.WaitGroup
	for _, row := range rows {
		group.Go(func() { t.Run(name(row), func(t *testing.T) { run(t, row) }) })
	}
	group.Wait()
}

// readiness is the status of a node's /readyz.
func readiness(t testing.TB, internal string) int {
	t.Helper()
	status, _ := cliGet(t, internal+"/readyz")
	return status
}
