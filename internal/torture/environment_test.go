package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// settings make review fast. On a slower machine more operations only end in review.
var settings = []string{
	"provider.timeout=250ms", "review.first_check=50ms", "review.max_interval=200ms", "review.refund_after=300ms",
	"limits.failed_auth_per_minute=1000000",
}

// prices are the prices of the demo's plans, in paise.
var prices = map[string]int64{"BASIC-1": 199_00, "FAMILY-1": 349_00, "FAMILY-3": 999_00, "COMBO-1": 499_00}

// environment is an installation: a provider that is never killed, a store, its nodes,
// and operators with their clients.
type environment struct {
	t         testing.TB
	store     string // sqlite or postgres
	folder    string
	config    string
	provider  *provider
	server    *pgtest.Server // of PostgreSQL
	database  string
	nodes     []*node
	operators []*operator
	clients   []*operatorClient
	record    *record
	rand      *rand.Rand
	topUps    int
	// offset, in nanoseconds, moves the clock of the service, its clients and the provider;
	// the nodes are then demos on env.provider, because only a demo takes clock.offset. nil:
	// the nodes are serve.
	offset *atomic.Int64
	// slowFor is how long the provider takes for a slow order; zero means the simulator's time.
	slowFor time.Duration
	// logins are the demo's logins of its pages.
	logins demo.Info
}

// operator is an account with its API key and the sum of its top-ups.
type operator struct {
	id          int64
	key, secret string
	paidIn      int64 // paise
}

// newEnvironment makes an installation whose nodes are not started yet.
func newEnvironment(t testing.TB, store string, nodes int, more ...string) *environment {
	t.Helper()
	env := &environment{t: t, store: store}
	if store == "postgres" {
		env.server = pgtest.Start(t)
		env.database = env.server.NewDatabase(t)
	}
	env.build(nodes, more...)
	return env
}

// build makes what newEnvironment promises, on env.database or else in a SQLite file.
func (env *environment) build(nodes int, more ...string) {
	env.t.Helper()
	env.folder, env.rand = env.t.TempDir(), rand.New(rand.NewPCG(1, 1))
	if env.offset == nil && env.slowFor == 0 {
		env.provider = startProvider(env.t)
	} else {
		env.provider = startProviderWithClock(env.t, env.now, env.slowFor)
	}
	env.config = filepath.Join(env.folder, "coax.toml")
	chosen := append([]string{"provider.url=" + env.provider.url}, settings...)
	if env.store == "postgres" {
		chosen = append(chosen, "store.url="+env.database)
	}
	env.setUp(append(chosen, more...))
	for i := range nodes {
		env.nodes = append(env.nodes, newNode(env, i))
	}
	env.record = newRecord(env)
}

// setUp runs coax demo to create the certificate, keys, plans and the first operator;
// afterwards nodes serve its folder.
func (env *environment) setUp(sets []string) {
	env.t.Helper()
	args := []string{"demo", "--dir", env.folder, "--addr", "127.0.0.1:0", "--json"}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	first := launch(env.t, "", args...)
	first.untilPrinted(first.out, "\n")
	if err := json.Unmarshal([]byte(first.out.String()), &env.logins); err != nil {
		env.t.Fatalf("the demo's line: %v\n%s", err, first.out)
	}
	first.terminate()
	line := env.logins
	env.operators = []*operator{{id: line.LCOID, key: line.APIKey, secret: line.APISecret, paidIn: 10_000_00}}
	env.admin("lco", "set", "--lco", fmt.Sprint(line.LCOID), "--rate-limit", "1000000")
}

// admin runs a coax admin command and returns its JSON output.
func (env *environment) admin(args ...string) map[string]any {
	env.t.Helper()
	out, err := run(env.t, append([]string{"admin", "--config", env.config, "--json"}, args...)...)
	if err != nil {
		env.t.Fatal(err)
	}
	var said map[string]any
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.UseNumber()
	if err := decoder.Decode(&said); err != nil {
		env.t.Fatalf("coax admin %q prints %q: %v", args, out, err)
	}
	return said
}

// openAccount creates an operator with a key, whitelisted for this machine, and tops up
// its wallet.
func (env *environment) openAccount(name, rupees string) *operator {
	env.t.Helper()
	id := fmt.Sprint(env.admin("lco", "create", "--name", name, "--rate-limit", "1000000")["lco_id"])
	env.admin("whitelist", "add", "--lco", id, "127.0.0.1")
	issued := env.admin("key", "issue", "--lco", id)
	o := &operator{key: fmt.Sprint(issued["api_key"]), secret: fmt.Sprint(issued["api_secret"])}
	if _, err := fmt.Sscan(id, &o.id); err != nil {
		env.t.Fatal(err)
	}
	env.operators = append(env.operators, o)
	env.topUp(o, rupees, false)
	return o
}

// topUp tops up a wallet, repeating the command with the same reference until it
// succeeds. With killed, the first command is killed half-way.
func (env *environment) topUp(o *operator, rupees string, killed bool) {
	env.t.Helper()
	env.topUps++
	args := []string{
		"admin", "--config", env.config, "--json", "wallet", "topup",
		"--lco", fmt.Sprint(o.id), "--amount", rupees, "--reference", fmt.Sprintf("payment %d", env.topUps),
	}
	if killed {
		p := launch(env.t, "", args...)
		jitter(env.rand, 20*time.Millisecond)
		p.kill()
	}
	var err error
	until(env.t, "the payment is booked", func() bool {
		// PostgreSQL may be down at the moment.
		_, err = run(env.t, args...)
		if err != nil && env.store == "sqlite" {
			env.t.Fatal(err)
		}
		return err == nil
	})
	o.paidIn += paise(env.t, rupees)
}

// audit requires that coax audit finds no violation.
func (env *environment) audit() {
	env.t.Helper()
	if out, err := run(env.t, "audit", "--config", env.config); err != nil {
		env.record.violation(nil, "the audit: %v\n%s", err, out)
	}
}

// apiClient returns a client of an operator for one node, whatever that node's present
// address. All its requests and answers are recorded.
func (env *environment) apiClient(o *operator, n *node) *client.Client {
	env.t.Helper()
	c, err := client.New(client.Config{
		BaseURL: "https://127.0.0.1:1/api/v1", // the node's transport has the real address
		Key:     o.key, Secret: client.Secret(o.secret),
		HTTP:          &http.Client{Transport: &recordingTransport{record: env.record, node: n}, Timeout: 20 * time.Second},
		ReturnPending: true,
		Now:           env.now,
		Retry:         client.Retry{Attempts: 1, Pause: 5 * time.Millisecond, MaxPause: 50 * time.Millisecond},
	})
	if err != nil {
		env.t.Fatal(err)
	}
	return c
}

// now is the time of the service's clock.
func (env *environment) now() time.Time {
	if env.offset == nil {
		return time.Now()
	}
	return time.Now().Add(time.Duration(env.offset.Load()))
}

// storeOf returns the store's address for a node, with the node's name, so that its
// connections can be found on the server.
func (env *environment) storeOf(n *node) string {
	return env.database + "&pool_max_conns=8&application_name=" + url.QueryEscape(n.name())
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

// jitter waits for a random time, so that a kill can hit any instruction.
func jitter(r *rand.Rand, limit time.Duration) {
	<-time.After(time.Duration(r.Int64N(int64(limit))))
}
