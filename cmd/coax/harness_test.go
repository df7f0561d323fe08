package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/coaxhq/coax/signing"
)

// world is a whole service in this process: real TLS, a real store, the demo's
// operator and catalogue, and a clock that stands still unless moved.
type world struct {
	t      testing.TB
	folder string
	node   *node
	desk   *admin.Desk
	line   demoLine
	http   *http.Client
	logged *synchronised
	// simulator is the provider, in this process and on a socket of its own.
	simulator *runningSimulator
	time      atomic.Int64 // Unix milliseconds
	paid      int          // payments made so far
	// history: the demo's operator has one.
	history bool
	stop    func()
}

// synchronised is a buffer that a server writes and a test reads.
type synchronised struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *synchronised) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *synchronised) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// newWorld starts a service in a folder of its own, with extra settings.
func newWorld(t testing.TB, sets ...string) *world {
	t.Helper()
	return newWorldAt(t, standingStill(), sets...)
}

// newWorldAt is newWorld with the moment at which its clock stands.
func newWorldAt(t testing.TB, at time.Time, sets ...string) *world {
	t.Helper()
	folder, own := furnishedFolder(t, at)
	w := &world{t: t, folder: folder, logged: &synchronised{}}
	w.time.Store(at.UnixMilli())
	w.start(append(own, sets...)...)
	// The first start was a while ago, and prices are believed for some time only.
	if err := w.node.store.RecordComparison(context.Background(), catalogue.Comparison{
		Provider: w.node.config.Provider.Name, At: at, Components: simulator.Components(),
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) now() time.Time { return time.UnixMilli(w.time.Load()).UTC() }

// pass moves the world's clock.
func (w *world) pass(d time.Duration) { w.time.Add(d.Milliseconds()) }

// start opens the doors; after a stop it is a restart with the same folder.
func (w *world) start(sets ...string) {
	w.t.Helper()
	a := &app{out: io.Discard, err: io.Discard, sets: sets}
	var err error
	if w.simulator, err = startSimulator("127.0.0.1:0", filepath.Join(w.folder, "simulator.json")); err != nil {
		w.t.Fatal(err)
	}
	config, err := a.prepareDemo(w.folder, "127.0.0.1:0", w.simulator.url)
	if err != nil {
		w.t.Fatal(err)
	}
	log := telemetry.NewLogger(w.logged, slog.LevelDebug, "json")
	if w.node, err = openNode(context.Background(), config, nil, log, w.now); err != nil {
		w.t.Fatal(err)
	}
	if err := w.furnish(a); err != nil {
		w.t.Fatal(err)
	}
	if err := w.node.listen(); err != nil {
		w.t.Fatal(err)
	}
	w.line.BaseURL = "https://" + reachable(w.node.apiAddr) + "/api/v1"
	w.line.PlainURL = "http://" + reachable(w.node.plainAddr)
	w.line.InternalURL = "http://" + reachable(w.node.internalAddr)
	w.desk = admin.NewDesk(w.node.store, w.node.vault, "test", w.now)
	w.http = trusting(w.t, filepath.Join(w.folder, "ca.pem"))

	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.node.serve(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			w.t.Errorf("the service ended: %v", err)
		}
		if err := w.node.close(); err != nil {
			w.t.Errorf("the store did not close: %v", err)
		}
		w.http.CloseIdleConnections()
		w.simulator.stop()
	})
}

// furnish gives the world what a demo has.
func (w *world) furnish(a *app) error {
	ctx := context.Background()
	begins, err := a.beginningOf(ctx, w.node, true, w.history)
	if err != nil {
		return err
	}
	if w.line, err = furnishFrom(ctx, w.node, filepath.Join(w.folder, "demo.json"), begins); err != nil || !begins.history {
		return err
	}
	return a.fillHistory(ctx, w.node, w.simulator, begins.now())
}

func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

// trusting is an HTTP client that trusts one CA and keeps many connections.
func trusting(t testing.TB, ca string) *http.Client {
	t.Helper()
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &http.Client{Timeout: time.Minute, Transport: unheard{after: 4 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 64,
		// Of many who call at once, one may find another's connection free while
		// its own is dialled. What nobody has used after five seconds the service
		// closes, and who takes it at that moment has no answer.
		IdleConnTimeout: 2 * time.Second,
	}}}
}

// caller is an API key with its secret.
type caller struct {
	id          int64
	operatorID  int64
	key, secret string
}

// demoCaller is the key that the demo was furnished with.
func (w *world) demoCaller() caller {
	return caller{id: 1, operatorID: w.line.LCOID, key: w.line.APIKey, secret: w.line.APISecret}
}

