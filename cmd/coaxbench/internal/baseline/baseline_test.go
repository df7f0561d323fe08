package baseline

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What pgbench 15 prints.
const pgbenchText = `pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 10
query mode: prepared
number of clients: 64
number of threads: 2
maximum number of tries: 1
duration: 5 s
number of transactions actually processed: 24680
number of failed transactions: 0 (0.000%)
latency average = 12.966 ms
initial connection time = 101.234 ms
tps = 4936.052000 (without initial connection time)
`

func TestPgbench_ParsesOutput(t *testing.T) {
	for name, text := range map[string]string{
		"version 15": pgbenchText,
		"version 13": strings.Replace(strings.Replace(pgbenchText, "number of failed transactions: 0 (0.000%)\n", "", 1),
			"(without initial connection time)", "(excluding connections establishing)", 1),
	} {
		got, err := parsePgBench(text)
		if want := (PgBenchRun{PerSecond: 4936.052, LatencyMS: 12.966, Transactions: 24680}); err != nil || got != want {
			t.Errorf("%s: %+v (%v); want %+v", name, got, err, want)
		}
	}
	none := strings.Split(pgbenchText, "latency average")[0]
	if got, err := parsePgBench(strings.Replace(none, "processed: 24680", "processed: 0", 1)); err != nil || got != (PgBenchRun{}) {
		t.Errorf("%+v (%v); want nothing, for nothing was done in time", got, err)
	}
	for name, text := range map[string]string{
		"nothing":             "",
		"an ending cut off":   none,
		"failed transactions": strings.Replace(pgbenchText, "failed transactions: 0 (0.000%)", "failed transactions: 17 (0.1%)", 1),
	} {
		if got, err := parsePgBench(text); err == nil {
			t.Errorf("%s is read as %+v; want an error", name, got)
		}
	}
}

func TestBareHandler_SameBytes(t *testing.T) {
	// A certificate that is good for example.com, from the standard library.
	template := httptest.NewTLSServer(nil)
	defer template.Close()
	example := Example{
		Header: map[string]string{"Content-Type": "application/json; charset=utf-8", "Content-Length": "13", "X-RateLimit-Limit": "60", "X-Request-Id": "req_1"},
		Body:   []byte(`{"code":"OK"}`),
	}
	server := BareHandler(example, template.TLS.Certificates[0])
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- ServeBare(server, listener) }()

	client := template.Client()
	client.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com"
	for range 2 {
		answer, err := client.Get("https://" + listener.Addr().String() + "/api/v1/balance")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(body) != string(example.Body) || answer.StatusCode != 200 || answer.ProtoMinor != 1 || answer.TLS.Version < tls.VersionTLS12 {
			t.Errorf("%s %q (%v); want 200 over TLS, with %s", answer.Status, body, err, example.Body)
		}
		for name, value := range example.Header {
			if got := answer.Header.Get(name); got != value {
				t.Errorf("%s is %q; want %q", name, got, value)
			}
		}
		// The date is every server's own; nothing else is.
		if len(answer.Header) != len(example.Header)+1 {
			t.Errorf("it has headers %v; want those of the example and a date", answer.Header)
		}
	}
	if err := server.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != http.ErrServerClosed {
		t.Errorf("it ended with %v", err)
	}
}
