package generator

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serviceWith is a server over TLS that answers as a handler says.
func serviceWith(t *testing.T, handler http.HandlerFunc) Target {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return Target{Addr: server.Listener.Addr().String(), TLS: &tls.Config{RootCAs: roots, ServerName: "example.com"}}
}

func accounts(n int) []*Account {
	var all []*Account
	for i := range n {
		account := NewAccount(int64(i+1), fmt.Sprintf("cxk_%d", i), fmt.Sprintf("cxs_%d", i))
		for s := range 1000 {
			account.Subscribers = append(account.Subscribers, fmt.Sprintf("%d-%d", i, s))
		}
		all = append(all, account)
	}
	return all
}

func envelope(w http.ResponseWriter, status int, id, code, data string) {
	w.Header().Set("X-Request-Id", id)
	body := fmt.Sprintf(`{"success":true,"request_id":%q,"code":%q,"message":"","data":{%s}}`, id, code, data)
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func TestLoad_CountsAnswers(t *testing.T) {
	var served, begun, ended atomic.Uint64
	var activated sync.Map
	handler := func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		body, _ := io.ReadAll(r.Body)
		subscriber, _, _ := strings.Cut(strings.TrimPrefix(string(body), `{"subscriber_id":"`), `"`)
		switch r.URL.Path {
		case "/api/v1/subscription":
			subscriber = r.URL.Query().Get("subscriber_id")
		case "/api/v1/activate":
			mobile, _, _ := strings.Cut(strings.TrimPrefix(string(body), `{"full_name":"Bench","mobile":"`), `"`)
			if _, again := activated.LoadOrStore(mobile, true); again {
				mobile = "again"
			}
			envelope(w, 200, "req_1", "OK", `"customer":{"mobile":"`+mobile+`"}`)
			return
		}
		envelope(w, 200, "req_1", "OK", `"transaction_id":"CX`+subscriber+`","customer":{"subscriber_id":"`+subscriber+`"}`)
	}
	target := serviceWith(t, handler)
	for name, load := range map[string]Load{
		"reads":                     {},
		"plans":                     {Lookup: "plans"},
		"subscriptions":             {Lookup: "subscription"},
		"activations":               {Plans: []string{"A", "B"}, Activate: true},
		"renewals":                  {Plans: []string{"A", "B"}},
		"renewals, open loop":       {Plans: []string{"A", "B"}, Rate: 200},
		"reads, over two addresses": {Targets: []Target{target, serviceWith(t, handler)}},
	} {
		served.Store(0)
		if load.Targets == nil {
			load.Targets = []Target{target}
		}
		load.Accounts, load.Clients, load.Duration, load.Mark = accounts(8), 4, 100*time.Millisecond, "test"
		load.Begin, load.End = func() { begun.Add(1) }, func() { ended.Add(1) }
		result, err := load.Run(t.Context())
		if err != nil || len(result.Problems) > 0 {
			t.Fatalf("%s: %v, %v", name, err, result.Problems)
		}
		if got := result.Answers[okay]; got == 0 || got != served.Load() || result.Tally.Done != got || result.Requests != got {
			t.Errorf("%s: %+v; the service served %d", name, result, served.Load())
		}
		if load.Rate > 0 && result.Requests != 20 {
			t.Errorf("%s: %d requests; want the 20 that were due", name, result.Requests)
		}
	}
	if begun.Load() != 7 || ended.Load() != 7 {
		t.Errorf("measuring began %d times and ended %d times; want 7 of each", begun.Load(), ended.Load())
	}
}

// Transactions that were made by a load of renewals can be looked up by the next load.
func TestLoad_LooksUpTransactions(t *testing.T) {
	var made sync.Map
	target := serviceWith(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id := r.URL.Query().Get("transaction_id")
		if _, is := made.Load(id); r.Method == http.MethodGet && !is {
			t.Errorf("%q was looked up, which no renewal made", id)
		}
		subscriber, _, _ := strings.Cut(strings.TrimPrefix(string(body), `{"subscriber_id":"`), `"`)
		if r.Method == http.MethodPost {
			id = "CX-" + subscriber
			made.Store(id, true)
		}
		envelope(w, 200, "req_1", "OK", `"transaction_id":"`+id+`","customer":{"subscriber_id":"`+subscriber+`"}`)
	})
	all := accounts(2)
	run := func(of Load) Result {
		of.Targets, of.Accounts, of.Clients, of.Duration, of.Mark = []Target{target}, all, 2, 50*time.Millisecond, "test"
		result, err := of.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if before := run(Load{Lookup: "transaction"}); len(before.Problems) != 1 || before.Problems[0] != nothingToLookUp {
		t.Errorf("before any renewal: %q; want the problem that there are none", before.Problems)
	}
	if got := run(Load{Plans: []string{"A"}}); len(got.Problems) > 0 {
		t.Fatal(got.Problems)
	}
	if got := run(Load{Lookup: "transaction"}); len(got.Problems) > 0 || got.Answers[okay] == 0 {
		t.Errorf("%+v; want answers", got)
	}
}

