package pages

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// keepAliveClient is a client that uses one connection.
type keepAliveClient struct {
	t    *testing.T
	http *http.Client
}

func newKeepAliveClient(t *testing.T, w *e2e.Env, jar http.CookieJar) keepAliveClient {
	transport := w.HTTP.Transport.(e2e.RetryUnread).Transport.Clone()
	transport.MaxConnsPerHost, transport.IdleConnTimeout = 1, 0
	t.Cleanup(transport.CloseIdleConnections)
	return keepAliveClient{t, &http.Client{Transport: transport, Jar: jar}}
}

// ask sends a request and reports whether it reused the connection.
func (s keepAliveClient) ask(request *http.Request) (reused bool) {
	s.t.Helper()
	request = request.WithContext(httptrace.WithClientTrace(s.t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
	}))
	response, err := s.http.Do(request)
	if err != nil {
		s.t.Fatalf("%s: %v", request.URL.Path, err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %s (%v); want 200", request.URL.Path, response.StatusCode, text, err)
	}
	return reused
}

// Idle connections from many networks reach server.max_connections: new requests are still
// served, and authenticated connections stay open.
func TestConnections_IdleOnesBlockNoOne(t *testing.T) {
	t.Parallel()
	const limit = 16
	w := e2e.NewEnv(t, fmt.Sprintf("server.max_connections=%d", limit))
	panel := w.SignIn(t, w.Demo.Operator)
	balance := func() *http.Request { return w.Request(e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}) }
	home := func() *http.Request {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL("/panel/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return request
	}
	program, person := newKeepAliveClient(t, w, nil), newKeepAliveClient(t, w, panel.HTTP.Jar)
	program.ask(balance())
	person.ask(home())
	w.HTTP.CloseIdleConnections()

	listeners := []string{strings.TrimPrefix(w.URL(""), "https://"), strings.TrimPrefix(w.Demo.PlainURL, "http://")}
	for i := range 2 * limit {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+i%8), byte(1+i%3))}}
		idle, err := dialer.DialContext(t.Context(), "tcp", listeners[i%2])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { idle.Close() })
	}
	w.WaitUntil("idle connections reach the limit", func() bool { return w.Metric("coax_http_connections") >= limit })

	newKeepAliveClient(t, w, nil).ask(balance())
	newKeepAliveClient(t, w, panel.HTTP.Jar).ask(home())
	if !program.ask(balance()) || !person.ask(home()) {
		t.Error("a connection that had authenticated was closed")
	}
	if got := w.Metric(`coax_http_connections_dropped_total{reason="total",state="waiting"}`); got < limit {
		t.Errorf("%v idle connections are counted as dropped; want at least %d", got, limit)
	}
}
