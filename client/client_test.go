package client_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/signing"
)

const secret = "cxs_0000000000000000000000000000000000000000000000000000000000000000"

// The request that arrives is the signed one, byte for byte, with any path and
// query; and no two requests share a nonce.
func TestSend_SignsTheExactRequest(t *testing.T) {
	nonces := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		signed := signing.Request{
			Method: r.Method, Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery,
			Timestamp: r.Header.Get("X-Timestamp"), Nonce: r.Header.Get("X-Nonce"), Body: body,
		}
		if !signed.Verify(secret, r.Header.Get("X-Signature")) {
			t.Errorf("%s %s does not verify", r.Method, r.RequestURI)
		}
		if nonces[signed.Nonce] || len(signed.Nonce) < 16 {
			t.Errorf("nonce %q is short or used", signed.Nonce)
		}
		nonces[signed.Nonce] = true
		fmt.Fprintf(w, "%s %s %s", r.RequestURI, r.Header.Get("X-Timestamp"), r.Header.Get("Idempotency-Key"))
	}))
	defer server.Close()
	c, err := client.New(client.Config{
		BaseURL: server.URL + "/api/v1", Key: "cxk_00000000000000000000000000000000", Secret: secret,
		Now: func() time.Time { return time.Unix(1_800_000_000, 999) },
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct{ method, path, body, arrives string }{
		{"GET", "/api/v1/balance", "", "/api/v1/balance"},
		{"GET", "balance", "", "/api/v1/balance"},
		{"GET", "subscription?mobile=98+76%20&b=%zz&&a", "", "/api/v1/subscription?mobile=98+76%20&b=%zz&&a"},
		{"GET", "/api/v1/%62alance", "", "/api/v1/%62alance"},
		{"POST", "renew", `{ "plan_id" : "आ" }`, "/api/v1/renew"},
	}
	for _, row := range rows {
		response, err := c.Send(t.Context(), row.method, row.path, []byte(row.body), http.Header{"idempotency-key": {"order-4711"}})
		if err != nil {
			t.Errorf("%s: %v", row.path, err)
			continue
		}
		if got, want := string(response.Body), row.arrives+" 1800000000 order-4711"; got != want || response.Status != http.StatusOK {
			t.Errorf("%s arrived as %q; want %q", row.path, got, want)
		}
	}
	if len(nonces) != len(rows) {
		t.Errorf("%d requests arrived; want %d", len(nonces), len(rows))
	}
}

// The signed path begins at /api/v1/, even behind a proxy with a path prefix.
func TestSign_OmitsProxyPrefix(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, behind := strings.CutPrefix(r.RequestURI, "/coax")
		signed := signing.Request{Method: r.Method, Path: path, Timestamp: r.Header.Get("X-Timestamp"), Nonce: r.Header.Get("X-Nonce")}
		if !behind || !signed.Verify(secret, r.Header.Get("X-Signature")) {
			t.Errorf("%s does not verify", r.RequestURI)
		}
	}))
	defer server.Close()
	c, err := client.New(client.Config{BaseURL: server.URL + "/coax/api/v1/", Key: "k", Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"balance", "/api/v1/balance"} {
		if _, err := c.Send(t.Context(), "GET", path, nil, nil); err != nil {
			t.Error(err)
		}
	}
}