func TestLoad_RequiresUnknownOutcomes(t *testing.T) {
	run := func(status int, code string) Result {
		target := serviceWith(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			envelope(w, status, "req_1", code, "")
		})
		load := Load{
			Targets: []Target{target}, Accounts: accounts(2), Plans: []string{"A"}, UnknownOutcome: true,
			Clients: 2, Rate: 100, Burst: 50 * time.Millisecond, Duration: 100 * time.Millisecond, Mark: "test",
		}
		result, err := load.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if got := run(202, "PENDING_REVIEW"); len(got.Problems) > 0 || got.Tally.Pending != 10 {
		t.Errorf("%+v; want 10 that are pending, and no problem", got)
	}
	if got := run(402, "INSUFFICIENT_BALANCE"); len(got.Problems) != 1 {
		t.Errorf("%+v; want it noticed that nothing is unknown", got)
	}
}

func TestLoad_ReportsWrongAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"another code": {func(w http.ResponseWriter, _ *http.Request) { envelope(w, 402, "req_1", "INSUFFICIENT_BALANCE", "") }, "402 INSUFFICIENT_BALANCE"},
		"still open":   {func(w http.ResponseWriter, _ *http.Request) { envelope(w, 202, "req_1", "PENDING_REVIEW", "") }, "202 PENDING_REVIEW"},
		"about another subscriber": {func(w http.ResponseWriter, _ *http.Request) {
			envelope(w, 200, "req_1", "OK", `"subscriber_id":"nobody"`)
		}, "about another subscriber"},
		"without a request id": {func(w http.ResponseWriter, _ *http.Request) { envelope(w, 200, "", "OK", "") }, `to ""`},
		"an old answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Idempotent-Replayed", "true")
			envelope(w, 200, "req_1", "OK", "")
		}, "REPLAYED"},
		"another's request id": {func(w http.ResponseWriter, _ *http.Request) {
			body := `{"success":true,"request_id":"req_2","code":"OK"}`
			w.Header().Set("X-Request-Id", "req_1")
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = io.WriteString(w, body)
		}, `to "req_2" in its body`},
		"no envelope": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", 500) }, "has no"},
		"no length": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{}")
			w.(http.Flusher).Flush()
		}, "transfer encoding"},
		"cut off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "connection cut"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			load := Load{
				Targets: []Target{serviceWith(t, test.handler)}, Accounts: accounts(2), Plans: []string{"A"}, Clients: 2,
				Duration: 500 * time.Millisecond, Mark: "test",
			}
			result, err := load.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if problems := strings.Join(result.Problems, "; "); !strings.Contains(problems, test.want) || result.Answers[okay] > 0 {
				t.Errorf("%v, and found %q; want no 200 OK, and something with %q", result.Answers, problems, test.want)
			}
		})
	}
}

func TestLoad_EndsWithoutServer(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	address := server.Listener.Addr().String()
	server.Close()
	_, err := Load{Targets: []Target{{Addr: address}}, Accounts: accounts(1), Clients: 1, Duration: time.Hour}.Run(t.Context())
	if err == nil {
		t.Error("a load of nobody succeeded")
	}
}

func TestReadHead(t *testing.T) {
	for _, test := range []struct {
		name, head string
		status     int
		length     int
		last       bool
		problem    string
	}{
		{"as the service writes it", "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX-Request-Id: req_1", 200, 12, false, ""},
		{"in other letters", "HTTP/1.1 503 Service Unavailable\r\nx-request-ID:req_1\r\nCONTENT-LENGTH:   0", 503, 0, false, ""},
		{"the last one", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1", 200, 1, true, ""},
		{"without a length", "HTTP/1.1 200 OK\r\nX-Request-Id: req_1", 0, 0, false, "no length"},
		{"with a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1", 0, 0, false, "length is"},
		{"in pieces", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", 0, 0, false, "chunked"},
		{"of another time", "HTTP/1.0 200 OK\r\nContent-Length: 1", 0, 0, false, "HTTP/1.0"},
		{"no HTTP at all", "SSH-2.0", 0, 0, false, "SSH"},
	} {
		a, length, err := readHead([]byte(test.head))
		switch {
		case test.problem != "":
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s: %v; want a problem with %q", test.name, err, test.problem)
			}
		case err != nil || a.status != test.status || length != test.length || a.last != test.last:
			t.Errorf("%s: %d, %d bytes, last %v (%v); want %d, %d, %v", test.name, a.status, length, a.last, err, test.status, test.length, test.last)
		}
	}
}
