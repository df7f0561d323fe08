package sdk

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/signing"
)

// fault is what a line does with one request. The words are those of the story files.
type fault struct {
	Do string `json:"do"`
	// Of "answer": an answer that is not the service's own. In the body, KEY stands
	// for the request's idempotency key.
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"` // an object, or a text that is sent as it is
}

// line is a proxy between an SDK and the service that treats the requests as a story
// says: the first fault is for the first request, and the last one repeats. It records
// what it was sent.
type line struct {
	t      testing.TB
	env    *e2e.Env
	as     e2e.Caller
	server *httptest.Server
	ca     string

	mu       sync.Mutex
	faults   []fault
	requests []request
	nonces   map[string]bool
}

// request is a request as it arrived.
type request struct {
	method, target, key string
	header              http.Header
	body                []byte
}

func newLine(t testing.TB, env *e2e.Env, as e2e.Caller, faults []fault) *line {
	t.Helper()
	l := &line{t: t, env: env, as: as, faults: faults, nonces: map[string]bool{}}
	if len(faults) == 0 {
		l.faults = []fault{{Do: "forward"}}
	}
	l.server = httptest.NewUnstartedServer(l)
	l.server.Config.ErrorLog = nil
	l.server.StartTLS()
	t.Cleanup(l.server.Close)
	l.ca = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.server.Certificate().Raw})
	if err := os.WriteFile(l.ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *line) take(r request) fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
	next := l.faults[0]
	if len(l.faults) > 1 {
		l.faults = l.faults[1:]
	}
	return next
}

// taken returns the requests so far.
func (l *line) taken() []request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]request(nil), l.requests...)
}

func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		l.t.Errorf("%s %s: its body cannot be read: %v", r.Method, r.URL.Path, err)
		panic(http.ErrAbortHandler)
	}
	got := request{r.Method, r.URL.RequestURI(), r.Header.Get("Idempotency-Key"), r.Header.Clone(), body}
	l.check(got)
	next := l.take(got)
	switch next.Do {
	case "forward":
		l.relay(w, l.forward(got))
	case "lose request":
		panic(http.ErrAbortHandler)
	case "lose answer":
		l.forward(got)
		panic(http.ErrAbortHandler)
	case "reset":
		l.forward(got)
		l.reset(w)
	case "cut answer":
		answer := l.forward(got)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer.body)))
		w.WriteHeader(answer.status)
		_, _ = w.Write(answer.body[:len(answer.body)/2])
		panic(http.ErrAbortHandler)
	case "forward, never answer":
		l.forward(got)
		<-r.Context().Done() // the client gives up
	case "forward twice":
		l.forward(got)
		l.relay(w, l.forward(got)) // a replayed nonce
	case "answer":
		key := got.key
		if key == "" {
			key = r.URL.Query().Get("idempotency_key")
		}
		l.answer(w, next, key)
	default:
		l.t.Errorf("the story says %q, which is nothing that a line does", next.Do)
	}
}

// check verifies what holds for every request of every SDK.
func (l *line) check(r request) {
	complain := func(format string, args ...any) {
		l.t.Errorf("%s %s: "+format, append([]any{r.method, r.target}, args...)...)
	}
	path, query, _ := strings.Cut(r.target, "?")
	signed := signing.Request{
		Method: r.method, Path: path, RawQuery: query,
		Timestamp: r.header.Get("X-Timestamp"), Nonce: r.header.Get("X-Nonce"), Body: r.body,
	}
	if !signed.Verify(l.as.Secret, r.header.Get("X-Signature")) {
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
	if r.header.Get("X-API-Key") != l.as.Key {
		complain("another key: %s", r.header.Get("X-API-Key"))
	}
	switch {
	case r.method == http.MethodPost && (r.key == "" || r.header.Get("Content-Type") != "application/json"):
		complain("a POST with key %q and content type %q", r.key, r.header.Get("Content-Type"))
	case r.method == http.MethodGet && (r.key != "" || len(r.body) > 0):
		complain("a GET with key %q and a body of %d bytes", r.key, len(r.body))
	}
	if agent := r.header.Get("User-Agent"); !strings.HasPrefix(agent, "coax-") {
		complain("User-Agent is %q; want coax- and the SDK's name and version", agent)
	}
}

// forwarded is an answer of the service.
type forwarded struct {
	status int
	header http.Header
	body   []byte
}

func (l *line) forward(r request) forwarded {
	outgoing, err := http.NewRequest(r.method, l.env.URL(r.target), bytes.NewReader(r.body))
	if err != nil {
		l.t.Error(err)
		panic(http.ErrAbortHandler)
	}
	outgoing.Header = r.header.Clone()
	outgoing.Header.Del("Accept-Encoding")
	response, err := l.env.HTTP.Do(outgoing)
	if err != nil {
		l.t.Errorf("the service did not answer: %v", err)
		panic(http.ErrAbortHandler)
	}
	got, err := l.env.Receive(outgoing, r.target, response)
	if err != nil {
		l.t.Errorf("the service's answer is incomplete: %v", err)
		panic(http.ErrAbortHandler)
	}
	return forwarded{got.Status, got.Header, got.Raw}
}

func (l *line) relay(w http.ResponseWriter, got forwarded) {
	for name, values := range got.header {
		w.Header()[name] = values
	}
	w.WriteHeader(got.status)
	_, _ = w.Write(got.body)
}

// reset closes the connection with a TCP reset.
func (l *line) reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		l.t.Errorf("take over the connection: %v", err)
		return
	}
	secured, ok := conn.(*tls.Conn)
	if !ok {
		l.t.Errorf("the connection is a %T", conn)
		return
	}
	plain := secured.NetConn().(*net.TCPConn)
	_ = plain.SetLinger(0)
	_ = plain.Close()
}

// answer sends an answer of the story's own.
func (l *line) answer(w http.ResponseWriter, with fault, key string) {
	body := strings.ReplaceAll(string(with.Body), "KEY", key)
	var text string
	if json.Unmarshal([]byte(body), &text) == nil {
		body = text
	} else {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	for name, value := range with.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(with.Status)
	fmt.Fprint(w, body)
}
