package failover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/jackc/pgx/v5"
)

// haCluster is a PostgreSQL primary with a synchronous standby, nodes in processes that
// know both servers, a provider in the test's process, and clients that record every answer.
type haCluster struct {
	t                testing.TB
	primary, standby *pgtest.Server
	folder, url      string
	simulator        *demo.RunningSimulator
	nodes            []*haNode
	http             *http.Client
	demo             demo.Info

	serial  atomic.Int64
	clients sync.WaitGroup
	stop    chan struct{} // closed to make the clients finish

	mu       sync.Mutex
	received []haAnswer
	refused  int // answers with 503
}

// haNode is one node, and when it last answered with a success.
type haNode struct {
	*e2e.Process
	base      string
	succeeded atomic.Int64 // Unix nanoseconds
}

// haAnswer is one answer to a client.
type haAnswer struct {
	key    client.IdempotencyKey
	id     string
	status client.Status
}

// haPrice is what BASIC-1 costs, in paise.
const haPrice = 199_00

func newHACluster(t testing.TB, nodes int) *haCluster {
	t.Helper()
	h := &haCluster{t: t, folder: t.TempDir(), stop: make(chan struct{})}
	h.primary = pgtest.Start(t)
	h.primary.Exec(t, "postgres", "CREATE DATABASE coax")
	h.standby = h.primary.Standby(t)
	h.url = pgtest.Cluster("coax", h.primary, h.standby)

	var err error
	if h.simulator, err = demo.StartSimulator("127.0.0.1:0", ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.simulator.Stop)
	h.setUp()
	h.http = e2e.NewHTTPClient(t, filepath.Join(h.folder, "ca.pem"))
	h.http.Timeout = 20 * time.Second
	t.Cleanup(h.http.CloseIdleConnections)
	for range nodes {
		h.nodes = append(h.nodes, h.startNode())
	}
	return h
}

// setUp writes the configuration and creates the operator that all clients use.
func (h *haCluster) setUp() {
	h.t.Helper()
	in := demo.Folder{Path: h.folder, Sets: []string{
		"store.url=" + h.url, "provider.timeout=3s", "review.first_check=500ms", "review.max_interval=1s", "review.refund_after=2s",
	}}
	config, err := demo.Prepare(in, "127.0.0.1:0", h.simulator.URL)
	if err != nil {
		h.t.Fatal(err)
	}
	n, err := server.Open(context.Background(), config, nil, slog.New(slog.DiscardHandler), server.Clock(0))
	if err != nil {
		h.t.Fatal(err)
	}
	h.demo, err = demo.Setup(context.Background(), n, filepath.Join(h.folder, "demo.json"))
	if err = errors.Join(err, n.Close()); err != nil {
		h.t.Fatal(err)
	}
	install := e2e.InstallAt(h.t, h.folder)
	install.JSON("lco", "set", "--lco", "1", "--rate-limit", "1000000")
	install.JSON("wallet", "topup", "--lco", "1", "--amount", "90000000", "--reference", "enough for everything")
}

