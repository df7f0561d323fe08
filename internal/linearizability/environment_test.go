//go:build long

package linearizability_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/storetest"
	"github.com/coaxhq/coax/internal/subscription"
)

// The nodes' time advances with every reading of a clock, so that leases end, reviews
// fall due and minutes change as often on a slow machine as on a fast one. Only calls to
// the provider take real time.
const (
	clockStep     = 50 * time.Millisecond
	wireTimeout   = 40 * time.Millisecond
	slowAnswer    = 25 * time.Millisecond
	callTimeout   = time.Second // a lease is 5 s longer
	firstCheck    = time.Second
	checkInterval = 4 * time.Second
	refundAfter   = 5 * time.Second
)

// plans are the plans on sale. Their prices distinguish one debit from another.
var plans = [3]struct {
	id, main string
	price    int64
}{{"BASIC-1", "TV-BASIC", 101_00}, {"FAMILY-1", "TV-FAMILY", 199_50}, {"GRAND-1", "TV-FAMILY", 349_99}}

func planNumber(id string) int {
	for i, plan := range plans {
		if plan.id == id {
			return i
		}
	}
	panic("there is no plan " + id)
}

// environment is two nodes on one store, and a provider reached over TCP. Histories run
// in it one after the other, each with its own operators.
type environment struct {
	nodes     [2]*node
	simulator *simulator.Simulator
	address   string
	vault     *access.Vault

	began   time.Time
	passed  atomic.Int64 // since then, for the nodes, in nanoseconds
	mobiles atomic.Int64
}

// node has the parts of a service process, without its HTTP server.
type node struct {
	store      recordingStore
	service    *admin.Service
	authorizer *access.Authorizer
	operations *operation.Processor
	reviewer   *operation.Reviewer
	now        func() time.Time
}

// storeKind opens a store for each of two nodes.
type storeKind struct {
	name string
	open func(testing.TB) [2]storetest.Store
}

var storeKinds = []storeKind{
	{"SQLite", func(t testing.TB) [2]storetest.Store {
		store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "coax.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return [2]storetest.Store{store, store}
	}},
	{"PostgreSQL", func(t testing.TB) (stores [2]storetest.Store) {
		address := pgtest.NewDatabase(t)
		for i := range stores {
			store, err := postgres.Open(t.Context(), address, postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			stores[i] = store
		}
		return stores
	}},
}

func newEnvironment(t testing.TB, kind storeKind) *environment {
	t.Helper()
	env := &environment{began: time.Now()}
	env.startProvider(t)
	text, err := access.NewMasterKey()
	must(t, err)
	env.vault, err = access.OpenVault(text)
	must(t, err)
	for i, store := range kind.open(t) {
		env.nodes[i] = env.newNode(t, i, store)
	}
	env.setUp(t)
	return env
}

func (env *environment) startProvider(t testing.TB) {
	t.Helper()
	var err error
	env.simulator, err = simulator.New(simulator.Config{SlowFor: slowAnswer})
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	env.address = "http://" + listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- env.simulator.Serve(listener) }()
	t.Cleanup(func() {
		_ = env.simulator.Shutdown(context.Background())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// newNode makes a node whose clock is a little ahead of the one before.
func (env *environment) newNode(t testing.TB, number int, store storetest.Store) *node {
	t.Helper()
	n := &node{store: recordingStore{store}}
	name, skew := fmt.Sprintf("node-%d", number), time.Duration(number)*700*time.Millisecond
	n.now = func() time.Time {
		return env.began.Add(time.Duration(env.passed.Add(int64(clockStep))) + skew).UTC().Truncate(time.Millisecond)
	}
	provider, err := gateway.New(gateway.Config{URL: env.address, Timeout: wireTimeout})
	must(t, err)
	// Price comparisons and breaker probes must not time out on a busy machine.
	unhurried, err := gateway.New(gateway.Config{URL: env.address, Timeout: time.Minute})
	must(t, err)
	breaker := operation.NewBreaker(unhurried.Probe)
	working, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		breaker.Run(working)
	}()
	t.Cleanup(func() {
		stop()
		<-stopped
		provider.Close()
		unhurried.Close()
	})
	prices := catalogue.New(store, unhurried, catalogue.Config{Now: n.now, Provider: "simulator", MaxAge: 100 * 365 * 24 * time.Hour})
	must(t, prices.Compare(t.Context()))
	n.service = admin.NewService(n.store, env.vault, "cli:"+name, n.now)
	n.authorizer = access.NewAuthorizer(n.store, env.vault, access.AuthorizerConfig{FailedAuthPerMinute: 1_000_000})
	n.operations = operation.NewProcessor(n.store, prices, provider, breaker, operation.Config{
		Now: n.now, Node: name, ProviderName: "simulator", Timeout: callTimeout, FirstCheck: firstCheck,
		ActivationTerm: subscription.ThirtyDays,
		Fingerprints:   env.vault.KeysFor(operation.FingerprintPurpose),
	})
	n.reviewer = operation.NewReviewer(n.store, provider, operation.ReviewConfig{
		Now: n.now, Node: name, Timeout: callTimeout, FirstCheck: firstCheck, MaxInterval: checkInterval, RefundAfter: refundAfter,
	})
	return n
}

func (env *environment) setUp(t testing.TB) {
	t.Helper()
	for _, plan := range plans {
		_, err := env.nodes[0].service.SetPlan(t.Context(), subscription.Plan{
			ID: plan.id, Name: plan.id, Price: money.Paise(plan.price), Months: 1, Type: subscription.Standard, Main: plan.main,
		})
		must(t, err)
	}
}

// newMobile returns an unused number whose first orders have the given outcomes.
func (env *environment) newMobile(t testing.TB, outcomes []simulator.Outcome) string {
	t.Helper()
	mobile := fmt.Sprintf("7%09d", env.mobiles.Add(1))
	body, err := json.Marshal(map[string]any{"mobile": mobile, "outcomes": outcomes})
	must(t, err)
	response, err := http.Post(env.address+"/control/script", "application/json", bytes.NewReader(body))
	must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the simulator refuses a script: %s", response.Status)
	}
	return mobile
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
