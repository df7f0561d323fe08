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

// haHouse is an installation that is to survive its database: two servers, of
// which one waits for the other, nodes in processes of their own that know both,
// a provider that belongs to neither, and clients who remember what they were
// told.
type haHouse struct {
	t                testing.TB
	primary, standby *pgtest.Server
	folder, url      string
	simulator        *demo.RunningSimulator
	nodes            []*haNode
	http             *http.Client
	line             demo.Info

	serial  atomic.Int64
	clients sync.WaitGroup
	stop    chan struct{} // closed when clients are to finish what they are at

	mu      sync.Mutex
	told    []haAnswer
	refused int // with 503, to be asked again
}

// haNode is one node, and when it last said that something had succeeded.
type haNode struct {
	*e2e.Process
	base      string
	succeeded atomic.Int64 // Unix nanoseconds
}

// haAnswer is one thing that a client was told.
type haAnswer struct {
	key    client.IdempotencyKey
	id     string
	status client.Status
}

// haPrice is what BASIC-1 costs, in paise.
const haPrice = 199_00

func newHAHouse(t testing.TB, nodes int) *haHouse {
	t.Helper()
	h := &haHouse{t: t, folder: t.TempDir(), stop: make(chan struct{})}
	h.primary = pgtest.Start(t)
	h.primary.Exec(t, "postgres", "CREATE DATABASE coax")
	h.standby = h.primary.Standby(t)
	h.url = pgtest.Cluster("coax", h.primary, h.standby)

	var err error
	if h.simulator, err = demo.StartSimulator("127.0.0.1:0", ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.simulator.Stop)
	h.furnish()
	h.http = e2e.NewHTTPClient(t, filepath.Join(h.folder, "ca.pem"))
	h.http.Timeout = 20 * time.Second
	t.Cleanup(h.http.CloseIdleConnections)
	for range nodes {
		h.nodes = append(h.nodes, h.startNode())
	}
	return h
}

// furnish makes the configuration and the operator that everybody calls as.
func (h *haHouse) furnish() {
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
	h.line, err = demo.Furnish(context.Background(), n, filepath.Join(h.folder, "demo.json"))
	if err = errors.Join(err, n.Close()); err != nil {
		h.t.Fatal(err)
	}
	house := e2e.InstallAt(h.t, h.folder)
	house.JSON("lco", "set", "--lco", "1", "--rate-limit", "1000000")
	house.JSON("wallet", "topup", "--lco", "1", "--amount", "90000000", "--reference", "enough for everything")
}

