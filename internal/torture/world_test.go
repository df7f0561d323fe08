//go:build long

package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// settings make a node find out soon what became of things. None of them is a
// promise: a machine that is slower than they allow only makes for more doubt.
var settings = []string{
	"provider.timeout=250ms", "review.first_check=50ms", "review.max_interval=200ms", "review.refund_after=300ms",
	"limits.failed_auth_per_minute=1000000",
}

// prices are what the demo's plans cost, in paise, as its operators know them.
var prices = map[string]int64{"BASIC-1": 199_00, "FAMILY-1": 349_00, "FAMILY-3": 999_00, "COMBO-1": 499_00}

// world is an installation: a provider that outlives everything, a store, nodes
// on it, and operators whose software calls them.
type world struct {
	t         testing.TB
	store     string // sqlite or postgres
	folder    string
	config    string
	provider  *provider
	server    *pgtest.Server // of PostgreSQL
	database  string
	nodes     []*node
	operators []*operator
	software  []*software
	record    *record
	rand      *rand.Rand
	topUps    int
}

// operator is an account with its key, and what was paid in.
type operator struct {
	id          int64
	key, secret string
	paidIn      int64 // paise
}

// plainWorld is an installation with its nodes not yet started.
func plainWorld(t testing.TB, store string, nodes int, more ...string) *world {
	t.Helper()
	w := &world{t: t, store: store, folder: t.TempDir(), provider: startProvider(t), rand: rand.New(rand.NewPCG(1, 1))}
	w.config = filepath.Join(w.folder, "coax.toml")
	chosen := append([]string{"provider.url=" + w.provider.url}, settings...)
	if store == "postgres" {
		w.server = pgtest.Start(t)
		w.database = w.server.NewDatabase(t)
		chosen = append(chosen, "store.url="+w.database)
	}
	w.furnish(append(chosen, more...))
	for i := range nodes {
		w.nodes = append(w.nodes, newNode(w, i))
	}
	w.record = newRecord(w)
	return w
}

// furnish has a demo make certificate, keys, plans and the first operator, and
// ends it: from then on its folder is served by nodes.
func (w *world) furnish(sets []string) {
	w.t.Helper()
	args := []string{"demo", "--dir", w.folder, "--addr", "127.0.0.1:0", "--json"}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	demo := launch(w.t, "", args...)
	demo.untilSaid(demo.out, "\n")
	var line struct {
		LCOID     int64  `json:"lco_id"`
		APIKey    string `json:"api_key"`
		APISecret string `json:"api_secret"`
	}
	if err := json.Unmarshal([]byte(demo.out.String()), &line); err != nil {
		w.t.Fatalf("the demo's line: %v\n%s", err, demo.out)
	}
	demo.terminate()
	w.operators = []*operator{{id: line.LCOID, key: line.APIKey, secret: line.APISecret, paidIn: 10_000_00}}
	w.admin("lco", "set", "--lco", fmt.Sprint(line.LCOID), "--rate-limit", "1000000")
}

// admin runs a command of the staff's, and reads what it prints.
func (w *world) admin(args ...string) map[string]any {
	w.t.Helper()
	out, err := run(w.t, append([]string{"admin", "--config", w.config, "--json"}, args...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	var said map[string]any
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.UseNumber()
	if err := decoder.Decode(&said); err != nil {
		w.t.Fatalf("coax admin %q prints %q: %v", args, out, err)
	}
	return said
}

// hire opens an account that may call from here, with a key and some money.
func (w *world) hire(name, rupees string) *operator {
	w.t.Helper()
	id := fmt.Sprint(w.admin("lco", "create", "--name", name, "--rate-limit", "1000000")["lco_id"])
	w.admin("whitelist", "add", "--lco", id, "127.0.0.1")
	issued := w.admin("key", "issue", "--lco", id)
	o := &operator{key: fmt.Sprint(issued["api_key"]), secret: fmt.Sprint(issued["api_secret"])}
	if _, err := fmt.Sscan(id, &o.id); err != nil {
		w.t.Fatal(err)
	}
	w.operators = append(w.operators, o)
	w.topUp(o, rupees, false)
	return o
}

// topUp pays in, and goes on with the same reference until that is certain: staff
// whose command is killed half-way repeat it.
func (w *world) topUp(o *operator, rupees string, killed bool) {
	w.t.Helper()
	w.topUps++
	args := []string{
		"admin", "--config", w.config, "--json", "wallet", "topup",
		"--lco", fmt.Sprint(o.id), "--amount", rupees, "--reference", fmt.Sprintf("payment %d", w.topUps),
	}
	if killed {
		p := launch(w.t, "", args...)
		jitter(w.rand, 20*time.Millisecond)
		p.kill()
	}
	var err error
	until(w.t, "the payment is booked", func() bool {
		// PostgreSQL may be away just now.
		_, err = run(w.t, args...)
		if err != nil && w.store == "sqlite" {
			w.t.Fatal(err)
		}
		return err == nil
	})
	o.paidIn += paise(w.t, rupees)
}

// audit demands that the books agree.
func (w *world) audit() {
	w.t.Helper()
	if out, err := run(w.t, "audit", "--config", w.config); err != nil {
		w.record.violation(nil, "the audit: %v\n%s", err, out)
	}
}

// speaker is an operator's client that calls one of the nodes, wherever that one
// is at the moment. Everything it sends and hears passes the record.
func (w *world) speaker(o *operator, n *node) *client.Client {
	w.t.Helper()
	c, err := client.New(client.Config{
		BaseURL: "https://127.0.0.1:1/api/v1", // the node's transport knows where it really is
		Key:     o.key, Secret: client.Secret(o.secret),
		HTTP:  &http.Client{Transport: &witness{record: w.record, node: n}, Timeout: 20 * time.Second},
		Retry: client.Retry{Attempts: 1, Pause: 5 * time.Millisecond, MaxPause: 50 * time.Millisecond},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// storeOf is the address of the store for one of the nodes, so that the server can
// tell their connections apart.
func (w *world) storeOf(n *node) string {
	return w.database + "&pool_max_conns=8&application_name=" + url.QueryEscape(n.name())
}

// paise reads an amount as the service writes it.
func paise(t testing.TB, rupees string) int64 {
	t.Helper()
	whole, fraction, found := strings.Cut(rupees, ".")
	var amount int64
	if _, err := fmt.Sscan(whole+fraction, &amount); err != nil || !found || len(fraction) != 2 {
		t.Errorf("%q is not an amount with two decimals", rupees)
	}
	return amount
}

// jitter waits for a moment of random length: what is killed then is killed
// between any two instructions.
func jitter(r *rand.Rand, most time.Duration) {
	<-time.After(time.Duration(r.Int64N(int64(most))))
}
