package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/fault"
)

// remote is a world whose service is a process of its own, on the machine's
// clock.
func remote(t *testing.T, p *cliProcess) *world {
	t.Helper()
	w := &world{t: t, line: p.line, http: trusting(t, p.line.CACert)}
	t.Cleanup(w.http.CloseIdleConnections)
	return w
}

func (w *world) sendNow(c call) answer {
	w.t.Helper()
	w.time.Store(time.Now().UnixMilli())
	return w.send(c)
}

// tryOperate asks for an operation of a process that may die meanwhile; false if
// no answer came.
func (w *world) tryOperate(as caller, endpoint, key string, o order) (answer, bool) {
	w.t.Helper()
	w.time.Store(time.Now().UnixMilli())
	request := w.request(call{
		as: as, method: "POST", path: "/api/v1/" + endpoint, body: o.json(), header: map[string][]string{"Idempotency-Key": {key}},
	})
	response, err := w.http.Do(request)
	if err != nil {
		return answer{}, false
	}
	got, err := w.receive(request, request.URL.Path, response)
	return got, err == nil
}

// A process that is killed while it serves has forgotten nothing of what it
// answered: no nonce, no count, no revocation.
func TestAfterAKillTheAnswersAreTheSame(t *testing.T) {
	folder := t.TempDir()
	args := []string{"demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json"}
	p := cliStart(t, args...)
	w := remote(t, p)
	me := w.demoCaller()

	second := p.house(t).json("key", "issue", "--lco", "1")
	issued := cliShape(t, second, cliIssuedShape...)
	var revoked caller
	for target, text := range map[*string]string{&revoked.key: issued["api_key"], &revoked.secret: issued["api_secret"]} {
		if _, err := fmt.Sscanf(text, "%q", target); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.sendNow(call{as: revoked, path: balance}); got.code != fault.OK {
		t.Fatalf("the second key: %s", got.raw)
	}
	p.house(t).json("key", "revoke", "--key-id", issued["key_id"])

	// The count is compared within one minute; at its end one waits for the
	// next, which comes by itself.
	w.until("there is time left in the minute", func() bool { return time.Now().Second() <= 45 })
	var nonces []string
	var before answer
	for range 5 {
		nonces = append(nonces, client.NewNonce())
		if before = w.sendNow(call{as: me, path: balance, nonce: nonces[len(nonces)-1]}); before.code != fault.OK {
			t.Fatalf("before: %s", before.raw)
		}
	}
	p.Kill()
	p = cliStart(t, args...)
	w = remote(t, p)
	if after := w.sendNow(call{as: me, path: balance}); after.header.Get("X-RateLimit-Reset") == before.header.Get("X-RateLimit-Reset") {
		var was, is int
		if _, err := fmt.Sscan(before.header.Get("X-RateLimit-Remaining")+" "+after.header.Get("X-RateLimit-Remaining"), &was, &is); err != nil || is != was-1 {
			t.Errorf("remaining %d, after the kill %d; want one less", was, is)
		}
	} else {
		t.Errorf("the restart took longer than the minute had left: %v", after.header)
	}
	for _, nonce := range nonces {
		if got := w.sendNow(call{as: me, path: balance, nonce: nonce}); got.code != fault.ReplayDetected {
			t.Errorf("a nonce from before the kill: %s; want REPLAY_DETECTED", got.code)
		}
	}
	if got := w.sendNow(call{as: revoked, path: balance}); got.code != fault.CredentialRevoked {
		t.Errorf("the revoked key: %s; want CREDENTIAL_REVOKED", got.code)
	}
}