func (h *haCluster) startNode() *haNode {
	h.t.Helper()
	p := e2e.Start(h.t, append([]string{"serve", "--config", filepath.Join(h.folder, "coax.toml")}, e2e.FreePorts...)...)
	for line := range strings.Lines(p.Err.String()) {
		var said struct{ Msg, Addr string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "serving" {
			return &haNode{Process: p, base: "https://" + said.Addr + "/api/v1"}
		}
	}
	h.t.Fatalf("the node did not log its address:\n%s", p.Err)
	return nil
}

// clientOf returns a client of one node that never retries: the test decides what to retry
// and where.
func (h *haCluster) clientOf(n *haNode) *client.Client {
	h.t.Helper()
	c, err := client.New(client.Config{
		BaseURL: n.base, Key: h.demo.APIKey, Secret: client.Secret(h.demo.APISecret), HTTP: h.http,
		ReturnPending: true, Retry: client.Retry{Attempts: 1, Pause: 20 * time.Millisecond, MaxPause: 200 * time.Millisecond},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// load starts clients for each node that run until finish.
func (h *haCluster) load(perNode int) {
	for at := range h.nodes {
		for range perNode {
			h.clients.Go(func() {
				for !h.stopping() {
					h.runCustomer(at)
				}
			})
		}
	}
}

func (h *haCluster) stopping() bool {
	select {
	case <-h.stop:
		return true
	default:
		return false
	}
}

// runCustomer activates a new subscriber, and renews it if that succeeded.
func (h *haCluster) runCustomer(at int) {
	n := h.serial.Add(1)
	mobile := fmt.Sprintf("98%08d", n)
	switch n % 12 {
	case 5: // the provider rejects this number
		mobile = fmt.Sprintf("900001%04d", n)
	case 7: // the provider carries out the order and does not reply
		mobile = fmt.Sprintf("900009%04d", n)
	}
	status := h.decide(at, fmt.Sprintf("activate-%06d", n), func(c *client.Client, key client.IdempotencyKey) (*client.Operation, error) {
		return c.Activate(context.Background(), key, client.Activation{FullName: "Asha", Mobile: mobile, PlanID: "BASIC-1"})
	})
	if status == client.Success && !strings.HasPrefix(mobile, "900009") {
		h.decide(at, fmt.Sprintf("renew-%09d", n), func(c *client.Client, key client.IdempotencyKey) (*client.Operation, error) {
			return c.Renew(context.Background(), key, client.Renewal{Mobile: mobile, PlanID: "BASIC-1"})
		})
	}
}

// decide requests one operation under one key, trying one node after the other, until it
// is settled.
func (h *haCluster) decide(at int, name string, ask func(*client.Client, client.IdempotencyKey) (*client.Operation, error)) client.Status {
	key := client.IdempotencyKey(name)
	deadline := time.Now().Add(2 * time.Minute)
	for attempt := 0; ; attempt++ {
		node := h.nodes[(at+attempt/2)%len(h.nodes)]
		op, err := ask(h.clientOf(node), key)
		var refused *client.Error
		switch errors.As(err, &refused); {
		case refused != nil && refused.Status == http.StatusServiceUnavailable:
			h.mu.Lock()
			h.refused++
			h.mu.Unlock()
		case op != nil:
			h.record(key, op)
			if op.Status == client.Success {
				node.succeeded.Store(time.Now().UnixNano())
			}
			if op.Status.Settled() {
				return op.Status
			}
		case refused == nil || refused.Status != 0 && refused.Status < 500 && refused.Status != http.StatusConflict:
			h.t.Errorf("%s: %v; the request is valid", key, err)
			return client.Failed
		}
		if time.Now().After(deadline) {
			h.t.Errorf("%s is not settled after two minutes: %v", key, err)
			return client.Processing
		}
		<-time.After(25 * time.Millisecond) // as a client would
	}
}

func (h *haCluster) record(key client.IdempotencyKey, op *client.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.received = append(h.received, haAnswer{key, op.TransactionID, op.Status})
}

// answers returns how many answers the clients have received.
func (h *haCluster) answers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.received)
}

// refusals returns how many answers were 503.
func (h *haCluster) refusals() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

// awaitAnswers waits until the clients have received this many more answers.
func (h *haCluster) awaitAnswers(more int) {
	h.t.Helper()
	want := h.answers() + more
	h.waitUntil(fmt.Sprintf("clients have received %d more answers", more), func() bool { return h.answers() >= want })
}

// waitUntil polls a condition, for e2e.Timeout at most.
func (h *haCluster) waitUntil(what string, condition func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(e2e.Timeout); !condition(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, n := range h.nodes {
				h.t.Logf("log of %s:\n%s", n.base, haEnd(n.Err.String()))
			}
			h.t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// haEnd returns the end of a long text.
func haEnd(text string) string { return text[max(0, len(text)-6000):] }

// awaitWrites waits until every node has answered with a success after a time, and returns
// how long the last node took.
func (h *haCluster) awaitWrites(since time.Time) time.Duration {
	h.t.Helper()
	var last time.Duration
	for i, n := range h.nodes {
		h.waitUntil(fmt.Sprintf("node %d writes again", i), func() bool { return n.succeeded.Load() > since.UnixNano() })
		last = max(last, time.Duration(n.succeeded.Load()-since.UnixNano()))
	}
	return last
}

// finish stops the clients and compares their answers, the provider's effects and the
// store.
func (h *haCluster) finish() {
	h.t.Helper()
	close(h.stop)
	h.clients.Wait()
	h.checkResults()
	h.stop = make(chan struct{})
}

func (h *haCluster) checkResults() {
	h.t.Helper()
	type row struct{ key, status string }
	stored := map[string]row{}
	h.waitUntil("every operation is settled", func() bool {
		clear(stored)
		open := false
		h.rows(`SELECT id, idempotency_key, status FROM operations`, func(read func(...any)) {
			var id string
			var r row
			read(&id, &r.key, &r.status)
			stored[id] = r
			open = open || r.status != "success" && r.status != "failed"
		})
		return !open
	})

	// Every answered operation is stored, and a settled one kept its state.
	final := map[client.IdempotencyKey]string{}
	for _, a := range h.received {
		r, found := stored[a.id]
		switch {
		case !found:
			h.t.Errorf("%s was answered with %s (%s), which is missing", a.key, a.id, a.status)
		case r.key != string(a.key):
			h.t.Errorf("%s was answered with %s, which is %s's", a.key, a.id, r.key)
		case a.status.Settled() && r.status != string(a.status):
			h.t.Errorf("%s: %s was answered as %s and is stored as %s", a.key, a.id, a.status, r.status)
		}
		if earlier, known := final[a.key]; known && earlier != a.id {
			h.t.Errorf("%s has two operations: %s and %s", a.key, earlier, a.id)
		}
		final[a.key] = a.id
	}

	// The provider received no order without an operation, and carried out every
	// successful operation once and nothing else.
	for _, call := range h.simulator.Calls("") {
		if call.Kind == "catalogue" || call.Kind == "status" && call.Reference == "probe" {
			continue // not about an operation
		}
		if id, _, _ := strings.Cut(call.Reference, "-"); stored[id].key == "" {
			h.t.Errorf("the provider received %s of %s, which does not exist", call.Kind, call.Reference)
		}
	}
	effects := h.simulator.Effects()
	succeeded := int64(0)
	for id, r := range stored {
		if r.status == "success" {
			succeeded++
		}
		if want := map[string]int{"success": 1}[r.status]; effects[id] != want {
			h.t.Errorf("%s is %s, and the provider carried it out %d times", id, r.status, effects[id])
		}
		if final[client.IdempotencyKey(r.key)] != id {
			h.t.Errorf("%s (%s) was never answered, although clients retry until they are", id, r.key)
		}
	}
	var spent int64
	h.rows(`SELECT coalesce(sum(-amount_paise), 0)::bigint FROM wallet_entries WHERE kind IN ('reserve', 'refund')`, func(read func(...any)) { read(&spent) })
	if want := succeeded * haPrice; spent != want {
		h.t.Errorf("%d paise were spent on %d successes; want %d", spent, succeeded, want)
	}
	e2e.RequireOK(h.t, e2e.Run(h.t, "audit", "--config", filepath.Join(h.folder, "coax.toml")))
	h.t.Logf("%d operations, %d answers, %d calls of the provider", len(stored), len(h.received), len(h.simulator.Calls("")))
}

// rows runs a query on the current primary.
func (h *haCluster) rows(query string, each func(read func(into ...any))) {
	h.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, h.url+"&target_session_attrs=read-write")
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, query)
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		each(func(into ...any) {
			if err := rows.Scan(into...); err != nil {
				h.t.Fatal(err)
			}
		})
	}
	if err := rows.Err(); err != nil {
		h.t.Fatal(err)
	}
}
