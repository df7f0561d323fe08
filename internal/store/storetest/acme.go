package storetest

import (
	"bytes"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/acmecert"
)

var acmeTests = []test{
	{"an order is claimed by one of many nodes", orderClaimedOnce},
	{"a claimed order is free once its lease has ended", orderAfterLease},
	{"a certificate is stored only under the lease", certificateUnderLease},
	{"a failed order pauses, and keeps the certificate", orderPauses},
	{"a node that stops gives its order up without a failure", orderGivenUp},
	{"a certificate that cannot be used is due", certificateDropped},
	{"what has expired is removed with the next certificate", certificatesExpire},
	{"a challenge is replaced, and ends", challengeReplaced},
	{"a restart keeps certificate and account", acmeSurvivesRestart},
}

const acmeID = "certificate https://acme.example/directory api.example.com"

func acmeClaim(node string, at time.Time) acmecert.Claim {
	return acmecert.Claim{ID: acmeID, Node: node, Now: at, Until: at.Add(time.Minute)}
}

// claim claims the order, and checks whether it got it.
func (h *harness) claim(node string, at time.Time, want bool) {
	h.Helper()
	got, err := h.ClaimACMEOrder(h.Context(), acmeClaim(node, at))
	h.must(err)
	if got != want {
		h.Fatalf("%s claims the order at %s: %v; want %v", node, at, got, want)
	}
}

// issue stores a certificate that is renewed after 60 days of 90.
func (h *harness) issue(node string, at time.Time, want bool) {
	h.Helper()
	got, err := h.FinishACMEOrder(h.Context(), acmeClaim(node, at), acmecert.Issued{
		Sealed: []byte(node), Expires: at.AddDate(0, 0, 90), RenewAt: at.AddDate(0, 0, 60),
	})
	h.must(err)
	if got != want {
		h.Fatalf("%s stores a certificate at %s: %v; want %v", node, at, got, want)
	}
}

// checkACME checks the certificate's state, and whose it is.
func (h *harness) checkACME(version int64, node string, due time.Time) acmecert.State {
	h.Helper()
	state, err := h.ACMEState(h.Context(), acmeID)
	h.must(err)
	sealed, err := h.ACMESecret(h.Context(), acmeID)
	h.must(err)
	if state.Version != version || !bytes.Equal(sealed, []byte(node)) {
		h.Errorf("the store has %+v of %q; want version %d of %q", state, sealed, version, node)
	}
	if state.Due(due.Add(-time.Millisecond)) || !state.Due(due) {
		h.Errorf("%+v is not due from %s on", state, due)
	}
	return state
}

func orderClaimedOnce(h *harness) {
	state, err := h.ACMEState(h.Context(), acmeID)
	h.must(err)
	if state != (acmecert.State{}) || !state.Due(noon) {
		h.Fatalf("an empty store has %+v", state)
	}
	var claimed atomic.Int64
	concurrently(16, func(i int) {
		got, err := h.ClaimACMEOrder(h.Context(), acmeClaim(name("node", i), noon))
		h.must(err)
		if got {
			claimed.Add(1)
		}
	})
	if claimed.Load() != 1 {
		h.Errorf("%d nodes claimed the order; want 1", claimed.Load())
	}
}

func orderAfterLease(h *harness) {
	h.claim("a", noon, true)
	held, err := h.ExtendACMEOrder(h.Context(), acmeClaim("a", noon.Add(30*time.Second)))
	h.must(err)
	if !held {
		h.Error("a lease that has not ended was not extended")
	}
	h.claim("b", noon.Add(time.Minute), false)
	h.claim("b", noon.Add(90*time.Second), true)
	held, err = h.ExtendACMEOrder(h.Context(), acmeClaim("a", noon.Add(91*time.Second)))
	h.must(err)
	if held {
		h.Error("a lease that another node has was extended")
	}
	h.must(h.TakeOverACMEOrders(h.Context()))
	h.claim("c", noon.Add(92*time.Second), true)
}

func certificateUnderLease(h *harness) {
	h.issue("nobody", noon, false)
	h.claim("a", noon, true)
	h.issue("b", noon, false)
	h.issue("a", noon.Add(time.Minute), false)
	h.claim("b", noon.Add(time.Minute), true)
	h.issue("b", noon.Add(time.Minute), true)
	h.issue("b", noon.Add(time.Minute), false)
	due := noon.Add(time.Minute).AddDate(0, 0, 60)
	h.checkACME(1, "b", due)
	h.claim("a", due.Add(-time.Millisecond), false)
	h.claim("a", due, true)
	h.issue("a", due, true)
	h.checkACME(2, "a", due.AddDate(0, 0, 60))
}

