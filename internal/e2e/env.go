package e2e

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
	"slices"
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
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/coaxhq/coax/signing"
)

// Env is a whole service in this process: real TLS, a real store, the demo's
// operator and catalogue, and a clock that only Advance moves.
type Env struct {
	TB     testing.TB
	Folder string
	Node   *server.Node
	Admin  *admin.Service
	Demo   demo.Info
	HTTP   *http.Client
	Log    *LogBuffer
	// Simulator is the provider, in this process, on its own listener.
	Simulator *demo.RunningSimulator
	Time      atomic.Int64 // Unix milliseconds
	paid      int          // payments made so far
	// History fills the demo's operator with months of past operations.
	History bool
	live    bool // the clock is the system's
	Stop    func()

	pausing sync.Mutex
	pauses  []time.Duration
}

// LogBuffer is a log that a server writes while a test reads it.
type LogBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *LogBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *LogBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// NewEnv starts a service in a new folder, with extra settings.
func NewEnv(t testing.TB, sets ...string) *Env {
	t.Helper()
	return NewEnvAt(t, startTime(), sets...)
}

// WithoutMark, among the settings of an Env, keeps the node from marking the store, which is a
// commit in the background. No configuration can do that.
const WithoutMark = "store.mark_file="

// NewEnvAt is NewEnv with the clock set to a time.
func NewEnvAt(t testing.TB, at time.Time, sets ...string) *Env {
	t.Helper()
	folder, own := copyFirstStart(t, at)
	e := &Env{TB: t, Folder: folder, Log: &LogBuffer{}}
	e.Time.Store(at.UnixMilli())
	return e.open(at, append(own, sets...))
}

// NewLiveEnv is NewEnv with the system's clock, for clients that have no other.
func NewLiveEnv(t testing.TB, sets ...string) *Env {
	t.Helper()
	at := time.Now()
	folder, own := copyFirstStart(t, at)
	e := &Env{TB: t, Folder: folder, Log: &LogBuffer{}, live: true}
	return e.open(at, append(own, sets...))
}

func (e *Env) open(at time.Time, sets []string) *Env {
	e.TB.Helper()
	e.Start(sets...)
	// The copied first start may be old, and verified prices expire.
	if err := e.Node.Store.RecordComparison(context.Background(), catalogue.Comparison{
		Provider: e.Node.Config.Provider.Name, At: at, Components: simulator.Components(),
	}); err != nil {
		e.TB.Fatal(err)
	}
	e.TB.Cleanup(func() { e.Stop() })
	return e
}

// Now is the time of the service's clock.
func (e *Env) Now() time.Time {
	if e.live {
		return time.Now().UTC()
	}
	return time.UnixMilli(e.Time.Load()).UTC()
}

// Advance moves the service's clock forward.
func (e *Env) Advance(d time.Duration) { e.Time.Add(d.Milliseconds()) }

// SignInDelays returns the delays imposed on sign-ins since the last call. They are
// recorded instead of slept.
func (e *Env) SignInDelays() []time.Duration {
	e.pausing.Lock()
	defer e.pausing.Unlock()
	pauses := e.pauses
	e.pauses = nil
	return pauses
}

// Start starts the service. After Stop it restarts it in the same folder.
func (e *Env) Start(sets ...string) {
	e.TB.Helper()
	var err error
	if e.Simulator, err = demo.StartSimulator("127.0.0.1:0", filepath.Join(e.Folder, "simulator.json")); err != nil {
		e.TB.Fatal(err)
	}
	marked := len(sets)
	sets = slices.DeleteFunc(slices.Clone(sets), func(set string) bool { return set == WithoutMark })
	config, err := demo.Prepare(demo.Folder{Path: e.Folder, Sets: sets}, "127.0.0.1:0", e.Simulator.URL)
	if err != nil {
		e.TB.Fatal(err)
	}
	if len(sets) < marked {
		config.Store.MarkFile = ""
	}
	config.Store.New = true // the folder may have the SQLite store that it was copied with
	log := telemetry.NewLogger(e.Log, slog.LevelDebug, "json")
	if e.Node, err = server.Open(context.Background(), config, nil, log, e.Now); err != nil {
		e.TB.Fatal(err)
	}
	e.Node.Logins.SetPause(func(_ context.Context, d time.Duration) error {
		e.pausing.Lock()
		defer e.pausing.Unlock()
		e.pauses = append(e.pauses, d)
		return nil
	})
	if err := e.setUpDemo(); err != nil {
		e.TB.Fatal(err)
	}
	if err := e.Node.Listen(); err != nil {
		e.TB.Fatal(err)
	}
	e.Demo.BaseURL = "https://" + server.Reachable(e.Node.APIAddr) + "/api/v1"
	e.Demo.PlainURL = "http://" + server.Reachable(e.Node.PlainAddr)
	e.Demo.InternalURL = "http://" + server.Reachable(e.Node.InternalAddr)
	e.Admin = admin.NewService(e.Node.Store, e.Node.Vault, "test", e.Now)
	e.HTTP = NewHTTPClient(e.TB, filepath.Join(e.Folder, "ca.pem"))

	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Node.Serve(ctx) }()
	e.Stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			e.TB.Errorf("the service ended: %v", err)
		}
		if err := e.Node.Close(); err != nil {
			e.TB.Errorf("the store did not close: %v", err)
		}
		e.HTTP.CloseIdleConnections()
		e.Simulator.Stop()
	})
}

