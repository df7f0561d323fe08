package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/signing"
)

const secret = "cxs_0000000000000000000000000000000000000000000000000000000000000000"

// What arrives is what was signed, byte for byte, whatever the path and query
// look like; and no two requests share a nonce.
func TestWhatArrivesIsWhatWasSigned(t *testing.T) {
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

func TestAClientSaysWhatIsMissing(t *testing.T) {
	good := client.Config{BaseURL: "https://coax.example/api/v1", Key: "k", Secret: "s"}
	if _, err := client.New(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*client.Config){
		"no address":       func(c *client.Config) { c.BaseURL = "" },
		"no scheme":        func(c *client.Config) { c.BaseURL = "coax.example/api/v1" },
		"a broken address": func(c *client.Config) { c.BaseURL = "https://[" },
		"no key":           func(c *client.Config) { c.Key = "" },
		"no secret":        func(c *client.Config) { c.Secret = "" },
	} {
		config := good
		spoil(&config)
		if _, err := client.New(config); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
