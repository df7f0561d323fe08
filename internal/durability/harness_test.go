//go:build long

// Package durability tests a running service on failing disks and with a failing
// provider connection: power cuts within a write, full disks, answers before the sync.
// It checks only what clients, the provider and the disk see.
package durability

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/httpapi"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/subscription"
)

const (
	providerName = "test"
	// Review's intervals are short, because clients here wait for results.
	firstCheck  = 10 * time.Millisecond
	maxInterval = 200 * time.Millisecond
	refundAfter = 100 * time.Millisecond
)

// size returns how much is tried: less under the race detector, where SQLite takes ten
// times as long. make walcut runs everything without it.
func size(usual, whenRaced int) int {
	if raced {
		return whenRaced
	}
	return usual
}

// site is what outlives a store: the provider with its state, the master key, the
// operator's credentials, and the clock.
type site struct {
	provider    *simulator.Simulator
	providerURL string
	vault       *access.Vault

	operatorID, keyID int64
	key, secret       string

	ahead atomic.Int64 // of the machine's clock, in nanoseconds
}

func newSite(t testing.TB) *site {
	t.Helper()
	text, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	vault, err := access.OpenVault(text)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := simulator.New(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	listener := listen(t)
	served := make(chan error, 1)
	go func() { served <- provider.Serve(listener) }()
	t.Cleanup(func() {
		if err := errors.Join(provider.Shutdown(context.Background()), <-served); err != nil {
			t.Error(err)
		}
	})
	return &site{provider: provider, providerURL: "http://" + listener.Addr().String(), vault: vault}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func (s *site) now() time.Time {
	return time.Now().Add(time.Duration(s.ahead.Load())).UTC().Truncate(time.Millisecond)
}

// harness is a running service: the real store on a file, processor, review and HTTP
// server, reached through a proxy.
type harness struct {
	*site
	t         testing.TB
	path      string
	store     *sqlite.DB
	service   *admin.Service
	processor *operation.Processor
	reviewer  *operation.Reviewer
	wire      *providerSwitch
	client    *client.Client // signs requests; the harness sends them
	transport *http.Transport
	address   string
	close     func()
}

// open starts a service on the store at path.
func (s *site) open(t testing.TB, path string, options sqlite.Options) *harness {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path, options)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{site: s, t: t, path: path, store: store, service: admin.NewService(store, s.vault, "test", s.now)}
	provider, err := gateway.New(gateway.Config{URL: s.providerURL, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	h.wire = &providerSwitch{healthy: provider}
	if s.key == "" {
		h.setUp()
	}
	h.ok(store.TakeOver(t.Context(), s.now()))
	plans := catalogue.New(store, provider, catalogue.Config{Now: s.now, Provider: providerName, Refresh: time.Hour, MaxAge: 1000 * time.Hour})
	breaker := operation.NewBreaker(provider.Probe)
	h.processor = operation.NewProcessor(store, plans, h.wire, breaker, operation.Config{
		Now: s.now, Node: "node", ProviderName: providerName, Timeout: 20 * time.Second, FirstCheck: firstCheck,
		ActivationTerm: subscription.ThirtyDays,
		Fingerprints:   s.vault.KeysFor(operation.FingerprintPurpose),
	})
	h.reviewer = operation.NewReviewer(store, h.wire, operation.ReviewConfig{
		Now: s.now, Node: "node", Timeout: 20 * time.Second, FirstCheck: firstCheck, MaxInterval: maxInterval, RefundAfter: refundAfter,
		// Tests that make the store fail check what clients see.
		OnError: func(error) {},
	})
	shut := h.serve(plans)
	h.close = sync.OnceFunc(func() {
		shut()
		provider.Close()
		if err := store.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	t.Cleanup(h.close)
	return h
}

// providerSwitch sends calls to the healthy provider, or those of one kind to a faulty
// one.
type providerSwitch struct {
	healthy operation.Provider

	mu     sync.Mutex
	faulty operation.Provider
	what   string // apply, status or void
	calls  int    // calls to the faulty provider
}

// useFaulty sends one kind of call to a faulty provider; an empty kind none.
func (w *providerSwitch) useFaulty(what string, faulty operation.Provider) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what, w.faulty, w.calls = what, faulty, 0
}

// faultyCalls returns how many calls went to the faulty provider.
func (w *providerSwitch) faultyCalls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

func (w *providerSwitch) to(what string) operation.Provider {
	w.mu.Lock()
	defer w.mu.Unlock()
	if what != w.what {
		return w.healthy
	}
	w.calls++
	return w.faulty
}

func (w *providerSwitch) Apply(ctx context.Context, order operation.Order) operation.Reply {
	return w.to("apply").Apply(ctx, order)
}

func (w *providerSwitch) Status(ctx context.Context, order operation.Order) operation.Reply {
	return w.to("status").Status(ctx, order)
}

func (w *providerSwitch) Void(ctx context.Context, order operation.Order) operation.Reply {
	return w.to("void").Void(ctx, order)
}

// serve starts the server behind a trusted proxy on this machine.
func (h *harness) serve(plans *catalogue.Catalogue) (shut func()) {
	proxies, err := access.ParseTrustedProxies([]string{"127.0.0.1"})
	h.ok(err)
	log := slog.New(slog.DiscardHandler)
	server := httpapi.NewServer(httpapi.ServerConfig{
		Handler: httpapi.New(httpapi.Config{
			Now: h.now, Authorizer: access.NewAuthorizer(h.store, h.vault, access.AuthorizerConfig{}), Proxies: proxies, Wallets: h.store, Plans: plans,
			Operations: h.processor, ProviderName: providerName, Log: log,
		}),
		Proxies: proxies, Log: log,
	})
	listener := listen(h.t)
	served := make(chan error, 1)
	go func() { served <- server.ServePlain(listener) }()
	h.address = listener.Addr().String()
	h.transport = &http.Transport{MaxIdleConnsPerHost: 64}
	h.client, err = client.New(client.Config{
		BaseURL: "http://" + h.address + "/api/v1", Key: h.key, Secret: client.Secret(h.secret), Now: h.now,
	})
	h.ok(err)
	return func() {
		h.transport.CloseIdleConnections()
		if err := server.Shutdown(context.Background()); err != nil {
			h.t.Error(err)
		}
		<-served
	}
}

// setUp creates the operator, with money and a key, and the plans.
func (h *harness) setUp() {
	h.t.Helper()
	ctx := context.Background()
	operator, err := h.service.CreateOperator(ctx, "Cable", admin.OperatorChange{CommissionBPS: new(250), RateLimit: new(1_000_000)})
	h.ok(err)
	h.operatorID = operator.ID
	_, err = h.service.AllowAddress(ctx, operator.ID, "127.0.0.1")
	h.ok(err)
	_, _, err = h.service.TopUp(ctx, admin.TopUp{OperatorID: operator.ID, Amount: money.Paise(10_000_000_00), Reference: "opening"})
	h.ok(err)
	h.ok(h.store.RecordComparison(ctx, catalogue.Comparison{Provider: providerName, At: h.now(), Components: simulator.Components()}))
	for _, plan := range []subscription.Plan{
		{ID: "BASIC-1", Name: "Basic", Price: money.Paise(199_00), Months: 1, Type: subscription.Standard, Main: "TV-BASIC"},
		{ID: "FAMILY-3", Name: "Family", Price: money.Paise(999_00), Months: 3, Type: subscription.Standard, Main: "TV-FAMILY"},
		{ID: "COMBO-1", Name: "Combo", Price: money.Paise(499_00), Months: 1, Type: subscription.Combo, Main: "TV-FAMILY", Addon: "OTT-PLUS"},
	} {
		_, err := h.service.SetPlan(ctx, plan)
		h.ok(err)
	}
	issued, err := h.service.IssueKey(ctx, operator.ID, access.AllPermissions)
	h.ok(err)
	h.keyID, h.key, h.secret = issued.ID, issued.Key, issued.Secret.Reveal()
}

func (h *harness) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// review runs the reviewer until the returned function is called.
func (h *harness) review() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.reviewer.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// answer is a response to a client.
type answer struct {
	status int
	nonce  string // the request's
	text   string
	Code   client.Code      `json:"code"`
	Data   client.Operation `json:"data"`
}

// send sends one signed request, once, and requires the envelope in the response.
func (h *harness) send(method, path, key string, body map[string]string) answer {
	h.t.Helper()
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body)
	}
	request, err := h.client.Sign(context.Background(), method, "/api/v1/"+path, text)
	h.ok(err)
	request.Header.Set("X-Forwarded-Proto", "https")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	return h.exchange(request)
}

func (h *harness) exchange(request *http.Request) answer {
	h.t.Helper()
	response, err := h.transport.RoundTrip(request)
	h.ok(err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	h.ok(err)
	got := answer{status: response.StatusCode, nonce: request.Header.Get("X-Nonce"), text: string(raw)}
	if err := json.Unmarshal(raw, &got); err != nil || got.Code == "" {
		h.t.Fatalf("%s answers without an envelope: %d %s", request.URL.Path, response.StatusCode, raw)
	}
	return got
}

// newFolder returns the path of a new store.
func newFolder(t testing.TB) string { return filepath.Join(t.TempDir(), "coax.db") }