// newOperator opens an account that may call from loopback, with a key.
func (w *world) newOperator(name string, permissions access.Permissions) caller {
	w.t.Helper()
	operator, err := w.desk.CreateOperator(context.Background(), name, admin.OperatorChange{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.desk.AllowAddress(context.Background(), operator.ID, "127.0.0.1"); err != nil {
		w.t.Fatal(err)
	}
	return w.newKey(operator.ID, permissions)
}

func (w *world) newKey(operatorID int64, permissions access.Permissions) caller {
	w.t.Helper()
	issued, err := w.desk.IssueKey(context.Background(), operatorID, permissions)
	if err != nil {
		w.t.Fatal(err)
	}
	return caller{id: issued.ID, operatorID: operatorID, key: issued.Key, secret: issued.Secret.Reveal()}
}

// call is a request as a test wants it sent, right or wrong. What is left empty
// is filled in rightly; the signature covers what is sent.
type call struct {
	as        caller
	method    string
	path      string // with its query
	body      string
	timestamp string
	nonce     string
	signature string
	base      string // scheme and host; the service's own if empty
	header    http.Header
	drop      []string // headers to leave out
}

// answer is what came back.
type answer struct {
	status  int
	header  http.Header
	raw     []byte
	success bool
	code    fault.Code
	message string
	id      string
	data    map[string]any
}

// spoiled has the kinds of answers whose check was checked.
var spoiled sync.Map

// send sends a call and receives the answer.
func (w *world) send(c call) answer {
	w.t.Helper()
	request := w.request(c)
	response, err := w.http.Do(request)
	if err != nil {
		w.t.Fatalf("%s %s: %v", request.Method, c.path, err)
	}
	got, err := w.receive(request, c.path, response)
	if err != nil {
		w.t.Fatalf("%s %s: read the answer: %v", request.Method, c.path, err)
	}
	return got
}

// receive reads an answer to its end, holds it against the contract, notes its
// code, and opens the envelope. Whatever the service answers comes through here.
func (w *world) receive(request *http.Request, path string, response *http.Response) (answer, error) {
	w.t.Helper()
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	contracttest.Check(w.t, request.Method, path, response.StatusCode, response.Header, raw)
	got := readAnswer(w.t, response.StatusCode, response.Header, raw)
	kind := request.Method + " " + request.URL.Path + " " + string(got.code)
	received.note(got.code, kind)
	// One answer of each kind is spoiled in every way, to see that the check
	// would have noticed.
	if _, known := spoiled.LoadOrStore(kind, true); !known {
		contracttest.CheckMutations(w.t, request.Method, path, response.StatusCode, response.Header, raw)
	}
	return got, nil
}

func readAnswer(t testing.TB, status int, header http.Header, raw []byte) answer {
	t.Helper()
	var envelope struct {
		Success   bool           `json:"success"`
		RequestID string         `json:"request_id"`
		Code      fault.Code     `json:"code"`
		Message   string         `json:"message"`
		Data      map[string]any `json:"data"`
	}
	if err := json.Unmarshal(raw, &envelope); err != nil {
		t.Fatalf("the answer is no envelope: %v\n%s", err, raw)
	}
	return answer{
		status: status, header: header, raw: raw, success: envelope.Success, code: envelope.Code,
		message: envelope.Message, id: envelope.RequestID, data: envelope.Data,
	}
}

// request makes the HTTP request of a call.
func (w *world) request(c call) *http.Request {
	w.t.Helper()
	if c.method == "" {
		c.method = http.MethodGet
	}
	base := c.base
	if base == "" {
		base = strings.TrimSuffix(w.line.BaseURL, "/api/v1")
	}
	request := w.signed(base, c)
	if c.method == http.MethodPost {
		request.Header.Set("Idempotency-Key", "key-"+request.Header.Get("X-Nonce"))
	}
	for name, values := range c.header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	for _, name := range c.drop {
		request.Header.Del(name)
	}
	return request
}

// signed has the client make the request, and then puts in what the test wants
// otherwise.
func (w *world) signed(base string, c call) *http.Request {
	w.t.Helper()
	speaker, err := client.New(client.Config{
		BaseURL: base + "/api/v1", Key: cmp.Or(c.as.key, "none"), Secret: client.Secret(cmp.Or(c.as.secret, "none")), Now: w.now,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	request, err := speaker.Sign(context.Background(), c.method, c.path, []byte(c.body))
	if err != nil {
		w.t.Fatal(err)
	}
	if c.as.key == "" {
		request.Header.Set("X-API-Key", "")
	}
	if c.timestamp != "" {
		request.Header.Set("X-Timestamp", c.timestamp)
	}
	if c.nonce != "" {
		request.Header.Set("X-Nonce", c.nonce)
	}
	switch {
	case c.signature != "":
		request.Header.Set("X-Signature", c.signature)
	case c.timestamp != "" || c.nonce != "":
		path, query, _ := strings.Cut(c.path, "?")
		request.Header.Set("X-Signature", signing.Request{
			Method: c.method, Path: path, RawQuery: query, Body: []byte(c.body),
			Timestamp: request.Header.Get("X-Timestamp"), Nonce: request.Header.Get("X-Nonce"),
		}.Sign(c.as.secret))
	}
	return request
}

// expect demands a code, and returns the answer for more.
func (w *world) expect(what string, c call, code fault.Code) answer {
	w.t.Helper()
	got := w.send(c)
	if got.code != code {
		w.t.Errorf("%s: %d %s (%s); want %s", what, got.status, got.code, got.message, code)
	}
	return got
}

func rupees(t testing.TB, text string) money.Amount {
	t.Helper()
	value, err := money.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// until polls a condition, for half a minute at most.
func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	patience := time.After(2 * cliPatience) // of a machine that others use as well
	for !condition() {
		select {
		case <-patience:
			w.t.Fatalf("gave up waiting until %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
