package httpapi

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"log/slog"
	"math/big"
	"net"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/telemetry"
)

// waitLimit is how long a test waits for an expected event before it fails.
const waitLimit = time.Minute

// noon is the time in every test.
var noon = time.Date(2027, 3, 1, 6, 30, 0, 987_000_000, time.UTC)

// fakeAuthorizer accepts every request as operator 7's unless configured otherwise, and
// records its calls.
type fakeAuthorizer struct {
	mu        sync.Mutex
	throttled error
	refusal   error
	caller    access.Caller
	panics    any
	checked   []access.Request
}

func (g *fakeAuthorizer) Throttled(netip.Addr, time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.throttled
}

func (g *fakeAuthorizer) Authorize(_ context.Context, request access.Request) (access.Caller, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.checked = append(g.checked, request)
	if g.panics != nil {
		panic(g.panics)
	}
	return g.caller, g.refusal
}

// requests returns the requests that were checked since its last call.
func (g *fakeAuthorizer) requests() []access.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	checked := g.checked
	g.checked = nil
	return checked
}

type walletFunc func(context.Context, int64) (subscription.Wallet, error)

func (f walletFunc) Wallet(ctx context.Context, operator int64) (subscription.Wallet, error) {
	return f(ctx, operator)
}

type planList []subscription.Plan

func (l planList) Plans(context.Context) ([]subscription.Plan, error) { return l, nil }

// logs collects log lines.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *logs) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *logs) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// lines returns the log lines as JSON objects.
func (j *logs) lines(t *testing.T) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for text := range strings.Lines(j.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("log line %q: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// testEnv is an API behind a Server, on real sockets.
type testEnv struct {
	t          *testing.T
	authorizer *fakeAuthorizer
	logs       *logs
	metrics    *telemetry.Metrics
	server     *Server
	tls        string // the address of the TLS port
	plain      string // and of the plain one
	served     sync.WaitGroup
}

// option changes the configuration of a testEnv.
type option func(*Config, *ServerConfig)

// openEnvs counts the running testEnvs.
var openEnvs atomic.Int64

func newTestEnv(t *testing.T, options ...option) *testEnv {
	t.Helper()
	openEnvs.Add(1)
	h := &testEnv{t: t, logs: &logs{}, metrics: telemetry.NewMetrics(), authorizer: &fakeAuthorizer{
		caller: access.Caller{
			Operator: subscription.Operator{ID: 7},
			KeyHint:  "cxk_1a2b3c4d",
			Rate:     access.Rate{Limit: 60, Remaining: 59, ResetAt: noon.Truncate(time.Minute).Add(time.Minute)},
		},
	}}
	log := telemetry.NewLogger(h.logs, slog.LevelInfo, "json")
	api := Config{
		Now:        func() time.Time { return noon },
		Authorizer: h.authorizer,
		Wallets: walletFunc(func(_ context.Context, id int64) (subscription.Wallet, error) {
			return subscription.Wallet{OperatorID: id, Balance: money.Paise(123_450), LowBelow: money.Paise(50_000)}, nil
		}),
		Plans:        planList{{ID: "P1", Name: "Basic", Price: money.Paise(19_900), Months: 1, Type: subscription.Standard}},
		ProviderName: "Simulated Provider",
		Log:          log,
		Metrics:      h.metrics,
	}
	server := ServerConfig{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(), nil },
		Log:            log,
		Metrics:        h.metrics,
	}
	for _, change := range options {
		change(&api, &server)
	}
	server.Proxies = api.Proxies
	if server.Handler == nil {
		server.Handler = New(api)
	}
	h.server = NewServer(server)
	h.tls = h.listen(h.server.ServeTLS)
	h.plain = h.listen(h.server.ServePlain)
	t.Cleanup(h.tearDown)
	return h
}

func (h *testEnv) listen(serve func(net.Listener) error) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.served.Go(func() {
		if err := serve(listener); err != nil {
			h.t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// tearDown shuts the server down and fails if goroutines are left.
func (h *testEnv) tearDown() {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	if err := h.server.Shutdown(ctx); err != nil {
		h.t.Errorf("shutdown: %v", err)
	}
	h.served.Wait()
	if openEnvs.Add(-1) > 0 {
		return // with two testEnvs, check after the last one
	}
	left := ""
	if !eventually(func() bool { left = goroutinesInside(); return left == "" }) {
		h.t.Errorf("goroutines are left behind:\n%s", left)
	}
}

// goroutinesInside returns the stacks of goroutines in this package or in net/http's
// handling of its connections.
func goroutinesInside() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	inside := regexp.MustCompile(`httpapi/[a-z]+\.go|net/http\.\(\*conn\)\.serve|net/http\.\(\*connReader\)`)
	var left []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if inside.MatchString(stack) {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

// eventually waits until a condition holds, and returns false after waitLimit.
func eventually(holds func() bool) bool {
	for deadline := time.Now().Add(waitLimit); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

// metric returns one value of the served metrics.
func (h *testEnv) metric(series string) float64 {
	h.t.Helper()
	w := httptest.NewRecorder()
	h.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				h.t.Fatal(err)
			}
			return number
		}
	}
	return 0
}

// certificate is shared by all tests.
var certificate = sync.OnceValue(func() *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "127.0.0.1"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
})

func clientTLS() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(certificate().Leaf)
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

// waitForLines waits for n log lines: a line is written after the response.
func (h *testEnv) waitForLines(n int) []map[string]any {
	h.t.Helper()
	if !eventually(func() bool { return strings.Count(h.logs.String(), "\n") >= n }) {
		h.t.Fatalf("%d log lines did not come; there is\n%s", n, h.logs)
	}
	return h.logs.lines(h.t)
}
