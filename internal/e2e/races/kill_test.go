package races

import (
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// A killed process has lost no nonce, no rate count and no revocation that it answered by.
func TestKill_AnswersStayTheSame(t *testing.T) {
	folder := t.TempDir()
	args := []string{"demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json"}
	p := e2e.Start(t, args...)
	w := e2e.NewRemoteEnv(t, p)
	me := w.DemoCaller()

	second := p.Install(t).JSON("key", "issue", "--lco", "1")
	issued := e2e.CheckShape(t, second, e2e.IssuedShape...)
	var revoked e2e.Caller
	for target, text := range map[*string]string{&revoked.Key: issued["api_key"], &revoked.Secret: issued["api_secret"]} {
		if _, err := fmt.Sscanf(text, "%q", target); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.SendNow(e2e.Call{As: revoked, Path: e2e.Balance}); got.Code != fault.OK {
		t.Fatalf("the second key: %s", got.Raw)
	}
	p.Install(t).JSON("key", "revoke", "--key-id", issued["key_id"])

	// The counts must be of the same minute; near its end, wait for the next.
	w.WaitUntil("there is time left in the minute", func() bool { return time.Now().Second() <= 45 })
	var nonces []string
	var before e2e.Answer
	for range 5 {
		nonces = append(nonces, client.NewNonce())
		if before = w.SendNow(e2e.Call{As: me, Path: e2e.Balance, Nonce: nonces[len(nonces)-1]}); before.Code != fault.OK {
			t.Fatalf("before: %s", before.Raw)
		}
	}
	p.Kill()
	p = e2e.Start(t, args...)
	w = e2e.NewRemoteEnv(t, p)
	if after := w.SendNow(e2e.Call{As: me, Path: e2e.Balance}); after.Header.Get("X-RateLimit-Reset") == before.Header.Get("X-RateLimit-Reset") {
		var was, is int
		if _, err := fmt.Sscan(before.Header.Get("X-RateLimit-Remaining")+" "+after.Header.Get("X-RateLimit-Remaining"), &was, &is); err != nil || is != was-1 {
			t.Errorf("remaining %d, after the kill %d; want one less", was, is)
		}
	} else {
		t.Errorf("the restart took longer than the minute had left: %v", after.Header)
	}
	for _, nonce := range nonces {
		if got := w.SendNow(e2e.Call{As: me, Path: e2e.Balance, Nonce: nonce}); got.Code != fault.ReplayDetected {
			t.Errorf("a nonce from before the kill: %s; want REPLAY_DETECTED", got.Code)
		}
	}
	if got := w.SendNow(e2e.Call{As: revoked, Path: e2e.Balance}); got.Code != fault.CredentialRevoked {
		t.Errorf("the revoked key: %s; want CREDENTIAL_REVOKED", got.Code)
	}
}
