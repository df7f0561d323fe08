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

// steady is a client with one connection, which it keeps.
type steady struct {
	t    *testing.T
	http *http.Client
}

func newSteady(t *testing.T, w *e2e.Env, jar http.CookieJar) steady {
	transport := w.HTTP.Transport.(e2e.RetryUnread).Transport.Clone()
	transport.MaxConnsPerHost, transport.IdleConnTimeout = 1, 0
	t.Cleanup(transport.CloseIdleConnections)
	return steady{t, &http.Client{Transport: transport, Jar: jar}}
}

// ask sends a request and reports whether it went over the connection of the one before.
func (s steady) ask(request *http.Request) (reused bool) {
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

// As many connections as the service takes, from many networks, that say nothing: others
// are let in, and connections that have authenticated stay.
func TestConnections_IdleOnesBlockNoOne(t *testing.T) {
	t.Parallel()
	const most = 16
	w := e2e.NewEnv(t, fmt.Sprintf("server.max_connections=%d", most))
	panel := w.SignIn(t, w.Demo.Operator)
	balance := func() *http.Request { return w.Request(e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}) }
	home := func() *http.Request {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL("/panel/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return request
	}
	program, person := newSteady(t, w, nil), newSteady(t, w, panel.HTTP.Jar)
	program.ask(balance())
	person.ask(home())
	w.HTTP.CloseIdleConnections()

	listeners := []string{strings.TrimPrefix(w.URL(""), "https://"), strings.TrimPrefix(w.Demo.PlainURL, "http://")}
	for i := range 2 * most {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+i%8), byte(1+i%3))}}
		silent, err := dialer.DialContext(t.Context(), "tcp", listeners[i%2])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { silent.Close() })
	}
	w.WaitUntil("silent connections take all the room", func() bool { return w.Metric("coax_http_connections") >= most })

	newSteady(t, w, nil).ask(balance())
	newSteady(t, w, panel.HTTP.Jar).ask(home())
	if !program.ask(balance()) || !person.ask(home()) {
		t.Error("a connection that had authenticated was closed")
	}
	if got := w.Metric(`coax_http_connections_dropped_total{reason="total",state="waiting"}`); got < most {
		t.Errorf("%v silent connections are counted as dropped; want %d at least", got, most)
	}
}
