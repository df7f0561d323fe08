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

// badLine is a proxy between a client and a service that spoils what passes: it
// loses requests and answers, holds them up, delivers them twice, cuts them in
// the middle and answers in the service's place. What it does is drawn from a
// seed; when it happens to whom is up to the machine.
type badLine struct {
	t      testing.TB
	world  *e2e.Env
	server *httptest.Server
	target *url.URL
	late   sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	clean  bool
	did    map[string]int
}

// fate is what happens to one request. It is given the request's bytes and how
// to answer it.
type fate struct {
	name  string
	share int // of all requests, together with the others' shares
	act   func(l *badLine, request heldRequest, w http.ResponseWriter)
}

// heldRequest is a request that the proxy has read whole.
type heldRequest struct {
	method, target string
	header         http.Header
	body           []byte
}

var fates = []fate{
	{"passed on", 40, func(l *badLine, r heldRequest, w http.ResponseWriter) { l.answer(w, l.deliver(r)) }},
	{"request lost", 8, func(*badLine, heldRequest, http.ResponseWriter) { panic(http.ErrAbortHandler) }},
	{"answer lost", 10, func(l *badLine, r heldRequest, _ http.ResponseWriter) {
		l.deliver(r)
		panic(http.ErrAbortHandler)
	}},
	{"answer cut", 8, func(l *badLine, r heldRequest, w http.ResponseWriter) {
		got := l.deliver(r)
		w.Header().Set("Content-Length", fmt.Sprint(len(got.Raw)))
		w.WriteHeader(got.Status)
		_, _ = w.Write(got.Raw[:l.draw(len(got.Raw)+1)])
		panic(http.ErrAbortHandler)
	}},
	{"request cut", 6, func(l *badLine, r heldRequest, _ http.ResponseWriter) {
		l.deliverCut(r)
		panic(http.ErrAbortHandler)
	}},
	{"held up", 6, func(l *badLine, r heldRequest, w http.ResponseWriter) {
		time.Sleep(l.holdUp()) // which is what this line does to people
		l.answer(w, l.deliver(r))
	}},
	{"delivered after the client gave up", 8, func(l *badLine, r heldRequest, _ http.ResponseWriter) {
		l.late.Go(func() {
			time.Sleep(l.holdUp())
			l.deliver(r)
		})
		panic(http.ErrAbortHandler)
	}},
	{"delivered twice, first answer", 5, func(l *badLine, r heldRequest, w http.ResponseWriter) {
		got := l.deliver(r)
		l.deliver(r)
		l.answer(w, got)
	}},
	{"delivered twice, second answer", 5, func(l *badLine, r heldRequest, w http.ResponseWriter) {
		l.deliver(r)
		l.answer(w, l.deliver(r))
	}},
	{"delivered twice at once", 4, func(l *badLine, r heldRequest, w http.ResponseWriter) {
		l.late.Go(func() { l.deliver(r) })
		l.answer(w, l.deliver(r))
	}},
	{"bad gateway, delivered", 4, func(l *badLine, r heldRequest, w http.ResponseWriter) {
		l.deliver(r)
		http.Error(w, "<html><h1>502 Bad Gateway</h1></html>", http.StatusBadGateway)
	}},
	{"gateway timeout, not delivered", 4, func(_ *badLine, _ heldRequest, w http.ResponseWriter) {
		http.Error(w, "<html><h1>504 Gateway Time-out</h1></html>", http.StatusGatewayTimeout)
	}},
}

func newBadLine(t testing.TB, w *e2e.Env, seed uint64) *badLine {
	target, err := url.Parse(w.Demo.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	l := &badLine{t: t, world: w, target: target, random: rand.New(rand.NewPCG(seed, 0)), did: map[string]int{}}
	l.server = httptest.NewTLSServer(l)
	t.Cleanup(func() {
		l.server.Close()
		l.late.Wait()
	})
	return l
}

// client is an HTTP client that comes through this line.
func (l *badLine) client() *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(l.server.Certificate())
	return &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 16},
	}
}

// repair makes the line carry everything as it is from now on.
func (l *badLine) repair() {
	l.late.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clean = true
}

func (l *badLine) draw(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(n)
}

func (l *badLine) holdUp() time.Duration { return time.Duration(1+l.draw(40)) * time.Millisecond }

func (l *badLine) choose() fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clean {
		return fates[0]
	}
	all := 0
	for _, f := range fates {
		all += f.share
	}
	drawn := l.random.IntN(all)
	for _, f := range fates {
		if drawn -= f.share; drawn < 0 {
			l.did[f.name]++
			return f
		}
	}
	panic("the shares do not add up")
}

func (l *badLine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	l.choose().act(l, heldRequest{method: r.Method, target: r.URL.RequestURI(), header: r.Header.Clone(), body: body}, w)
}

// deliver sends a request on and reads the answer. That must work: this side of
// the line is good.
func (l *badLine) deliver(r heldRequest) e2e.Answer {
	request, err := http.NewRequest(r.method, l.target.Scheme+"://"+l.target.Host+r.target, bytes.NewReader(r.body))
	if err != nil {
		l.t.Error(err)
		panic(http.ErrAbortHandler)
	}
	request.Header = r.header.Clone()
	request.GetBody = nil
	response, err := l.world.HTTP.Do(request)
	if err != nil {
		l.t.Errorf("the service did not answer: %v", err)
		panic(http.ErrAbortHandler)
	}
	got, err := l.world.Receive(request, r.target, response)
	if err != nil {
		l.t.Errorf("the service did not answer whole: %v", err)
		panic(http.ErrAbortHandler)
	}
	return got
}

// deliverCut sends the head of a request and a part of its body, and hangs up.
func (l *badLine) deliverCut(r heldRequest) {
	conn, err := tls.Dial("tcp", l.target.Host, l.world.HTTP.Transport.(e2e.RetryUnread).TLSClientConfig)
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

// answer passes an answer on as it came.
func (l *badLine) answer(w http.ResponseWriter, got e2e.Answer) {
	for name, values := range got.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(got.Status)
	_, _ = w.Write(got.Raw)
}