func (h *haHouse) startNode() *haNode {
	h.t.Helper()
	p := e2e.Start(h.t, append([]string{"serve", "--config", filepath.Join(h.folder, "coax.toml")}, e2e.FreePorts...)...)
	for line := range strings.Lines(p.Err.String()) {
		var said struct{ Msg, Addr string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "serving" {
			return &haNode{Process: p, base: "https://" + said.Addr + "/api/v1"}
		}
	}
	h.t.Fatalf("a node does not say where it serves:\n%s", p.Err)
	return nil
}

// speaker calls one node and never repeats anything by itself: what is repeated,
// and where, is the test's.
func (h *haHouse) speaker(n *haNode) *client.Client {
	h.t.Helper()
	c, err := client.New(client.Config{
		BaseURL: n.base, Key: h.line.APIKey, Secret: client.Secret(h.line.APISecret), HTTP: h.http,
		Retry: client.Retry{Attempts: 1, Pause: 20 * time.Millisecond, MaxPause: 200 * time.Millisecond},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// load sends a number of clients to each node, who go on until finish.
func (h *haHouse) load(perNode int) {
	for at := range h.nodes {
		for range perNode {
			h.clients.Go(func() {
				for !h.stopping() {
					h.customer(at)
				}
			})
		}
	}
}

func (h *haHouse) stopping() bool {
	select {
	case <-h.stop:
		return true
	default:
		return false
	}
}

// customer activates somebody new, and renews them if that worked.
func (h *haHouse) customer(at int) {
	n := h.serial.Add(1)
	mobile := fmt.Sprintf("98%08d", n)
	switch n % 12 {
	case 5: // whom the provider rejects
		mobile = fmt.Sprintf("900001%04d", n)
	case 7: // for whom it acts and then says nothing
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

// decide asks for one thing with one key, of one node after the other, until
// somebody says what became of it.
func (h *haHouse) decide(at int, name string, ask func(*client.Client, client.IdempotencyKey) (*client.Operation, error)) client.Status {
	key := client.IdempotencyKey(name)
	deadline := time.Now().Add(2 * time.Minute)
	for attempt := 0; ; attempt++ {
		node := h.nodes[(at+attempt/2)%len(h.nodes)]
		op, err := ask(h.speaker(node), key)
		var refused *client.Error
		switch errors.As(err, &refused); {
		case refused != nil && refused.Status == http.StatusServiceUnavailable:
			h.mu.Lock()
			h.refused++
			h.mu.Unlock()
		case op != nil:
			h.note(key, op)
			if op.Status == client.Success {
				node.succeeded.Store(time.Now().UnixNano())
			}
			if op.Status.Settled() {
				return op.Status
			}
		case refused == nil || refused.Status != 0 && refused.Status < 500 && refused.Status != http.StatusConflict:
			h.t.Errorf("%s: %v; nothing is wrong with the request", key, err)
			return client.Failed
		}
		if time.Now().After(deadline) {
			h.t.Errorf("%s is not decided after two minutes: %v", key, err)
			return client.Processing
		}
		<-time.After(25 * time.Millisecond) // as a client would
	}
}

func (h *haHouse) note(key client.IdempotencyKey, op *client.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, haAnswer{key, op.TransactionID, op.Status})
}

// answers is how many answers clients have had so far.
func (h *haHouse) answers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.told)
}

// refusals is how often clients were told to come again.
func (h *haHouse) refusals() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

// underWay waits until clients have had so many more answers.
func (h *haHouse) underWay(more int) {
	h.t.Helper()
	want := h.answers() + more
	h.until(fmt.Sprintf("clients have had %d answers more", more), func() bool { return h.answers() >= want })
}

// until polls a condition, for cliPatience at most.
func (h *haHouse) until(what string, condition func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(e2e.Timeout); !condition(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, n := range h.nodes {
				h.t.Logf("%s said:\n%s", n.base, haEnd(n.Err.String()))
			}
			h.t.Fatalf("gave up waiting until %s", what)
		}
	}
}

// haEnd is the last of a long text.
func haEnd(text string) string { return text[max(0, len(text)-6000):] }

// resumed waits until every node has succeeded with something since a moment, and
// returns how long the last one took.
func (h *haHouse) resumed(since time.Time) time.Duration {
	h.t.Helper()
	var last time.Duration
	for i, n := range h.nodes {
		h.until(fmt.Sprintf("node %d writes again", i), func() bool { return n.succeeded.Load() > since.UnixNano() })
		last = max(last, time.Duration(n.succeeded.Load()-since.UnixNano()))
	}
	return last
}

// finish lets clients come to the end of what they are at, and holds what they
// were told, what the provider did and what the store has against each other.
func (h *haHouse) finish() {
	h.t.Helper()
	close(h.stop)
	h.clients.Wait()
	h.judge()
	h.stop = make(chan struct{})
}

func (h *haHouse) judge() {
	h.t.Helper()
	type row struct{ key, status string }
	kept := map[string]row{}
	h.until("nothing is open any more", func() bool {
		clear(kept)
		open := false
		h.rows(`SELECT id, idempotency_key, status FROM operations`, func(read func(...any)) {
			var id string
			var r row
			read(&id, &r.key, &r.status)
			kept[id] = r
			open = open || r.status != "success" && r.status != "failed"
		})
		return !open
	})

	// What anybody was told is there, and became nothing that it could not.
	final := map[client.IdempotencyKey]string{}
	for _, a := range h.told {
		r, found := kept[a.id]
		switch {
		case !found:
			h.t.Errorf("%s was answered with %s (%s), which is gone", a.key, a.id, a.status)
		case r.key != string(a.key):
			h.t.Errorf("%s was answered with %s, which is %s's", a.key, a.id, r.key)
		case a.status.Settled() && r.status != string(a.status):
			h.t.Errorf("%s: %s was said to be %s, and is %s", a.key, a.id, a.status, r.status)
		}
		if earlier, known := final[a.key]; known && earlier != a.id {
			h.t.Errorf("%s stands for two operations: %s and %s", a.key, earlier, a.id)
		}
		final[a.key] = a.id
	}

	// The provider was asked for nothing that does not exist, and did each thing
	// that succeeded, and nothing else, once.
	for _, call := range h.simulator.Calls("") {
		if call.Kind == "catalogue" || call.Kind == "status" && call.Reference == "probe" {
			continue // which are about no operation
		}
		if id, _, _ := strings.Cut(call.Reference, "-"); kept[id].key == "" {
			h.t.Errorf("the provider was asked to %s %s, which does not exist", call.Kind, call.Reference)
		}
	}
	effects := h.simulator.Effects()
	succeeded := int64(0)
	for id, r := range kept {
		if r.status == "success" {
			succeeded++
		}
		if want := map[string]int{"success": 1}[r.status]; effects[id] != want {
			h.t.Errorf("%s is %s, and the provider carried it out %d times", id, r.status, effects[id])
		}
		if final[client.IdempotencyKey(r.key)] != id {
			h.t.Errorf("%s (%s) was never answered to anybody, who all went on until they were", id, r.key)
		}
	}
	var spent int64
	h.rows(`SELECT coalesce(sum(-amount_paise), 0)::bigint FROM wallet_entries WHERE kind IN ('reserve', 'refund')`, func(read func(...any)) { read(&spent) })
	if want := succeeded * haPrice; spent != want {
		h.t.Errorf("%d paise were spent on %d successes; want %d", spent, succeeded, want)
	}
	e2e.RequireOK(h.t, e2e.Run(h.t, "audit", "--config", filepath.Join(h.folder, "coax.toml")))
	h.t.Logf("%d operations, %d answers, %d calls of the provider", len(kept), len(h.told), len(h.simulator.Calls("")))
}

// rows reads from whoever is the primary.
func (h *haHouse) rows(query string, each func(read func(into ...any))) {
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