func orderPauses(h *harness) {
	h.claim("a", noon, true)
	h.issue("a", noon, true)
	due := noon.AddDate(0, 0, 60)
	for i := range 3 {
		h.claim("a", due, true)
		next := due.Add(time.Hour)
		h.must(h.FailACMEOrder(h.Context(), acmeClaim("a", due), "no connection", next))
		state := h.checkACME(1, "a", next)
		if state.Failures != i+1 || state.Problem != "no connection" || !state.NextTry.Equal(next) || !state.Expires.Equal(noon.AddDate(0, 0, 90)) {
			h.Errorf("after %d failures: %+v", i+1, state)
		}
		h.claim("b", next.Add(-time.Millisecond), false)
		due = next
	}
	h.must(h.FailACMEOrder(h.Context(), acmeClaim("b", due), "of another node", due.AddDate(1, 0, 0)))
	h.claim("a", due, true)
	h.must(h.FailACMEOrder(h.Context(), acmeClaim("a", due), "no connection", due.Add(time.Hour)))
	h.must(h.RetryACMEOrder(h.Context(), acmeID))
	h.claim("b", due, true)
	h.issue("b", due, true)
	if state := h.checkACME(2, "b", due.AddDate(0, 0, 60)); state.Failures != 0 || state.Problem != "" {
		h.Errorf("after a success: %+v", state)
	}
}

func orderGivenUp(h *harness) {
	h.claim("a", noon, true)
	h.must(h.FailACMEOrder(h.Context(), acmeClaim("a", noon), "", time.Time{}))
	h.claim("b", noon, true)
	state, err := h.ACMEState(h.Context(), acmeID)
	h.must(err)
	if state.Failures != 0 || state.Problem != "" {
		h.Errorf("an order that was given up has failed: %+v", state)
	}
}

func certificateDropped(h *harness) {
	h.claim("a", noon, true)
	h.issue("a", noon, true)
	h.must(h.DropACMECertificate(h.Context(), acmeID, 2))
	h.checkACME(1, "a", noon.AddDate(0, 0, 60))
	h.must(h.DropACMECertificate(h.Context(), acmeID, 1))
	h.claim("b", noon, true)
	h.issue("b", noon, true)
	h.checkACME(2, "b", noon.AddDate(0, 0, 60))
}

func certificatesExpire(h *harness) {
	old := acmecert.Claim{ID: acmeID + ",old.example.com", Node: "a", Now: noon, Until: noon.Add(time.Minute)}
	_, err := h.ClaimACMEOrder(h.Context(), old)
	h.must(err)
	_, err = h.FinishACMEOrder(h.Context(), old, acmecert.Issued{Sealed: []byte("old"), Expires: noon.AddDate(0, 0, 90), RenewAt: noon.AddDate(0, 0, 60)})
	h.must(err)
	later := noon.AddDate(0, 0, 89)
	h.claim("a", later, true)
	h.issue("a", later, true)
	ids, err := h.ACMECertificates(h.Context(), later)
	h.must(err)
	if want := []string{acmeID, old.ID}; !slices.Equal(ids, want) {
		h.Errorf("the store lists %q; want %q", ids, want)
	}
	later = later.AddDate(0, 0, 60)
	h.claim("a", later, true)
	h.issue("a", later, true)
	ids, err = h.ACMECertificates(h.Context(), noon)
	h.must(err)
	sealed, err := h.ACMESecret(h.Context(), old.ID)
	h.must(err)
	if !slices.Equal(ids, []string{acmeID}) || sealed != nil {
		h.Errorf("after the old one's end the store lists %q, and has %q of it", ids, sealed)
	}
	h.checkACME(2, "a", later.AddDate(0, 0, 60))
}

func challengeReplaced(h *harness) {
	h.must(h.SaveACMESecret(h.Context(), "account", []byte("key")))
	for _, token := range []string{"first", "second"} {
		h.must(h.SaveACMEChallenge(h.Context(), acmecert.Challenge{Name: "api.example.com", Account: "account", Token: token, Expires: noon.Add(time.Minute)}))
	}
	got, sealed, found, err := h.ACMEChallenge(h.Context(), "api.example.com", noon.Add(time.Minute-time.Millisecond))
	h.must(err)
	if !found || got.Token != "second" || got.Account != "account" || !bytes.Equal(sealed, []byte("key")) {
		h.Errorf("the challenge is %v %+v with %q; want the second", found, got, sealed)
	}
	for _, row := range []struct {
		name string
		at   time.Time
	}{{"api.example.com", noon.Add(time.Minute)}, {"other.example.com", noon}, {"", noon}} {
		if _, _, found, err := h.ACMEChallenge(h.Context(), row.name, row.at); err != nil || found {
			h.Errorf("%q has a challenge at %s: %v", row.name, row.at, err)
		}
	}
}

func acmeSurvivesRestart(h *harness) {
	h.must(h.SaveACMESecret(h.Context(), "account", []byte("one")))
	h.must(h.SaveACMESecret(h.Context(), "account", []byte("two")))
	h.claim("a", noon, true)
	h.issue("a", noon, true)
	h.reopen()
	h.checkACME(1, "a", noon.AddDate(0, 0, 60))
	sealed, err := h.ACMESecret(h.Context(), "account")
	h.must(err)
	if string(sealed) != "two" {
		h.Errorf("the account's key is %q; want the second", sealed)
	}
}
