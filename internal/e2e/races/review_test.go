package races

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// The service settles every kind of unknown outcome by itself, as success or failure, for
// each operation.
func TestReview_SettledByService(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s", "review.first_check=10s", "review.refund_after=2m")
	me := w.NewFundedOperator("me", "100000")
	rows := []struct {
		outcome string
		waits   time.Duration
		want    fault.Code
	}{
		{"timeout_applied", 10 * time.Second, fault.OK},
		{"wrong_reference", 10 * time.Second, fault.OK},
		{"reset_applied", 10 * time.Second, fault.OK},
		{"timeout_not_applied", 3 * time.Minute, fault.ProviderError},
		{"gateway_error", 3 * time.Minute, fault.ProviderError},
	}
	for i, row := range rows {
		for j, endpoint := range []string{"activate", "renew", "advance-renew"} {
			what := endpoint + " " + row.outcome
			mobile, key := fmt.Sprintf("98%d%d000000", i, j), fmt.Sprintf("review-%d-%d", i, j)
			before := w.WalletPaise(me)
			if endpoint != "activate" {
				before[0] -= 199_00
			}
			o, first := w.StartReview(me, endpoint, row.outcome, mobile, key)
			if row.want == fault.ProviderError {
				// "Not found" at the provider is not final before review.refund_after.
				w.Advance(30 * time.Second)
				w.WaitUntil(what+" has had a status call", func() bool { return w.ProviderCalls(mobile, "status") >= 1 })
				if still := w.LookUp(me, key); still.Text("status") != "needs_review" {
					t.Errorf("%s: settled after 30 s: %s", what, still.Raw)
				}
			}
			w.Advance(row.waits)
			found := w.AwaitSettled(me, key)
			if found.Text("result_code") != string(row.want) || found.Text("transaction_id") != first.Text("transaction_id") {
				t.Errorf("%s: settled as %s; want %s", what, found.Raw, row.want)
			}
			replay := w.Operate(me, endpoint, key, o)
			if replay.Code != row.want || replay.Header.Get("Idempotent-Replayed") != "true" || replay.Text("customer.password") != "" {
				t.Errorf("%s: replayed as %s", what, replay.Raw)
			}
			w.CheckWallet(what, replay, before, w.WalletPaise(me), "349")
			if row.want == fault.ProviderError {
				if found.Text("reason") != "NOT_CONFIRMED" || w.ProviderCalls(mobile, "void") == 0 {
					t.Errorf("%s: refunded as %s, after %d voids", what, found.Text("reason"), w.ProviderCalls(mobile, "void"))
				}
				if _, sub := 0, w.Send(e2e.Call{As: me, Path: "/api/v1/subscription?mobile=" + mobile}); (sub.Code == fault.SubscriberNotFound) != (endpoint == "activate") {
					t.Errorf("%s: afterwards the subscriber is %s", what, sub.Raw)
				}
			}
			// The customer is free again.
			w.Advance(3 * time.Minute)
			next := w.Operate(me, "activate", key+"-next", e2e.Order{"full_name": "Asha", "mobile": mobile, "plan_id": "BASIC-1"})
			if (next.Code == fault.OK) != (endpoint == "activate" && row.want == fault.ProviderError) {
				t.Errorf("%s: an activation afterwards: %s", what, next.Raw)
			}
		}
	}
	w.CheckAudit()
}