// setUpDemo creates the demo's operator, logins and catalogue, and its history if asked.
func (e *Env) setUpDemo() error {
	ctx := context.Background()
	from, err := demo.FindStart(ctx, e.Node, io.Discard, true, e.History)
	if err != nil {
		return err
	}
	if e.Demo, err = demo.SetupFrom(ctx, e.Node, filepath.Join(e.Folder, "demo.json"), from); err != nil || !from.History {
		return err
	}
	return demo.FillHistory(ctx, e.Node, e.Simulator, from.Now(), io.Discard)
}

// Restart stops the service and starts it again in the same folder.
func (e *Env) Restart() {
	e.TB.Helper()
	e.Stop()
	e.Start()
}

// NewHTTPClient returns a client that trusts one CA and keeps many idle connections.
func NewHTTPClient(t testing.TB, ca string) *http.Client {
	t.Helper()
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &http.Client{Timeout: time.Minute, Transport: RetryUnread{after: 4 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 64,
		// The service closes a connection that was idle for five seconds. A request
		// sent on it at that moment gets no answer, so drop it well before.
		IdleConnTimeout: 2 * time.Second,
	}}}
}

// Caller is an API key with its secret.
type Caller struct {
	ID          int64
	OperatorID  int64
	Key, Secret string
}

// DemoCaller is the API key of the demo's operator.
func (e *Env) DemoCaller() Caller {
	return Caller{ID: 1, OperatorID: e.Demo.LCOID, Key: e.Demo.APIKey, Secret: e.Demo.APISecret}
}

// NewOperator creates an operator that may call from loopback, with a key.
func (e *Env) NewOperator(name string, permissions access.Permissions) Caller {
	e.TB.Helper()
	operator, err := e.Admin.CreateOperator(context.Background(), name, admin.OperatorChange{})
	if err != nil {
		e.TB.Fatal(err)
	}
	if _, err := e.Admin.AllowAddress(context.Background(), operator.ID, "127.0.0.1"); err != nil {
		e.TB.Fatal(err)
	}
	return e.NewKey(operator.ID, permissions)
}

// NewKey issues an API key to an operator.
func (e *Env) NewKey(operatorID int64, permissions access.Permissions) Caller {
	e.TB.Helper()
	issued, err := e.Admin.IssueKey(context.Background(), operatorID, permissions)
	if err != nil {
		e.TB.Fatal(err)
	}
	return Caller{ID: issued.ID, OperatorID: operatorID, Key: issued.Key, Secret: issued.Secret.Reveal()}
}

// Call describes a request, valid or not. Empty fields get valid values; the
// signature covers what is sent.
type Call struct {
	As        Caller
	Method    string
	Path      string // with its query
	Body      string
	Timestamp string
	Nonce     string
	Signature string
	Base      string // scheme and host; the service's own if empty
	Header    http.Header
	Drop      []string // headers to leave out
}

// Answer is a response with its envelope decoded.
type Answer struct {
	Status  int
	Header  http.Header
	Raw     []byte
	Success bool
	Code    fault.Code
	Message string
	ID      string
	Data    map[string]any
}

// mutated has the kinds of answers that CheckMutations was run on.
var mutated sync.Map

// Send sends a call and receives the answer.
func (e *Env) Send(c Call) Answer {
	e.TB.Helper()
	request := e.Request(c)
	response, err := e.HTTP.Do(request)
	if err != nil {
		e.TB.Fatalf("%s %s: %v", request.Method, c.Path, err)
	}
	got, err := e.Receive(request, c.Path, response)
	if err != nil {
		e.TB.Fatalf("%s %s: read the response: %v", request.Method, c.Path, err)
	}
	return got
}

