package races

import (
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/requestlog"
)

// Every call is found by the operator whose key it used, by no other operator, and after a
// restart too.
func TestRequestLog_SurvivesRestart(t *testing.T) {
	w := e2e.NewEnv(t)
	mine, theirs := w.DemoCaller(), w.NewOperator("Another", access.AllPermissions)
	w.Expect("a balance", e2e.Call{As: mine, Path: e2e.Balance}, fault.OK)
	w.Expect("a call of another operator", e2e.Call{As: theirs, Path: "/api/v1/plans"}, fault.OK)
	signed := w.Request(e2e.Call{As: mine, Path: "/api/v1/subscription?mobile=9876543210"}).Header
	refused := w.Expect("a wrong signature", e2e.Call{As: mine, Path: "/api/v1/subscription?mobile=9876543210", Timestamp: signed.Get("X-Timestamp"),
		Nonce: signed.Get("X-Nonce"), Signature: strings.ToUpper(signed.Get("X-Signature"))}, fault.InvalidSignature)
	w.Expect("an unknown key", e2e.Call{As: e2e.Caller{Key: "cxk_00000000000000000000000000000000", Secret: mine.Secret}, Path: e2e.Balance}, fault.InvalidAPIKey)
	w.Restart()

	page, err := w.Node.Requests.Search(t.Context(), mine.OperatorID, requestlog.Query{})
	if err != nil || len(page.Entries) != 2 {
		t.Fatalf("found %+v, %v; want 2 calls", page.Entries, err)
	}
	// Both have the same time.
	found := map[fault.Code]requestlog.Entry{}
	for _, e := range page.Entries {
		found[e.Code] = e
	}
	if e := found[fault.OK]; e.Path != e2e.Balance || e.Status != 200 || e.KeyHint != access.Hint(mine.Key) || e.Signature != nil {
		t.Errorf("the balance request is logged as %+v", e)
	}
	e := found[fault.InvalidSignature]
	if e.RequestID != refused.ID || e.Signature == nil {
		t.Fatalf("the refusal is logged as %+v; want request %s with its signature data", e, refused.ID)
	}
	want := strings.Join([]string{"GET", "/api/v1/subscription", "mobile=9876543210", signed.Get("X-Timestamp"), signed.Get("X-Nonce"), ""}, "\n")
	if !strings.HasPrefix(e.Signature.StringToSign, want) {
		t.Errorf("the server computed %q; want %q and the hash of an empty body", e.Signature.StringToSign, want)
	}
	if hints := requestlog.Explain(e); len(hints) != 1 || hints[0].Cause != requestlog.UpperCaseSignature {
		t.Errorf("explained by %v; want %s", hints, requestlog.UpperCaseSignature)
	}
	if uses, err := w.Node.Requests.LastUse(t.Context(), theirs.OperatorID); err != nil || !uses[theirs.ID].Equal(w.Now()) {
		t.Errorf("the other's key was last used %v, %v; want %s", uses, err, w.Now())
	}
}

func TestRequestLog_OldEntriesAreDeleted(t *testing.T) {
	w := e2e.NewEnv(t, "request_log.keep=1h")
	w.Expect("a balance", e2e.Call{As: w.DemoCaller(), Path: e2e.Balance}, fault.OK)
	found := func() int {
		page, err := w.Node.Requests.Search(t.Context(), w.DemoCaller().OperatorID, requestlog.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Entries)
	}
	w.WaitUntil("the call is in the log", func() bool { return found() == 1 })
	w.Advance(time.Hour)
	if _, err := w.Node.Requests.Purge(t.Context(), w.Now()); err != nil || found() != 1 {
		t.Errorf("a call of an hour ago is gone (%v)", err)
	}
	w.Advance(time.Millisecond)
	if _, err := w.Node.Requests.Purge(t.Context(), w.Now()); err != nil || found() != 0 {
		t.Errorf("%d calls are left (%v); want none", found(), err)
	}
}
