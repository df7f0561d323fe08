package certify

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/certify/line"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/signing"
)

// exchange is a request of the program and what it was answered.
type exchange struct {
	line.Request
	order    int // index of the order; -1 if it belongs to none
	life     int // which start of the program sent it
	came     time.Time
	ended    time.Time
	raw      []byte // as it arrived
	answer   line.Answer
	code     string // of the answer, if it is the service's
	state    string // of the operation in the answer
	result   string // its result_code
	reason   string // its reason
	did      string
	verified bool // the signature is right
	reused   bool // the nonce was used before
	resent   bool // the same bytes as before, when a connection broke that had been used before
	kept     bool // not the first request on its connection
}

// final reports whether the answer ends the order: a further request could change nothing.
func (e *exchange) final() bool {
	switch e.code {
	case "", "TIMESTAMP_EXPIRED", "REPLAY_DETECTED", "OPERATION_IN_PROGRESS", "REQUEST_IN_PROGRESS", "RATE_LIMITED", "TOO_MANY_FAILED_ATTEMPTS", "PENDING_REVIEW":
		return false
	case "OK":
		return e.state == "success" || e.state == "failed"
	case "PROVIDER_ERROR":
		return true
	}
	return e.Method == http.MethodPost && e.answer.Status >= 400 && e.answer.Status < 500
}

// proxy is the address that the program calls in one story.
type proxy struct {
	session *session
	server  *http.Server
	url     string

	mu        sync.Mutex
	exchanges []*exchange
	next      map[[2]int]int // steps taken, by order and by whether they are for a poll
	nonces    map[string]bool
	window    time.Time // of the rate limit
	used      int
	err       error // of the story or the service, not of the program
}

// recorder keeps the bytes that a connection delivers.
type recorder struct {
	net.Conn
	mu    sync.Mutex
	text  []byte
	taken bool
}

func (c *recorder) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	c.text = append(c.text, p[:n]...)
	c.mu.Unlock()
	return n, err
}

// take returns what was read since the last call, and whether there was one.
func (c *recorder) take() (text []byte, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, again = c.text, c.taken
	c.text, c.taken = nil, true
	return text, again
}

// NetConn returns the connection below.
func (c *recorder) NetConn() net.Conn { return c.Conn }

// recording is a TLS listener whose connections are recorders.
type recording struct {
	net.Listener
	config *tls.Config
}

func (l recording) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &recorder{Conn: tls.Server(conn, l.config)}, nil
}

type recorderKey struct{}

// listen serves a handler over TLS on a free port and returns its address.
func listen(handler http.Handler, certificate tls.Certificate) (*http.Server, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, recorderKey{}, c) },
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	go func() { _ = server.Serve(recording{listener, config}) }()
	return server, "https://" + listener.Addr().String(), nil
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	came := time.Now()
	got, err := line.Read(r)
	if err != nil {
		panic(http.ErrAbortHandler) // the program ended in the middle of its request
	}
	raw, kept := r.Context().Value(recorderKey{}).(*recorder).take()
	e := &exchange{Request: got, came: came, raw: raw, kept: kept}
	p.identify(e)
	does := p.step(e)
	e.did = does.Do
	switch does.Do {
	case maintenance:
		if does.Fault, err = p.inMaintenance(e); err != nil {
			p.fail(err)
		}
	case redirect:
		does.Fault = line.Fault{Do: line.Replace, Status: does.Status, Headers: map[string]string{"Location": p.session.trapURL + r.URL.RequestURI()}, Body: json.RawMessage(`""`)}
	}
	answer, err := line.Treat(w, r, got, does.Fault, func() (line.Answer, error) { return p.forward(e) })
	if err != nil {
		p.fail(err)
	}
	p.finish(e, answer)
	if answer.Status != 0 {
		_ = http.NewResponseController(w).Flush()
	}
	// The program may have closed its connection by now.
	if err := p.session.then(context.WithoutCancel(r.Context()), does.Then); err != nil {
		p.fail(err)
	}
	if answer.Status == 0 {
		panic(http.ErrAbortHandler)
	}
}

func (p *proxy) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// identify finds out which order a request is for, checks how it is signed, and records it.
func (p *proxy) identify(e *exchange) {
	e.order, e.life = p.session.orderOf(e.Request)
	nonce := e.Header.Get("X-Nonce")
	e.verified = p.signed(e.Request).Verify(p.session.account.secretOf(e.Header.Get("X-API-Key")), e.Header.Get("X-Signature"))
	p.mu.Lock()
	defer p.mu.Unlock()
	e.reused = p.nonces[nonce] && nonce != ""
	p.nonces[nonce] = true
	for _, before := range p.exchanges {
		e.resent = e.resent || e.reused && before.kept && before.answer.Status == 0 && bytes.Equal(before.raw, e.raw)
	}
	p.exchanges = append(p.exchanges, e)
}

