package providertest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// server is a fake provider: it reads requests from raw connections and answers
// each with the bytes that a test chooses. It carries out an order every time it
// arrives, so that tests see an order sent twice.
type server struct {
	listener net.Listener
	// answer handles one request; it may leave the connection open for the next.
	answer func(*exchange)

	mu       sync.Mutex
	effects  map[string]int
	requests int
	open     map[net.Conn]bool
	closed   bool
	running  sync.WaitGroup
}

// exchange is one request as it was received.
type exchange struct {
	net.Conn
	request *http.Request
	body    []byte
	// reused: the connection has carried a request before.
	reused bool
	// over: the connection is not read again.
	over bool
}

// serve starts a server; encrypt may be nil.
func serve(t testing.TB, encrypt *tls.Config, answer func(*exchange)) *server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{listener: listener, answer: answer, effects: map[string]int{}, open: map[net.Conn]bool{}}
	s.running.Go(func() { s.accept(encrypt, s.serveConn) })
	t.Cleanup(s.stop)
	return s
}

// serveRaw starts a server that passes on raw connections and reads nothing.
func serveRaw(t testing.TB, handle func(net.Conn)) *server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{listener: listener, effects: map[string]int{}, open: map[net.Conn]bool{}}
	s.running.Go(func() { s.accept(nil, handle) })
	t.Cleanup(s.stop)
	return s
}

func (s *server) accept(encrypt *tls.Config, handle func(net.Conn)) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		if !s.track(conn, true) {
			_ = conn.Close()
			return
		}
		s.running.Go(func() {
			defer s.track(conn, false)
			defer conn.Close()
			if encrypt == nil {
				handle(conn)
				return
			}
			handle(tls.Server(conn, encrypt))
		})
	}
}

func (s *server) track(conn net.Conn, open bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open && !s.closed {
		s.open[conn] = true
	} else {
		delete(s.open, conn)
	}
	return !s.closed
}

func (s *server) stop() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// serveConn handles the requests of one connection in turn.
func (s *server) serveConn(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for reused := false; ; reused = true {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		x := &exchange{Conn: conn, request: request, body: body, reused: reused}
		s.carryOut(x)
		s.answer(x)
		if x.over {
			return
		}
	}
}

// referenceIn returns the reference in a request.
func referenceIn(x *exchange) string {
	if x.request.Method == http.MethodGet {
		return x.request.URL.Query().Get("reference")
	}
	var order struct {
		Reference string `json:"reference"`
	}
	_ = json.Unmarshal(x.body, &order)
	return order.Reference
}

// carryOut counts an order's effect, even if it was carried out before.
func (s *server) carryOut(x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if x.request.Method == http.MethodPost && !strings.HasSuffix(x.request.URL.Path, "/void") {
		s.effects[referenceIn(x)]++
	}
}

func (s *server) counts(reference string) (effects, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects[reference], s.requests
}

// await polls until a reference was carried out this many times: a request may
// arrive after its client has timed out.
func (s *server) await(t testing.TB, reference string, times int) {
	t.Helper()
	for deadline := time.After(longTimeout); ; {
		if effects, _ := s.counts(reference); effects >= times {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s was not carried out %d times", reference, times)
		case <-time.After(100 * time.Microsecond):
		}
	}
}

func (s *server) address() string { return s.listener.Addr().String() }

// hangUp closes the connection.
func (x *exchange) hangUp() {
	x.over = true
	_ = x.Conn.Close()
}

// reset ends the connection with a TCP reset.
func (x *exchange) reset() {
	x.over = true
	reset(x.Conn)
}

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// wait sends nothing until the client closes the connection.
func (x *exchange) wait() {
	x.over = true
	_, _ = io.Copy(io.Discard, x.Conn)
}

// send writes raw bytes. The client may have closed the connection.
func (x *exchange) send(raw string) { _, _ = io.WriteString(x.Conn, raw) }

// response is an HTTP response that tests can change.
type response struct {
	status  string // "200 OK"
	headers []string
	body    string
}

func good(body string) response {
	return response{status: "200 OK", headers: []string{"Content-Type: application/json"}, body: body}
}

func (r response) with(headers ...string) response {
	r.headers = headers
	return r
}

func (r response) as(status string) response {
	r.status = status
	return r
}

// bytes returns the response with a Content-Length.
func (r response) bytes() string {
	return r.head(fmt.Sprintf("Content-Length: %d", len(r.body))) + r.body
}

// chunked returns the response with its body in three chunks.
func (r response) chunked() string {
	var text bytes.Buffer
	text.WriteString(r.head("Transfer-Encoding: chunked"))
	third := len(r.body) / 3
	for _, part := range []string{r.body[:third], r.body[third : 2*third], r.body[2*third:]} {
		fmt.Fprintf(&text, "%x\r\n%s\r\n", len(part), part)
	}
	text.WriteString("0\r\n\r\n")
	return text.String()
}

// endless returns the response without a length: it ends with the connection.
func (r response) endless() string { return r.head("Connection: close") + r.body }

func (r response) head(more string) string {
	return "HTTP/1.1 " + r.status + "\r\n" + strings.Join(append(r.headers[:len(r.headers):len(r.headers)], more), "\r\n") + "\r\n\r\n"
}

// field is a name and its value in JSON.
type field struct{ name, value string }

// fields is a JSON object as an ordered list, so that names can be repeated.
type fields []field

// appliedTo returns the reply that confirms an order.
func appliedTo(order operation.Order) fields {
	return fields{
		{"reference", quote(order.Reference)},
		{"status", `"applied"`},
		{"subscriber_id", quote(order.SubscriberID)},
		{"mobile", quote(order.Mobile)},
		{"component", quote(order.Component)},
		{"transaction_id", `"PV-7781"`},
	}
}

// rejects returns the reply that rejects an order.
func rejects(order operation.Order) fields {
	return fields{
		{"reference", quote(order.Reference)},
		{"status", `"rejected"`},
		{"message", `"No such line."`},
	}
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

// set replaces a field, or adds it.
func (f fields) set(name, value string) fields {
	changed := f.without(name)
	return append(changed, field{name, value})
}

func (f fields) without(name string) fields {
	var changed fields
	for _, has := range f {
		if has.name != name {
			changed = append(changed, has)
		}
	}
	return changed
}

// and adds a field, even if the name exists.
func (f fields) and(name, value string) fields {
	return append(f[:len(f):len(f)], field{name, value})
}

func (f fields) String() string {
	var members []string
	for _, has := range f {
		members = append(members, quote(has.name)+":"+has.value)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// leaks reports whether a text contains the password, quoted or not.
func leaks(text string) bool { return strings.Contains(text, "s3cret") }