// An operation whose outcome the provider cannot tell stays in review with its money held
// until staff confirm or refund it.
func TestReview_UnknowableWaitsForStaff(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s", "review.first_check=1s", "review.max_interval=1m", "review.refund_after=2m")
	me := w.NewFundedOperator("me", "100000")
	for i, endpoint := range []string{"activate", "renew", "advance-renew"} {
		for j, confirm := range []bool{true, false} {
			what := fmt.Sprintf("%s, confirmed %v", endpoint, confirm)
			mobile, key := fmt.Sprintf("97%d%d000000", i, j), fmt.Sprintf("person-%d-%d", i, j)
			before := w.WalletPaise(me)
			if endpoint != "activate" {
				before[0] -= 199_00
			}
			o, first := w.StartReview(me, endpoint, "unknowable", mobile, key)
			id := first.Text("transaction_id")
			w.WaitUntil(what+" is listed for staff", func() bool {
				w.Advance(time.Minute)
				operations, err := w.Admin.InReview(t.Context())
				return err == nil && len(operations) == 1 && operations[0].ID == id && operations[0].NeedsPerson
			})
			if got := w.LookUp(me, key); got.Text("status") != "needs_review" || got.Text("wallet.held") != "true" {
				t.Errorf("%s: meanwhile it is %s", what, got.Raw)
			}
			if _, err := w.Admin.SettleReview(t.Context(), id, confirm, "confirmed by phone"); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Admin.SettleReview(t.Context(), id, !confirm, "changed my mind"); err == nil {
				t.Errorf("%s: settled twice", what)
			}
			want, reason := fault.OK, ""
			if !confirm {
				want, reason = fault.ProviderError, "REJECTED_BY_REVIEW"
			}
			replay := w.Operate(me, endpoint, key, o)
			if replay.Code != want || replay.Text("reason") != reason {
				t.Errorf("%s: replayed as %s", what, replay.Raw)
			}
			w.CheckWallet(what, replay, before, w.WalletPaise(me), "349")
			w.Advance(3 * time.Minute)
		}
	}
	w.CheckAudit()
}

