package main

import (
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/requestlog"
)

// Every call is found by the operator whose key it named, by nobody else, and still
// when the service has been stopped and started in between.
func TestCallsAreFoundInTheRequestLogAfterARestart(t *testing.T) {
	w := newWorld(t)
	mine, theirs := w.demoCaller(), w.newOperator("Another", access.AllPermissions)
	w.expect("a balance", call{as: mine, path: balance}, fault.OK)
	w.expect("of another", call{as: theirs, path: "/api/v1/plans"}, fault.OK)
	signed := w.request(call{as: mine, path: "/api/v1/subscription?mobile=9876543210"}).Header
	refused := w.expect("a wrong signature", call{as: mine, path: "/api/v1/subscription?mobile=9876543210", timestamp: signed.Get("X-Timestamp"),
		nonce: signed.Get("X-Nonce"), signature: strings.ToUpper(signed.Get("X-Signature"))}, fault.InvalidSignature)
	w.expect("no key of ours", call{as: caller{key: "cxk_00000000000000000000000000000000", secret: mine.secret}, path: balance}, fault.InvalidAPIKey)
	w.restart()

	page, err := w.node.requests.Search(t.Context(), mine.operatorID, requestlog.Query{})
	if err != nil || len(page.Entries) != 2 {
		t.Fatalf("found %+v, %v; want 2 calls", page.Entries, err)
	}
	// They came at the same moment of the world's clock.
	found := map[fault.Code]requestlog.Entry{}
	for _, e := range page.Entries {
		found[e.Code] = e
	}
	if e := found[fault.OK]; e.Path != balance || e.Status != 200 || e.KeyHint != access.Hint(mine.key) || e.Evidence != nil {
		t.Errorf("the balance was kept as %+v", e)
	}
	e := found[fault.InvalidSignature]
	if e.RequestID != refused.id || e.Evidence == nil {
		t.Fatalf("the refusal was kept as %+v; want the request %s with its evidence", e, refused.id)
	}
	want := strings.Join([]string{"GET", "/api/v1/subscription", "mobile=9876543210", signed.Get("X-Timestamp"), signed.Get("X-Nonce"), ""}, "\n")
	if !strings.HasPrefix(e.Evidence.StringToSign, want) {
		t.Errorf("the server computed %q; want %q and the hash of nothing", e.Evidence.StringToSign, want)
	}
	if hints := requestlog.Explain(e); len(hints) != 1 || hints[0].Cause != requestlog.UpperCaseSignature {
		t.Errorf("explained by %v; want %s", hints, requestlog.UpperCaseSignature)
	}
	if uses, err := w.node.requests.LastUse(t.Context(), theirs.operatorID); err != nil || !uses[theirs.id].Equal(w.now()) {
		t.Errorf("the other's key was last used %v, %v; want %s", uses, err, w.now())
	}
}

func TestOldCallsAreSweptOut(t *testing.T) {
	w := newWorld(t, "request_log.keep=1h")
	w.expect("a balance", call{as: w.demoCaller(), path: balance}, fault.OK)
	found := func() int {
		page, err := w.node.requests.Search(t.Context(), w.demoCaller().operatorID, requestlog.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Entries)
	}
	w.until("the call is in the log", func() bool { return found() == 1 })
	w.pass(time.Hour)
	if _, err := w.node.requests.Purge(t.Context(), w.now()); err != nil || found() != 1 {
		t.Errorf("a call of an hour ago is gone (%v)", err)
	}
	w.pass(time.Millisecond)
	if _, err := w.node.requests.Purge(t.Context(), w.now()); err != nil || found() != 0 {
		t.Errorf("%d calls are left (%v); want none", found(), err)
	}
}
