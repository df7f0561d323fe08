package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// reply is an HTTP response; dropped, if there was none.
type reply struct {
	code    int
	text    string
	dropped bool
}

// ask sends one request to a simulator, without a network.
func ask(s *Simulator, method, target, body string) reply {
	request := httptest.NewRequest(method, target, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	return serve(s, request)
}

func serve(s *Simulator, request *http.Request) (got reply) {
	defer func() {
		switch value := recover(); value {
		case nil:
		case http.ErrAbortHandler:
			got = reply{dropped: true}
		default:
			panic(value)
		}
	}()
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, request)
	return reply{code: recorder.Code, text: strings.TrimSpace(recorder.Body.String())}
}

func newSimulator(t testing.TB, config Config) *Simulator {
	t.Helper()
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return s
}

// start serves a simulator on its own port.
func start(t testing.TB, config Config) (*Simulator, string) {
	t.Helper()
	s := newSimulator(t, config)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		_ = s.Shutdown(context.Background())
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, "http://" + listener.Addr().String()
}

func orderFor(reference, mobile, component string) string {
	return fmt.Sprintf(`{"reference":%q,"subscriber_id":"100234","mobile":%q,"component":%q,"months":1,`+
		`"start_date":"2027-03-01","expires_at":"2027-03-31T12:00:00+05:30"}`, reference, mobile, component)
}

func renew(s *Simulator, reference, mobile string) reply {
	return ask(s, "POST", "/v1/renew", orderFor(reference, mobile, "TV-BASIC"))
}

func (r reply) check(t testing.TB, code int, parts ...string) {
	t.Helper()
	if r.dropped || r.code != code {
		t.Errorf("got %+v; want HTTP %d", r, code)
	}
	for _, part := range parts {
		if !strings.Contains(r.text, part) {
			t.Errorf("got %s; want %s in it", r.text, part)
		}
	}
}

// listed reads the calls over the control API.
func listed(t testing.TB, s *Simulator, query string) []map[string]any {
	t.Helper()
	got := ask(s, "GET", "/control/calls"+query, "")
	got.check(t, 200)
	calls := []map[string]any{}
	if err := json.Unmarshal([]byte(got.text), &calls); err != nil {
		t.Fatalf("%s: %v", got.text, err)
	}
	return calls
}
