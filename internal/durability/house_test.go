//go:build long

// Package durability takes the disk away from a working service, and the wire to
// its provider: power cuts that leave half a write behind, disks that fill up,
// answers that come too early. It has tests and nothing else, and they know no
// more of the service than a customer, a provider and a disk do.
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
	// firstCheck and refundAfter are what a round of review waits for; short,
	// because clients here stay until they have a result.
	firstCheck  = 10 * time.Millisecond
	maxInterval = 200 * time.Millisecond
	refundAfter = 100 * time.Millisecond
)

// size is how much is tried. Under the race detector SQLite takes ten times as
// long; a few of each kind show it what there is to see, and make walcut runs the
// whole without it.
func size(usual, whenRaced int) int {
	if raced {
		return whenRaced
	}
	return usual
}

// site is what outlasts a store: the provider with its books, the master key, the
// operator's credentials, and the time.
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

// house is a service at work: the real store on a file, the real processor and
// review, the real door, at which clients come through a proxy.
type house struct {
	*site
	t         testing.TB
	path      string
	store     *sqlite.DB
	service   *admin.Service
	processor *operation.Processor
	reviewer  *operation.Reviewer
	wire      *switchboard
	client    *client.Client // which signs; the sending is ours
	transport *http.Transport
	address   string
	close     func()
}

// open opens the house whose store is at path.
func (s *site) open(t testing.TB, path string, options sqlite.Options) *house {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path, options)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{site: s, t: t, path: path, store: store, service: admin.NewService(store, s.vault, "test", s.now)}
	provider, err := gateway.New(gateway.Config{URL: s.providerURL, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	h.wire = &switchboard{sound: provider}
	if s.key == "" {
		h.furnish()
	}
	h.ok(store.TakeOver(t.Context(), s.now()))
	plans := catalogue.New(store, provider, catalogue.Config{Now: s.now, Provider: providerName, Refresh: time.Hour, MaxAge: 1000 * time.Hour})
	breaker := operation.NewBreaker(provider.Probe)
	h.processor = operation.NewProcessor(store, plans, h.wire, breaker, operation.Config{
		Now: s.now, Node: "node", ProviderName: providerName, Timeout: 20 * time.Second, FirstCheck: firstCheck,
		ActivationTerm: subscription.ThirtyDays,
		Fingerprints:   operation.Fingerprints{Keys: s.vault.Derive("body fingerprint"), Current: s.vault.PrimaryID()},
	})
	h.reviewer = operation.NewReviewer(store, h.wire, operation.ReviewConfig{
		Now: s.now, Node: "node", Timeout: 20 * time.Second, FirstCheck: firstCheck, MaxInterval: maxInterval, RefundAfter: refundAfter,
		// Whoever makes the store fail looks at what clients see.
		Problem: func(error) {},
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

// switchboard is the way to the provider: the sound one, or for some questions
// one that is in trouble.
type switchboard struct {
	sound operation.Provider

	mu       sync.Mutex
	troubled operation.Provider
	what     string // apply, status or void
	asked    int    // questions that met the trouble
}

// trouble leads one kind of question elsewhere; an empty one none.
func (w *switchboard) trouble(what string, troubled operation.Provider) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what, w.troubled, w.asked = what, troubled, 0
}

// met is how many questions the trouble has befallen.
func (w *switchboard) met() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

func (w *switchboard) to(what string) operation.Provider {
	w.mu.Lock()
	defer w.mu.Unlock()
	if what != w.what {
		return w.sound
	}
	w.asked++
	return w.troubled
}

func (w *switchboard) Apply(ctx context.Context, order operation.Order) operation.Reply {
	return w.to("apply").Apply(ctx, order)
}

func (w *switchboard) Status(ctx context.Context, order operation.Order) operation.Reply {
	return w.to("status").Status(ctx, order)
}

func (w *switchboard) Void(ctx context.Context, order operation.Order) operation.Reply {
	return w.to("void").Void(ctx, order)
}

// serve opens the door to a proxy on this machine, which vouches for HTTPS.
func (h *house) serve(plans *catalogue.Catalogue) (shut func()) {
	proxies, err := access.ParseTrustedProxies([]string{"127.0.0.1"})
	h.ok(err)
	log := slog.New(slog.DiscardHandler)
	door := httpapi.NewServer(httpapi.ServerConfig{
		Handler: httpapi.New(httpapi.Config{
			Now: h.now, Authorizer: access.NewAuthorizer(h.store, h.vault, access.AuthorizerConfig{}), Proxies: proxies, Wallets: h.store, Plans: plans,
			Operations: h.processor, ProviderName: providerName, Log: log,
		}),
		Proxies: proxies, Log: log,
	})
	listener := listen(h.t)
	served := make(chan error, 1)
	go func() { served <- door.ServePlain(listener) }()
	h.address = listener.Addr().String()
	h.transport = &http.Transport{MaxIdleConnsPerHost: 64}
	h.client, err = client.New(client.Config{
		BaseURL: "http://" + h.address + "/api/v1", Key: h.key, Secret: client.Secret(h.secret), Now: h.now,
	})
	h.ok(err)
	return func() {
		h.transport.CloseIdleConnections()
		if err := door.Shutdown(context.Background()); err != nil {
			h.t.Error(err)
		}
		<-served
	}
}

// furnish gives a new store its operator, with money and a key, and its plans.
func (h *house) furnish() {
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

func (h *house) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// review follows up what is open until the returned function is called.
func (h *house) review() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.reviewer.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// answer is what a client was told.
type answer struct {
	status int
	nonce  string // the request's
	text   string
	Code   client.Code      `json:"code"`
	Data   client.Operation `json:"data"`
}

// send sends one signed request, once, and demands the envelope around whatever
// comes back.
func (h *house) send(method, path, key string, body map[string]string) answer {
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

func (h *house) exchange(request *http.Request) answer {
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

// newFolder is a place for a store.
func newFolder(t testing.TB) string { return filepath.Join(t.TempDir(), "coax.db") }
