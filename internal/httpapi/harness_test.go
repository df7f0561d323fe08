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

// patience is how long a test waits for something that has to happen. It is no
// measure: nothing waits that long unless it is broken.
const patience = time.Minute

// noon is the time in every test.
var noon = time.Date(2027, 3, 1, 6, 30, 0, 987_000_000, time.UTC)

// fakeGate lets everybody in as operator 7 unless it is told otherwise, and
// remembers whom it was asked about.
type fakeGate struct {
	mu        sync.Mutex
	throttled error
	refusal   error
	caller    access.Caller
	panics    any
	asked     []access.Request
}

func (g *fakeGate) Throttled(netip.Addr, time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.throttled
}

func (g *fakeGate) Authorize(_ context.Context, request access.Request) (access.Caller, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, request)
	if g.panics != nil {
		panic(g.panics)
	}
	return g.caller, g.refusal
}

// requests returns whom the gate was asked about since the last call.
func (g *fakeGate) requests() []access.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.asked
	g.asked = nil
	return asked
}

type walletFunc func(context.Context, int64) (subscription.Wallet, error)

func (f walletFunc) Wallet(ctx context.Context, operator int64) (subscription.Wallet, error) {
	return f(ctx, operator)
}

type planList []subscription.Plan

func (l planList) Plans(context.Context) ([]subscription.Plan, error) { return l, nil }

// journal collects log lines.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// lines returns what was logged, one object a line.
func (j *journal) lines(t *testing.T) []map[string]any {
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

// house is an API behind its front door, on real sockets.
type house struct {
	t       *testing.T
	gate    *fakeGate
	journal *journal
	metrics *telemetry.Metrics
	door    *Server
	tls     string // the address of the TLS port
	plain   string // and of the plain one
	served  sync.WaitGroup
}

// plan changes how a house is built.
type plan func(*Config, *ServerConfig)

// standing is how many houses there are.
var standing atomic.Int64

func build(t *testing.T, plans ...plan) *house {
	t.Helper()
	standing.Add(1)
	h := &house{t: t, journal: &journal{}, metrics: telemetry.NewMetrics(), gate: &fakeGate{
		caller: access.Caller{
			Operator: subscription.Operator{ID: 7},
			KeyHint:  "cxk_1a2b3c4d",
			Rate:     access.Rate{Limit: 60, Remaining: 59, ResetAt: noon.Truncate(time.Minute).Add(time.Minute)},
		},
	}}
	log := telemetry.NewLogger(h.journal, slog.LevelInfo, "json")
	api := Config{
		Now:        func() time.Time { return noon },
		Authorizer: h.gate,
		Wallets: walletFunc(func(_ context.Context, id int64) (subscription.Wallet, error) {
			return subscription.Wallet{OperatorID: id, Balance: money.Paise(123_450), LowBelow: money.Paise(50_000)}, nil
		}),
		Plans:        planList{{ID: "P1", Name: "Basic", Price: money.Paise(19_900), Months: 1, Type: subscription.Standard}},
		ProviderName: "Simulated Provider",
		Log:          log,
		Metrics:      h.metrics,
	}
	door := ServerConfig{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(), nil },
		Log:            log,
		Metrics:        h.metrics,
	}
	for _, change := range plans {
		change(&api, &door)
	}
	door.Proxies = api.Proxies
	if door.Handler == nil {
		door.Handler = New(api)
	}
	h.door = NewServer(door)
	h.tls = h.listen(h.door.ServeTLS)
	h.plain = h.listen(h.door.ServePlain)
	t.Cleanup(h.tearDown)
	return h
}

func (h *house) listen(serve func(net.Listener) error) string {
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

// tearDown shuts the door and looks whether anybody is still inside.
func (h *house) tearDown() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.door.Shutdown(ctx); err != nil {
		h.t.Errorf("shutdown: %v", err)
	}
	h.served.Wait()
	if standing.Add(-1) > 0 {
		return // a test with two houses looks when the last is empty
	}
	left := ""
	if !eventually(func() bool { left = goroutinesInside(); return left == "" }) {
		h.t.Errorf("goroutines are left behind:\n%s", left)
	}
}

// goroutinesInside returns the stacks of goroutines that run the code of the
// front door, the API, or net/http's side of their connections.
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

// eventually waits until a condition holds, giving way to whoever makes it hold.
func eventually(holds func() bool) bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

// metric reads one value from the metrics as they are served.
func (h *house) metric(series string) float64 {
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

// certificate is made once for all tests.
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

// waitForLines waits for the log: a line is written after the answer was.
func (h *house) waitForLines(n int) []map[string]any {
	h.t.Helper()
	if !eventually(func() bool { return strings.Count(h.journal.String(), "\n") >= n }) {
		h.t.Fatalf("%d log lines did not come; there is\n%s", n, h.journal)
	}
	return h.journal.lines(h.t)
}