// Receive reads a response, checks it against the contract, records its code and
// decodes the envelope. Every API response of these tests goes through it.
func (e *Env) Receive(request *http.Request, path string, response *http.Response) (Answer, error) {
	e.TB.Helper()
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{}, err
	}
	contracttest.Check(e.TB, request.Method, path, response.StatusCode, response.Header, raw)
	if hsts := response.Header.Get("Strict-Transport-Security"); (hsts != "") != (response.TLS != nil) && request.Header.Get("X-Forwarded-Proto") == "" {
		e.TB.Errorf("%s %s: Strict-Transport-Security is %q; TLS: %v", request.Method, path, hsts, response.TLS != nil)
	}
	got := readAnswer(e.TB, response.StatusCode, response.Header, raw)
	kind := request.Method + " " + request.URL.Path + " " + string(got.Code)
	received.record(got.Code, kind)
	// One answer of each kind is mutated, to check that contracttest would notice.
	if _, known := mutated.LoadOrStore(kind, true); !known {
		contracttest.CheckMutations(e.TB, request.Method, path, response.StatusCode, response.Header, raw)
	}
	return got, nil
}

func readAnswer(t testing.TB, status int, header http.Header, raw []byte) Answer {
	t.Helper()
	var envelope struct {
		Success   bool           `json:"success"`
		RequestID string         `json:"request_id"`
		Code      fault.Code     `json:"code"`
		Message   string         `json:"message"`
		Data      map[string]any `json:"data"`
	}
	if err := json.Unmarshal(raw, &envelope); err != nil {
		t.Fatalf("the response is not an envelope: %v\n%s", err, raw)
	}
	return Answer{
		Status: status, Header: header, Raw: raw, Success: envelope.Success, Code: envelope.Code,
		Message: envelope.Message, ID: envelope.RequestID, Data: envelope.Data,
	}
}

// Request builds the HTTP request of a call.
func (e *Env) Request(c Call) *http.Request {
	e.TB.Helper()
	if c.Method == "" {
		c.Method = http.MethodGet
	}
	base := c.Base
	if base == "" {
		base = strings.TrimSuffix(e.Demo.BaseURL, "/api/v1")
	}
	request := e.signed(base, c)
	if c.Method == http.MethodPost {
		request.Header.Set("Idempotency-Key", "key-"+request.Header.Get("X-Nonce"))
	}
	for name, values := range c.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	for _, name := range c.Drop {
		request.Header.Del(name)
	}
	return request
}

// signed has the client sign the request, and then applies what the call overrides.
func (e *Env) signed(base string, c Call) *http.Request {
	e.TB.Helper()
	signer, err := client.New(client.Config{
		BaseURL: base + "/api/v1", Key: cmp.Or(c.As.Key, "none"), Secret: client.Secret(cmp.Or(c.As.Secret, "none")), Now: e.Now,
	})
	if err != nil {
		e.TB.Fatal(err)
	}
	request, err := signer.Sign(context.Background(), c.Method, c.Path, []byte(c.Body))
	if err != nil {
		e.TB.Fatal(err)
	}
	if c.As.Key == "" {
		request.Header.Set("X-API-Key", "")
	}
	if c.Timestamp != "" {
		request.Header.Set("X-Timestamp", c.Timestamp)
	}
	if c.Nonce != "" {
		request.Header.Set("X-Nonce", c.Nonce)
	}
	switch {
	case c.Signature != "":
		request.Header.Set("X-Signature", c.Signature)
	case c.Timestamp != "" || c.Nonce != "":
		path, query, _ := strings.Cut(c.Path, "?")
		request.Header.Set("X-Signature", signing.Request{
			Method: c.Method, Path: path, RawQuery: query, Body: []byte(c.Body),
			Timestamp: request.Header.Get("X-Timestamp"), Nonce: request.Header.Get("X-Nonce"),
		}.Sign(c.As.Secret))
	}
	return request
}

// Expect sends a call, checks the code and returns the answer.
func (e *Env) Expect(what string, c Call, code fault.Code) Answer {
	e.TB.Helper()
	got := e.Send(c)
	if got.Code != code {
		e.TB.Errorf("%s: %d %s (%s); want %s", what, got.Status, got.Code, got.Message, code)
	}
	return got
}

// Rupees parses an amount.
func Rupees(t testing.TB, text string) money.Amount {
	t.Helper()
	value, err := money.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// WaitUntil polls a condition, with growing pauses: checking it often costs a signed
// request, and the service needs the processor.
func (e *Env) WaitUntil(what string, condition func() bool) {
	e.TB.Helper()
	timeout := time.After(2 * Timeout) // the machine may be shared
	for pause := 2 * time.Millisecond; !condition(); pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-timeout:
			e.TB.Fatalf("timed out waiting until %s", what)
		case <-time.After(pause):
		}
	}
}
