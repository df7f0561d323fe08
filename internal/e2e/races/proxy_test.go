package races

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

// faultyProxy is a proxy between a client and the service that loses, delays, duplicates
// and truncates requests and answers, or answers itself. The faults are drawn from a seed;
// which request gets which depends on timing.
type faultyProxy struct {
	t      testing.TB
	env    *e2e.Env
	server *httptest.Server
	target *url.URL
	late   sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	clean  bool
	did    map[string]int
}

// proxyFault is what happens to one request.
type proxyFault struct {
	name  string
	share int // relative frequency
	act   func(l *faultyProxy, request heldRequest, w http.ResponseWriter)
}

// heldRequest is a request that the proxy has read completely.
type heldRequest struct {
	method, target string
	header         http.Header
	body           []byte
}

var proxyFaults = []proxyFault{
	{"passed on", 40, func(l *faultyProxy, r heldRequest, w http.ResponseWriter) { l.answer(w, l.deliver(r)) }},
	{"request lost", 8, func(*faultyProxy, heldRequest, http.ResponseWriter) { panic(http.ErrAbortHandler) }},
	{"answer lost", 10, func(l *faultyProxy, r heldRequest, _ http.ResponseWriter) {
		l.deliver(r)
		panic(http.ErrAbortHandler)
	}},
	{"answer cut", 8, func(l *faultyProxy, r heldRequest, w http.ResponseWriter) {
		got := l.deliver(r)
		w.Header().Set("Content-Length", fmt.Sprint(len(got.Raw)))
		w.WriteHeader(got.Status)
		_, _ = w.Write(got.Raw[:l.draw(len(got.Raw)+1)])
		panic(http.ErrAbortHandler)
	}},
	{"request cut", 6, func(l *faultyProxy, r heldRequest, _ http.ResponseWriter) {
		l.deliverCut(r)
		panic(http.ErrAbortHandler)
	}},
	{"held up", 6, func(l *faultyProxy, r heldRequest, w http.ResponseWriter) {
		time.Sleep(l.holdUp())
		l.answer(w, l.deliver(r))
	}},
	{"delivered after the client gave up", 8, func(l *faultyProxy, r heldRequest, _ http.ResponseWriter) {
		l.late.Go(func() {
			time.Sleep(l.holdUp())
			l.deliver(r)
		})
		panic(http.ErrAbortHandler)
	}},
	{"delivered twice, first answer", 5, func(l *faultyProxy, r heldRequest, w http.ResponseWriter) {
		got := l.deliver(r)
		l.deliver(r)
		l.answer(w, got)
	}},
	{"delivered twice, second answer", 5, func(l *faultyProxy, r heldRequest, w http.ResponseWriter) {
		l.deliver(r)
		l.answer(w, l.deliver(r))
	}},
	{"delivered twice at once", 4, func(l *faultyProxy, r heldRequest, w http.ResponseWriter) {
		l.late.Go(func() { l.deliver(r) })
		l.answer(w, l.deliver(r))
	}},
	{"bad gateway, delivered", 4, func(l *faultyProxy, r heldRequest, w http.ResponseWriter) {
		l.deliver(r)
		http.Error(w, "<html><h1>502 Bad Gateway</h1></html>", http.StatusBadGateway)
	}},
	{"gateway timeout, not delivered", 4, func(_ *faultyProxy, _ heldRequest, w http.ResponseWriter) {
		http.Error(w, "<html><h1>504 Gateway Time-out</h1></html>", http.StatusGatewayTimeout)
	}},
}

func newFaultyProxy(t testing.TB, w *e2e.Env, seed uint64) *faultyProxy {
	target, err := url.Parse(w.Demo.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	l := &faultyProxy{t: t, env: w, target: target, random: rand.New(rand.NewPCG(seed, 0)), did: map[string]int{}}
	l.server = httptest.NewTLSServer(l)
	t.Cleanup(func() {
		l.server.Close()
		l.late.Wait()
	})
	return l
}

// client returns an HTTP client that goes through the proxy.
func (l *faultyProxy) client() *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(l.server.Certificate())
	return &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 16},
	}
}

// repair makes the proxy pass everything on unchanged.
func (l *faultyProxy) repair() {
	l.late.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clean = true
}

func (l *faultyProxy) draw(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(n)
}

func (l *faultyProxy) holdUp() time.Duration { return time.Duration(1+l.draw(40)) * time.Millisecond }

func (l *faultyProxy) choose() proxyFault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clean {
		return proxyFaults[0]
	}
	all := 0
	for _, f := range proxyFaults {
		all += f.share
	}
	drawn := l.random.IntN(all)
	for _, f := range proxyFaults {
		if drawn -= f.share; drawn < 0 {
			l.did[f.name]++
			return f
		}
	}
	panic("the shares do not add up")
}

func (l *faultyProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	l.choose().act(l, heldRequest{method: r.Method, target: r.URL.RequestURI(), header: r.Header.Clone(), body: body}, w)
}

// deliver forwards a request and reads the answer. The connection to the service has no
// faults, so this must succeed.
func (l *faultyProxy) deliver(r heldRequest) e2e.Answer {
	request, err := http.NewRequest(r.method, l.target.Scheme+"://"+l.target.Host+r.target, bytes.NewReader(r.body))
	if err != nil {
		l.t.Error(err)
		panic(http.ErrAbortHandler)
	}
	request.Header = r.header.Clone()
	request.GetBody = nil
	response, err := l.env.HTTP.Do(request)
	if err != nil {
		l.t.Errorf("the service did not answer: %v", err)
		panic(http.ErrAbortHandler)
	}
	got, err := l.env.Receive(request, r.target, response)
	if err != nil {
		l.t.Errorf("the service's answer is incomplete: %v", err)
		panic(http.ErrAbortHandler)
	}
	return got
}

// deliverCut sends a part of a request and closes the connection.
func (l *faultyProxy) deliverCut(r heldRequest) {
	conn, err := tls.Dial("tcp", l.target.Host, l.env.HTTP.Transport.(e2e.RetryUnread).TLSClientConfig)
	if err != nil {
		l.t.Errorf("reach the service: %v", err)
		return
	}
	defer conn.Close()
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.method, r.target, l.target.Host)
	if len(r.body) > 0 {
		fmt.Fprintf(&text, "Content-Length: %d\r\n", len(r.body))
	}
	if err := r.header.WriteSubset(&text, map[string]bool{"Content-Length": true}); err != nil {
		l.t.Error(err)
	}
	text.WriteString("\r\n")
	text.Write(r.body)
	_, _ = conn.Write(text.Bytes()[:l.draw(text.Len())])
}

// answer forwards an answer unchanged.
func (l *faultyProxy) answer(w http.ResponseWriter, got e2e.Answer) {
	for name, values := range got.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(got.Status)
	_, _ = w.Write(got.Raw)
}
