package generator

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/coaxhq/coax/signing"
)

// What is written here by hand has to be what the contract's own code would sign,
// and what net/http reads.
func TestRequest_Signature(t *testing.T) {
	const secret = "cxs_0123456789abcdef"
	account := NewAccount(7, "cxk_key", secret)
	s := newScribe("127.0.0.1:8443")
	now := time.Unix(1_794_752_160, 0)
	nonces := map[string]bool{}
	for i, of := range []shot{
		{account: account, method: "GET", path: "/api/v1/balance"},
		{account: account, method: "POST", path: "/api/v1/renew", body: []byte(`{"subscriber_id":"1","plan_id":"P"}`), key: []byte("order-4711")},
		{account: account, method: "GET", path: "/api/v1/subscription", query: []byte("subscriber_id=4711")},
	} {
		now = now.Add(time.Second)
		text := bytes.Clone(s.write(of, now))
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			t.Fatalf("net/http cannot read it: %v\n%s", err, text)
		}
		body, err := io.ReadAll(request.Body)
		if err != nil || !bytes.Equal(body, of.body) {
			t.Errorf("request %d: its body is read as %q (%v); want %q", i, body, err, of.body)
		}
		head := request.Header
		signed := signing.Request{Method: of.method, Path: of.path, RawQuery: string(of.query), Timestamp: head.Get("X-Timestamp"), Nonce: head.Get("X-Nonce"), Body: body}
		if !signed.Verify(secret, head.Get("X-Signature")) {
			t.Errorf("request %d: its signature is not good:\n%s", i, text)
		}
		if got, want := head.Get("X-Timestamp"), strconv.FormatInt(now.Unix(), 10); got != want {
			t.Errorf("request %d: its timestamp is %s; want %s", i, got, want)
		}
		if request.Method != of.method || request.URL.Path != of.path || request.URL.RawQuery != string(of.query) || request.Host != "127.0.0.1:8443" ||
			head.Get("X-API-Key") != "cxk_key" || head.Get("Idempotency-Key") != string(of.key) {
			t.Errorf("request %d is another one than was meant:\n%s", i, text)
		}
		if nonce := head.Get("X-Nonce"); nonces[nonce] || len(nonce) != 32 {
			t.Errorf("request %d: the nonce %q is not a fresh one of 32 characters", i, nonce)
		}
		nonces[head.Get("X-Nonce")] = true
	}
}

// The generator shares the CPU with the measured service.
func TestRequest_NoAllocations(t *testing.T) {
	account := NewAccount(7, "cxk_key", "cxs_secret")
	s := newScribe("127.0.0.1:8443")
	body, key := []byte(`{"subscriber_id":"1","plan_id":"P"}`), []byte("order-4711")
	now := time.Now()
	if got := testing.AllocsPerRun(100, func() {
		s.write(shot{account: account, method: "POST", path: "/api/v1/renew", body: body, key: key}, now)
	}); got > 0 {
		t.Errorf("writing a request allocates %.0f times; want none", got)
	}
}