func (p *proxy) signed(r line.Request) signing.Request {
	path, query, _ := strings.Cut(r.Target, "?")
	return signing.Request{
		Method: r.Method, Path: path, RawQuery: query, Body: r.Body,
		Timestamp: r.Header.Get("X-Timestamp"), Nonce: r.Header.Get("X-Nonce"),
	}
}

func (p *proxy) finish(e *exchange, answer line.Answer) {
	var envelope struct {
		Code string          `json:"code"`
		Data json.RawMessage `json:"data"`
	}
	var operation struct {
		Status string `json:"status"`
		Result string `json:"result_code"`
		Reason string `json:"reason"`
		ID     string `json:"transaction_id"`
		Key    string `json:"idempotency_key"`
	}
	if json.Unmarshal(answer.Body, &envelope) == nil {
		_ = json.Unmarshal(envelope.Data, &operation)
	}
	if operation.Key != "" && operation.Key != e.OperationKey() && e.OperationKey() != "" {
		envelope.Code, operation.Status = "", "" // a proxy's, about another order
	}
	p.session.learn(operation.ID, e.order)
	p.mu.Lock()
	defer p.mu.Unlock()
	e.answer, e.code, e.state, e.result, e.reason, e.ended = answer, envelope.Code, operation.Status, operation.Result, operation.Reason, time.Now()
}

// step returns what happens to a request: what the story says, the limit of its rate, or
// nothing special.
func (p *proxy) step(e *exchange) step {
	p.mu.Lock()
	defer p.mu.Unlock()
	story := p.session.story
	if limit := story.RateLimit; limit != nil {
		if passed := e.came.Sub(p.window).Seconds(); passed >= limit.Seconds {
			p.window, p.used = e.came, 0
		}
		p.used++
		if p.used > limit.Requests {
			left := limit.Seconds - e.came.Sub(p.window).Seconds()
			return step{Fault: line.Fault{
				Do: line.Replace, Status: http.StatusTooManyRequests, Code: "RATE_LIMITED",
				Headers: map[string]string{"Retry-After": strconv.Itoa(int(left) + 1)},
			}}
		}
	}
	forward := step{Fault: line.Fault{Do: line.Forward}}
	if e.order < 0 {
		return forward
	}
	steps, kind := story.Line, 0
	if e.Method != http.MethodPost {
		steps, kind = story.Polls, 1
	}
	at := [2]int{e.order, kind}
	taken := p.next[at]
	p.next[at]++
	if taken >= len(steps) {
		return forward
	}
	return steps[taken]
}

// inMaintenance returns what the service does with a request in maintenance mode.
func (p *proxy) inMaintenance(e *exchange) (line.Fault, error) {
	if e.Method != http.MethodPost {
		return line.Fault{Do: line.Forward}, nil
	}
	if e.order >= 0 && e.Key == p.session.orders[e.order].key {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		if known, err := p.session.account.settled(now, e.Key); known != nil || err != nil {
			return line.Fault{Do: line.Forward}, err
		}
	}
	return line.Fault{
		Do: line.Replace, Status: http.StatusServiceUnavailable, Code: "SERVICE_UNAVAILABLE", Message: operation.MaintenanceMessage,
	}, nil
}

// forward takes a request to the service. If the story's clock is off, the request is checked
// against that clock and signed again for the service's own.
func (p *proxy) forward(e *exchange) (line.Answer, error) {
	offset := p.session.story.Clock
	if offset == 0 || !e.verified {
		return p.session.service.forward(e.Request)
	}
	now := time.Now()
	theirs := now.Add(time.Duration(offset * float64(time.Second))).Unix()
	sent, err := strconv.ParseInt(e.Header.Get("X-Timestamp"), 10, 64)
	if err != nil || sent < theirs-300 || sent > theirs+300 {
		data, _ := json.Marshal(map[string]int64{"server_time": theirs})
		return line.Envelope(http.StatusUnauthorized, "TIMESTAMP_EXPIRED", "", data), nil
	}
	again := e.Request
	again.Header = e.Header.Clone()
	again.Header.Set("X-Timestamp", strconv.FormatInt(now.Unix(), 10))
	again.Header.Set("X-Signature", p.signed(again).Sign(p.session.account.secretOf(e.Header.Get("X-API-Key"))))
	return p.session.service.forward(again)
}

// seen returns copies of the exchanges so far, and what went wrong with the story or the
// service.
func (p *proxy) seen() ([]exchange, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []exchange
	for _, e := range p.exchanges {
		all = append(all, *e)
	}
	return all, p.err
}

// trap is the address of a redirect. Nobody may send it anything.
type trap struct {
	mu       sync.Mutex
	requests []string
}

func (t *trap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	t.requests = append(t.requests, fmt.Sprintf("%s %s", r.Method, r.URL.Path))
	t.mu.Unlock()
	w.WriteHeader(http.StatusNotFound)
}

func (t *trap) seen() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.requests...)
}