// A success reported after a refund moves no money; it raises an exception.
func TestReview_LateSuccessAfterRefund(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s", "review.first_check=1h", "review.max_interval=1h")
	me := w.NewFundedOperator("me", "1000")
	_, first := w.StartReview(me, "activate", "timeout_applied", "9811111111", "late-success")
	if _, err := w.Admin.SettleReview(t.Context(), first.Text("transaction_id"), false, "they said no"); err != nil {
		t.Fatal(err)
	}
	money := w.WalletPaise(me)
	w.Advance(11 * time.Minute)
	w.WaitUntil("the exception is raised", func() bool {
		entries, err := w.Admin.Exceptions(t.Context(), false)
		return err == nil && len(entries) == 1 && entries[0].TransactionID == first.Text("transaction_id") && entries[0].Kind == "LATE_SUCCESS"
	})
	if got := w.LookUp(me, "late-success"); got.Text("status") != "failed" || w.WalletPaise(me) != money || money != [2]int64{1000_00, 0} {
		t.Errorf("the money moved: %s, %v", got.Raw, w.WalletPaise(me))
	}
	entries, err := w.Admin.Exceptions(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Admin.CloseException(t.Context(), entries[0].ID, "charged by hand"); err != nil {
		t.Fatal(err)
	}
	if err := w.Admin.CloseException(t.Context(), entries[0].ID, "again"); err == nil {
		t.Error("closed twice")
	}
	w.CheckAudit()
}

// After a refund by staff the order is voided at the provider, because it may still be on
// its way. Three unanswered voids raise an exception.
func TestReview_RefundByStaffVoidsOrder(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s", "review.first_check=1h", "review.max_interval=1m")
	me := w.NewFundedOperator("me", "1000")
	voids := func(id string) int {
		history, err := w.Admin.OperationHistory(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, call := range history.Calls {
			if call.What == "void" {
				count++
			}
		}
		return count
	}
	refund := func(mobile, key string) string {
		_, first := w.StartReview(me, "activate", "gateway_error", mobile, key)
		id := first.Text("transaction_id")
		w.ControlSimulator("status", `{"mode":"down"}`)
		if _, err := w.Admin.SettleReview(t.Context(), id, false, "they said no"); err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := refund("9822222222", "refunded-order")
	w.WaitUntil("an unanswered void is recorded", func() bool { return voids(id) == 1 })
	w.ControlSimulator("status", `{"mode":"up"}`)
	w.Advance(2 * time.Minute)
	w.WaitUntil("the provider has received the void", func() bool { return w.ProviderCalls("9822222222", "void") == 1 })
	w.WaitUntil("its answer is recorded", func() bool { return voids(id) == 2 })

	id = refund("9833333333", "refunded-unanswered")
	w.WaitUntil("the exception is raised", func() bool {
		w.Advance(2 * time.Minute)
		entries, err := w.Admin.Exceptions(t.Context(), false)
		return err == nil && len(entries) == 1 && entries[0].TransactionID == id && entries[0].Kind == "VOID_UNANSWERED"
	})
	if got := voids(id); got != 3 {
		t.Errorf("%d voids are recorded; want three", got)
	}
	w.ControlSimulator("status", `{"mode":"up"}`)
	w.CheckAudit()
}

// A failed add-on is retried until it succeeds or staff close it. Each attempt after a
// rejection has its own reference.
func TestAddon_MissingIsRetried(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s", "review.first_check=10s", "review.max_interval=1m")
	me := w.NewFundedOperator("me", "100000")
	rows := []struct {
		what       string
		outcomes   []string
		references []string // of the add-on's orders
	}{
		{"rejected twice", []string{"success", "reject", "reject", "success"}, []string{"-2", "-2.1", "-2.2"}},
		{"no reply, not carried out", []string{"success", "timeout_not_applied", "success"}, []string{"-2", "-2"}},
		{"no reply, but carried out", []string{"success", "timeout_applied"}, []string{"-2"}},
		{"mismatched reply to a retry", []string{"success", "reject", "wrong_reference"}, []string{"-2", "-2.1"}},
	}
	for i, row := range rows {
		mobile, key := fmt.Sprintf("96%d0000000", i), fmt.Sprintf("addon-%d-key", i)
		w.ScriptProvider(mobile, row.outcomes...)
		o := e2e.Order{"full_name": "Asha", "mobile": mobile, "plan_id": "COMBO-1"}
		first := w.Operate(me, "activate", key, o)
		if first.Code != fault.OK || len(first.Data["warnings"].([]any)) != 1 {
			t.Fatalf("%s: %s", row.what, first.Raw)
		}
		money := w.WalletPaise(me)
		w.WaitUntil(row.what+": the warning is gone", func() bool {
			w.Advance(30 * time.Second)
			return len(w.LookUp(me, key).Data["warnings"].([]any)) == 0
		})
		if replay := w.Operate(me, "activate", key, o); replay.Code != fault.OK || len(replay.Data["warnings"].([]any)) != 0 {
			t.Errorf("%s: replayed as %s", row.what, replay.Raw)
		}
		if w.WalletPaise(me) != money {
			t.Errorf("%s: retrying moved money", row.what)
		}
		var sent []string
		for _, c := range w.Simulator.Calls(mobile) {
			if c.Component == "OTT-PLUS" && c.Kind == "activate" {
				sent = append(sent, c.Reference[len(first.Text("transaction_id")):])
			}
		}
		if fmt.Sprint(sent) != fmt.Sprint(row.references) {
			t.Errorf("%s: sent as %v; want %v", row.what, sent, row.references)
		}
	}

	entries, err := w.Admin.Exceptions(t.Context(), false)
	if err != nil || len(entries) != 1 || entries[0].Kind != "WRONG_ANSWER" || !strings.Contains(entries[0].Detail, "-2.1: ") {
		t.Errorf("exceptions %+v, %v; want one, for the mismatched reply", entries, err)
	}

	w.ScriptProvider("9690000000", "success", "reject", "reject", "reject", "reject", "reject", "reject")
	closed := w.Operate(me, "activate", "addon-closed", e2e.Order{"full_name": "Asha", "mobile": "9690000000", "plan_id": "COMBO-1"})
	id := closed.Text("transaction_id")
	if err := w.Admin.CloseAddon(t.Context(), id, "the customer does not want it"); err != nil {
		t.Fatal(err)
	}
	if err := w.Admin.CloseAddon(t.Context(), id, "again"); err == nil {
		t.Error("closed twice")
	}
	calls := len(w.Simulator.Calls("9690000000"))
	w.Advance(time.Hour)
	if got := w.LookUp(me, "addon-closed"); len(got.Data["warnings"].([]any)) != 1 {
		t.Errorf("after it was closed: %s", got.Raw)
	}
	if now := len(w.Simulator.Calls("9690000000")); now > calls+1 {
		t.Errorf("the provider was called %d more times", now-calls)
	}
	w.CheckAudit()
}
