package sdk

import (
	"bytes"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/certify/line"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/signing"
)

// neverConnect is what only this line does: it accepts a connection and never completes its
// TLS handshake. It is for a connection, so no request arrives.
const neverConnect = "never connect"

// badLine is a proxy between an SDK and the service that treats the requests as a story
// says: the first fault is for the first request, and the last one repeats. It records
// what it was sent.
type badLine struct {
	t      testing.TB
	env    *e2e.Env
	as     e2e.Caller
	server *httptest.Server
	ca     string
	watch  func(testing.TB, line.Request, line.Answer)
	// forged is given each answer that is not the service's, if it is not nil.
	forged func(testing.TB, line.Request, line.Answer)

	mu       sync.Mutex
	faults   []line.Fault
	requests []line.Request
	nonces   map[string]bool
}

func newLine(t testing.TB, env *e2e.Env, as e2e.Caller, faults []line.Fault) *badLine {
	t.Helper()
	l := &badLine{t: t, env: env, as: as, faults: faults, nonces: map[string]bool{}}
	if len(faults) == 0 {
		l.faults = []line.Fault{{Do: line.Forward}}
	}
	l.server = httptest.NewUnstartedServer(l)
	l.server.Config.ErrorLog = nil
	l.server.Listener = connections{l.server.Listener, l}
	l.server.StartTLS()
	t.Cleanup(l.server.Close)
	l.ca = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.server.Certificate().Raw})
	if err := os.WriteFile(l.ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *badLine) take(r line.Request) line.Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
	return l.nextFault()
}

func (l *badLine) nextFault() line.Fault {
	next := l.faults[0]
	if len(l.faults) > 1 {
		l.faults = l.faults[1:]
	}
	return next
}

// connections are those on which a badLine lets the client complete a handshake.
type connections struct {
	net.Listener
	line *badLine
}

func (c connections) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil || !c.line.ignores() {
			return conn, err
		}
		c.line.t.Cleanup(func() { _ = conn.Close() })
	}
}

// ignores reports whether the next fault is for a connection, and takes it if so.
func (l *badLine) ignores() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults[0].Do != neverConnect {
		return false
	}
	l.nextFault()
	return true
}

// taken returns the requests so far.
func (l *badLine) taken() []line.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]line.Request(nil), l.requests...)
}

func (l *badLine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	got, err := line.Read(r)
	if err != nil {
		l.t.Errorf("%s %s: its body cannot be read: %v", r.Method, r.URL.Path, err)
		panic(http.ErrAbortHandler)
	}
	l.check(got)
	fault := l.take(got)
	answered, err := line.Treat(w, r, got, fault, func() (line.Answer, error) { return l.forward(got) })
	if err != nil {
		l.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	if answered.Status == 0 {
		panic(http.ErrAbortHandler)
	}
	if fault.Do == line.Replace && l.forged != nil {
		l.forged(l.t, got, answered)
	}
}

// check verifies what holds for every request of every SDK.
func (l *badLine) check(r line.Request) {
	complain := func(format string, args ...any) {
		l.t.Errorf("%s %s: "+format, append([]any{r.Method, r.Target}, args...)...)
	}
	path, query, _ := strings.Cut(r.Target, "?")
	signed := signing.Request{
		Method: r.Method, Path: path, RawQuery: query,
		Timestamp: r.Header.Get("X-Timestamp"), Nonce: r.Header.Get("X-Nonce"), Body: r.Body,
	}
	if !signed.Verify(l.as.Secret, r.Header.Get("X-Signature")) {
		complain("the signature does not verify")
	}
	l.mu.Lock()
	if l.nonces[signed.Nonce] {
		complain("the nonce %s was used before", signed.Nonce)
	}
	l.nonces[signed.Nonce] = true
	l.mu.Unlock()
	if len(signed.Nonce) < 32 {
		complain("the nonce %s has less than 32 characters", signed.Nonce)
	}
	if r.Header.Get("X-API-Key") != l.as.Key {
		complain("another key: %s", r.Header.Get("X-API-Key"))
	}
	switch {
	case r.Method == http.MethodPost && (r.Key == "" || r.Header.Get("Content-Type") != "application/json"):
		complain("a POST with key %q and content type %q", r.Key, r.Header.Get("Content-Type"))
	case r.Method == http.MethodGet && (r.Key != "" || len(r.Body) > 0):
		complain("a GET with key %q and a body of %d bytes", r.Key, len(r.Body))
	}
	if agent := r.Header.Get("User-Agent"); !strings.HasPrefix(agent, "coax-") {
		complain("User-Agent is %q; want coax- and the SDK's name and version", agent)
	}
}

// forward takes a request to the service.
func (l *badLine) forward(r line.Request) (line.Answer, error) {
	outgoing, err := http.NewRequest(r.Method, l.env.URL(r.Target), bytes.NewReader(r.Body))
	if err != nil {
		return line.Answer{}, err
	}
	outgoing.Header = r.Header.Clone()
	outgoing.Header.Del("Accept-Encoding")
	response, err := l.env.HTTP.Do(outgoing)
	if err != nil {
		return line.Answer{}, err
	}
	got, err := l.env.Receive(outgoing, r.Target, response)
	if err != nil {
		return line.Answer{}, err
	}
	answer := line.Answer{Status: got.Status, Header: got.Header, Body: got.Raw}
	if l.watch != nil {
		l.watch(l.t, r, answer)
	}
	return answer, nil
}