// When a reused connection is closed during a request, net/http resends a GET, and
// a POST with an Idempotency-Key, by itself: with a nonce that was used.
func TestSend_NeverReusesNonce(t *testing.T) {
	var mu sync.Mutex
	nonces := map[string]int{}
	seen := map[net.Conn]int{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		nonces[r.Header.Get("X-Nonce")]++
		mu.Unlock()
		hijacker, ok := w.(http.Hijacker)
		if !ok {
			t.Error("cannot get at the connection")
			return
		}
		// The second request on each connection is read, and cut off.
		conn, buffer, err := hijacker.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		body := `{"success":true,"request_id":"req_1","code":"OK","message":"","data":{"transaction_id":"CX1","status":"success","currency":"INR"}}`
		for {
			mu.Lock()
			seen[conn]++
			second := seen[conn] == 2
			mu.Unlock()
			if second {
				conn.Close()
				return
			}
			fmt.Fprintf(buffer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			buffer.Flush()
			next, err := http.ReadRequest(buffer.Reader)
			if err != nil {
				conn.Close()
				return
			}
			io.Copy(io.Discard, next.Body)
			mu.Lock()
			nonces[next.Header.Get("X-Nonce")]++
			mu.Unlock()
		}
	}))
	server.Start()
	defer server.Close()
	c, err := client.New(client.Config{
		BaseURL: server.URL + "/api/v1", Key: "k", Secret: secret, HTTP: &http.Client{Transport: &http.Transport{}},
		Retry: client.Retry{Pause: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := c.Balance(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Renew(t.Context(), "order-4711", renewal); err != nil {
			t.Fatal(err)
		}
	}
	cut := 0
	for nonce, times := range nonces {
		if times != 1 {
			t.Errorf("nonce %s was sent %d times", nonce, times)
		}
	}
	for _, requests := range seen {
		cut += requests / 2
	}
	if cut < 5 || len(nonces) != 10+cut {
		t.Errorf("%d connections were cut and %d nonces sent; want at least 5 cuts, and a nonce for each attempt", cut, len(nonces))
	}
}

// A custom HTTP client without a timeout gets one.
func TestConfig_HTTPClientGetsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		c, err := client.New(client.Config{
			BaseURL: "https://coax.example/api/v1", Key: "k", Secret: secret, HTTP: &http.Client{Transport: silent}, Retry: client.Retry{Attempts: 2},
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = c.Renew(context.Background(), "order-4711", renewal)
		if took := time.Since(began); !client.Undecided(err) || took < 2*time.Minute || took > 3*time.Minute {
			t.Errorf("after %v: %v; want two attempts of a minute each", took, err)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSend_FollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s followed the redirect", r.Method, r.RequestURI)
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	c, err := client.New(client.Config{BaseURL: server.URL + "/api/v1", Key: "k", Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	var failure *client.Error
	if _, err := c.Balance(t.Context()); !errors.As(err, &failure) || failure.Status != http.StatusTemporaryRedirect || failure.Attempts != 1 {
		t.Errorf("came back as %v", err)
	}
}

func TestSecret_IsRedacted(t *testing.T) {
	config := client.Config{BaseURL: "https://coax.example/api/v1", Key: "k", Secret: secret}
	c, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	activation := client.Activation{FullName: "Asha Rao", Password: "hunter2"}
	made := &client.Operation{Customer: client.Customer{Password: "hunter2"}}
	var logged strings.Builder
	for _, handler := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
		slog.New(handler).Info("calling", "secret", config.Secret, "password", activation.Password, "activation", activation,
			"operation", made, "config", struct{ Secret client.Secret }{config.Secret})
	}
	printed := logged.String()
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		printed += fmt.Sprintf(form+form+form, config, c, activation)
	}
	for _, hidden := range []string{secret, "hunter2"} {
		if strings.Contains(printed, hidden) {
			t.Errorf("%s shows in %s", hidden, printed)
		}
	}
	wire := &script{t: t, answers: []reply{answer(202, client.PendingReview, strings.Replace(operation(client.NeedsReview), "{", `{"customer":{"password":"hunter2"},`, 1))}}
	var op *client.Operation
	synctest.Test(t, func(t *testing.T) {
		op, err = wire.client(client.Retry{}).Activate(t.Context(), "order-4711", activation)
	})
	if !strings.Contains(wire.got[0].body, `"password":"hunter2"`) || op.Customer.Password != "hunter2" {
		t.Errorf("the service got %+v, and the caller %+v", wire.got, op)
	}
	if text, _ := json.Marshal(err); strings.Contains(string(text)+fmt.Sprintf("%v %+v", err, err), "hunter2") {
		t.Errorf("the error shows it: %s", text)
	}
}

func TestAmount_IsExact(t *testing.T) {
	for text, want := range map[string]client.Amount{
		"0": 0, "0.00": 0, "199.00": 199_00, "199.5": 199_50, "199": 199_00, "-0.05": -5, "-12.30": -12_30, "92233720368547758.07": 1<<63 - 1,
	} {
		var got client.Amount
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is read as %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0.001", "1e3", `"1.00"`, "null", "92233720368547758.08", "1.-5"} {
		var got client.Amount
		if err := got.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is read as %d", text, got)
		}
	}
	for amount, want := range map[client.Amount]string{0: "0.00", 5: "0.05", 199_00: "199.00", -5: "-0.05", -1 << 63: "-92233720368547758.08"} {
		if text, err := json.Marshal(amount); err != nil || string(text) != want || amount.String() != want {
			t.Errorf("%d is written %s, %v; want %s", int64(amount), text, err, want)
		}
	}
}

func TestMoment_IsIndianTime(t *testing.T) {
	want := time.Date(2026, 11, 15, 5, 30, 38, 0, time.UTC)
	for _, text := range []string{`"2026-11-15 11:00:38"`, `"2026-11-15T11:00:38+05:30"`, `"2026-11-15T05:30:38Z"`} {
		var got client.Moment
		if err := json.Unmarshal([]byte(text), &got); err != nil || !got.Equal(want) {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
		if again, err := json.Marshal(got); err != nil || string(again) != `"2026-11-15 11:00:38"` {
			t.Errorf("%s is written %s, %v", text, again, err)
		}
	}
	var none client.Moment
	if err := json.Unmarshal([]byte("null"), &none); err != nil || !none.IsZero() || none.String() != "" {
		t.Errorf("null is read as %q, %v", none, err)
	}
	if text, err := json.Marshal(none); err != nil || string(text) != "null" {
		t.Errorf("no moment is written %s, %v", text, err)
	}
	for _, text := range []string{`"2026-11-15"`, `"soon"`, "7"} {
		if err := none.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is read as %v", text, none)
		}
	}
}

func TestNew_ConfigErrors(t *testing.T) {
	good := client.Config{BaseURL: "https://coax.example/api/v1", Key: "k", Secret: "s"}
	if _, err := client.New(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*client.Config){
		"no address":       func(c *client.Config) { c.BaseURL = "" },
		"no scheme":        func(c *client.Config) { c.BaseURL = "coax.example/api/v1" },
		"no host":          func(c *client.Config) { c.BaseURL = "https:///api/v1" },
		"no version":       func(c *client.Config) { c.BaseURL = "https://coax.example" },
		"a query":          func(c *client.Config) { c.BaseURL += "?a=b" },
		"no encryption":    func(c *client.Config) { c.BaseURL = "http://coax.example/api/v1" },
		"another protocol": func(c *client.Config) { c.BaseURL = "ftp://127.0.0.1/api/v1" },
		"negative retries": func(c *client.Config) { c.Retry.Attempts = -1 },
		"a key's line end": func(c *client.Config) { c.Key += "\n" },
		"a secret's space": func(c *client.Config) { c.Secret += " " },
		"a broken address": func(c *client.Config) { c.BaseURL = "https://[" },
		"no key":           func(c *client.Config) { c.Key = "" },
		"no secret":        func(c *client.Config) { c.Secret = "" },
	} {
		config := good
		spoil(&config)
		if _, err := client.New(config); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestNew_CACert(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"success":true,"request_id":"req_1","code":"OK","message":"","data":{"currency":"INR","wallet_balance":1.00}}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	config := client.Config{BaseURL: server.URL + "/api/v1", Key: "k", Secret: secret, CACert: file}
	c, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Balance(t.Context()); err != nil {
		t.Error(err)
	}
	config.CACert = ""
	if c, err = client.New(config); err != nil {
		t.Fatal(err)
	}
	var failure *client.Error
	if _, err := c.Balance(t.Context()); !errors.As(err, &failure) || failure.Attempts != 1 {
		t.Errorf("a certificate of an unknown authority: %v; want an error after one attempt", err)
	}
	for _, bad := range []string{file + ".none", "client_test.go"} {
		config.CACert = bad
		if _, err := client.New(config); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s as the authority: %v; want an error that names it", bad, err)
		}
	}
}

func TestConfig_ReadsDemoLine(t *testing.T) {
	var config client.Config
	const line = `{"base_url":"https://127.0.0.1:8443/api/v1","ca_cert":"/x/ca.pem","api_key":"cxk_1","api_secret":"cxs_1","lco_id":1}`
	if err := json.Unmarshal([]byte(line), &config); err != nil {
		t.Fatal(err)
	}
	if config.BaseURL != "https://127.0.0.1:8443/api/v1" || config.CACert != "/x/ca.pem" || config.Key != "cxk_1" || config.Secret != "cxs_1" {
		t.Errorf("it reads %+v", config)
	}
}

func TestCodeOf(t *testing.T) {
	for want, err := range map[client.Code]error{
		"":                         errors.New("no answer"),
		client.InsufficientBalance: fmt.Errorf("order 7: %w", &client.Error{Code: client.InsufficientBalance}),
	} {
		if got := client.CodeOf(err); got != want {
			t.Errorf("%v: %q; want %q", err, got, want)
		}
	}
	if got := client.CodeOf(nil); got != "" {
		t.Errorf("no error has the code %q", got)
	}
}
