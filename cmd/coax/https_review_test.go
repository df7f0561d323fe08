package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

// inReview starts an operation that the provider leaves open.
func (w *world) inReview(me caller, endpoint, outcome, mobile, key string) (order, answer) {
	w.t.Helper()
	o := order{"full_name": "Asha", "mobile": mobile, "plan_id": "FAMILY-1"}
	if endpoint != "activate" {
		o = order{"subscriber_id": w.activated(me, mobile, "BASIC-1"), "plan_id": "FAMILY-1"}
	}
	w.script(mobile, outcome)
	got := w.operate(me, endpoint, key, o)
	if got.code != fault.PendingReview {
		w.t.Fatalf("%s %s: %s; want it in review", endpoint, outcome, got.raw)
	}
	return o, got
}

// settled waits until an operation has left review.
func (w *world) settled(me caller, key string) answer {
	w.t.Helper()
	var found answer
	polls := 0
	w.until("the operation "+key+" is settled", func() bool {
		// On a busy machine the provider may not have answered in its time; it is asked
		// again later, and later has to come.
		if polls++; polls%200 == 0 {
			w.pass(10 * time.Second)
		}
		found = w.transaction(me, key)
		return found.text("status") != "needs_review" && found.text("status") != "processing"
	})
	return found
}

// What the provider left open is found out by the service itself, both ways, for
// each operation and each way of leaving it open.
func TestAnOperationInReviewIsSettledByTheService(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "provider.timeout=2s", "review.first_check=10s", "review.refund_after=2m")
	me := w.rich("me", "100000")
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
			before := w.money(me)
			if endpoint != "activate" {
				before[0] -= 199_00
			}
			o, first := w.inReview(me, endpoint, row.outcome, mobile, key)
			if row.want == fault.ProviderError {
				// Not known is not believed at once.
				w.pass(30 * time.Second)
				w.until(what+" has been asked about", func() bool { return w.asked(mobile, "status") >= 1 })
				if still := w.transaction(me, key); still.text("status") != "needs_review" {
					t.Errorf("%s: believed after 30 s: %s", what, still.raw)
				}
			}
			w.pass(row.waits)
			found := w.settled(me, key)
			if found.text("result_code") != string(row.want) || found.text("transaction_id") != first.text("transaction_id") {
				t.Errorf("%s: settled as %s; want %s", what, found.raw, row.want)
			}
			replay := w.operate(me, endpoint, key, o)
			if replay.code != row.want || replay.header.Get("Idempotent-Replayed") != "true" || replay.text("customer.password") != "" {
				t.Errorf("%s: replayed as %s", what, replay.raw)
			}
			w.judgeMoney(what, replay, before, w.money(me), "349")
			if row.want == fault.ProviderError {
				if found.text("reason") != "NOT_CONFIRMED" || w.asked(mobile, "void") == 0 {
					t.Errorf("%s: refunded as %s, after %d voids", what, found.text("reason"), w.asked(mobile, "void"))
				}
				if _, sub := 0, w.send(call{as: me, path: "/api/v1/subscription?mobile=" + mobile}); (sub.code == fault.SubscriberNotFound) != (endpoint == "activate") {
					t.Errorf("%s: afterwards the subscriber is %s", what, sub.raw)
				}
			}
			// The customer is free again.
			w.pass(3 * time.Minute)
			next := w.operate(me, "activate", key+"-next", order{"full_name": "Asha", "mobile": mobile, "plan_id": "BASIC-1"})
			if (next.code == fault.OK) != (endpoint == "activate" && row.want == fault.ProviderError) {
				t.Errorf("%s: an activation afterwards: %s", what, next.raw)
			}
		}
	}
	w.audited()
}

// asked counts the questions of a kind that the provider got about a mobile.
func (w *world) asked(mobile, kind string) int {
	count := 0
	for _, c := range w.simulator.Calls(mobile) {
		if c.Kind == kind {
			count++
		}
	}
	return count
}

// What nobody can find out stays in review, its money held, until a person
// decides; both ways.
func TestAnUnknowableOperationWaitsForAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "provider.timeout=2s", "review.first_check=1s", "review.max_interval=1m", "review.refund_after=2m")
	me := w.rich("me", "100000")
	for i, endpoint := range []string{"activate", "renew", "advance-renew"} {
		for j, confirm := range []bool{true, false} {
			what := fmt.Sprintf("%s, confirmed %v", endpoint, confirm)
			mobile, key := fmt.Sprintf("97%d%d000000", i, j), fmt.Sprintf("person-%d-%d", i, j)
			before := w.money(me)
			if endpoint != "activate" {
				before[0] -= 199_00
			}
			o, first := w.inReview(me, endpoint, "unknowable", mobile, key)
			id := first.text("transaction_id")
			w.until(what+" is on the list for a person", func() bool {
				w.pass(time.Minute)
				operations, err := w.desk.InReview(t.Context())
				return err == nil && len(operations) == 1 && operations[0].ID == id && operations[0].NeedsPerson
			})
			if got := w.transaction(me, key); got.text("status") != "needs_review" || got.text("wallet.held") != "true" {
				t.Errorf("%s: meanwhile it is %s", what, got.raw)
			}
			if _, err := w.desk.SettleReview(t.Context(), id, confirm, "asked them on the phone"); err != nil {
				t.Fatal(err)
			}
			if _, err := w.desk.SettleReview(t.Context(), id, !confirm, "changed my mind"); err == nil {
				t.Errorf("%s: settled twice", what)
			}
			want, reason := fault.OK, ""
			if !confirm {
				want, reason = fault.ProviderError, "REJECTED_BY_REVIEW"
			}
			replay := w.operate(me, endpoint, key, o)
			if replay.code != want || replay.text("reason") != reason {
				t.Errorf("%s: replayed as %s", what, replay.raw)
			}
			w.judgeMoney(what, replay, before, w.money(me), "349")
			w.pass(3 * time.Minute)
		}
	}
	w.audited()
}

// A success that turns up after a refund changes no money: it is an exception.
func TestALateSuccessAfterARefundIsForAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "provider.timeout=2s", "review.first_check=1h", "review.max_interval=1h")
	me := w.rich("me", "1000")
	_, first := w.inReview(me, "activate", "timeout_applied", "9811111111", "late-success")
	if _, err := w.desk.SettleReview(t.Context(), first.text("transaction_id"), false, "they said no"); err != nil {
		t.Fatal(err)
	}
	money := w.money(me)
	w.pass(11 * time.Minute)
	w.until("the exception is raised", func() bool {
		entries, err := w.desk.Exceptions(t.Context(), false)
		return err == nil && len(entries) == 1 && entries[0].TransactionID == first.text("transaction_id") && entries[0].Kind == "LATE_SUCCESS"
	})
	if got := w.transaction(me, "late-success"); got.text("status") != "failed" || w.money(me) != money || money != [2]int64{1000_00, 0} {
		t.Errorf("the money moved: %s, %v", got.raw, w.money(me))
	}
	entries, err := w.desk.Exceptions(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.desk.CloseException(t.Context(), entries[0].ID, "charged by hand"); err != nil {
		t.Fatal(err)
	}
	if err := w.desk.CloseException(t.Context(), entries[0].ID, "again"); err == nil {
		t.Error("closed twice")
	}
	w.audited()
}

// What a person refunds the provider is told never to carry out, as often as it
// takes until it answers: an order may still be on its way.
func TestARefundByAPersonIsVoidedAtTheProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "provider.timeout=2s", "review.first_check=1h", "review.max_interval=1m")
	me := w.rich("me", "1000")
	_, first := w.inReview(me, "activate", "gateway_error", "9822222222", "refunded-order")
	w.steer("status", `{"mode":"down"}`)
	if _, err := w.desk.SettleReview(t.Context(), first.text("transaction_id"), false, "they said no"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		w.pass(2 * time.Minute) // nobody answers, five times over
	}
	w.steer("status", `{"mode":"up"}`)
	w.until("the provider has been told", func() bool {
		w.pass(2 * time.Minute)
		return w.asked("9822222222", "void") == 1
	})
	w.audited()
}

// A failed add-on is followed up until it works, each attempt after a definite
// rejection under a reference of its own, or until a person closes the matter.
func TestAMissingAddonIsFollowedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "provider.timeout=2s", "review.first_check=10s", "review.max_interval=1m")
	me := w.rich("me", "100000")
	rows := []struct {
		what       string
		outcomes   []string
		references []string // of the calls for the add-on that could carry it out
	}{
		{"rejected twice", []string{"success", "reject", "reject", "success"}, []string{"-2", "-2.1", "-2.2"}},
		{"not answered, and not carried out", []string{"success", "timeout_not_applied", "success"}, []string{"-2", "-2"}},
		{"not answered, but carried out", []string{"success", "timeout_applied"}, []string{"-2"}},
		{"answered about something else when it was followed up", []string{"success", "reject", "wrong_reference"}, []string{"-2", "-2.1"}},
	}
	for i, row := range rows {
		mobile, key := fmt.Sprintf("96%d0000000", i), fmt.Sprintf("addon-%d-key", i)
		w.script(mobile, row.outcomes...)
		o := order{"full_name": "Asha", "mobile": mobile, "plan_id": "COMBO-1"}
		first := w.operate(me, "activate", key, o)
		if first.code != fault.OK || len(first.data["warnings"].([]any)) != 1 {
			t.Fatalf("%s: %s", row.what, first.raw)
		}
		money := w.money(me)
		w.until(row.what+": the warning is gone", func() bool {
			w.pass(30 * time.Second)
			return len(w.transaction(me, key).data["warnings"].([]any)) == 0
		})
		if replay := w.operate(me, "activate", key, o); replay.code != fault.OK || len(replay.data["warnings"].([]any)) != 0 {
			t.Errorf("%s: replayed as %s", row.what, replay.raw)
		}
		if w.money(me) != money {
			t.Errorf("%s: following it up moved money", row.what)
		}
		var sent []string
		for _, c := range w.simulator.Calls(mobile) {
			if c.Component == "OTT-PLUS" && c.Kind == "activate" {
				sent = append(sent, c.Reference[len(first.text("transaction_id")):])
			}
		}
		if fmt.Sprint(sent) != fmt.Sprint(row.references) {
			t.Errorf("%s: sent as %v; want %v", row.what, sent, row.references)
		}
	}

	entries, err := w.desk.Exceptions(t.Context(), false)
	if err != nil || len(entries) != 1 || entries[0].Kind != "WRONG_ANSWER" || !strings.Contains(entries[0].Detail, "-2.1: ") {
		t.Errorf("exceptions %+v, %v; want one, for the answer about something else", entries, err)
	}

	w.script("9690000000", "success", "reject", "reject", "reject", "reject", "reject", "reject")
	closed := w.operate(me, "activate", "addon-closed", order{"full_name": "Asha", "mobile": "9690000000", "plan_id": "COMBO-1"})
	id := closed.text("transaction_id")
	if err := w.desk.CloseAddon(t.Context(), id, "the customer does not want it"); err != nil {
		t.Fatal(err)
	}
	if err := w.desk.CloseAddon(t.Context(), id, "again"); err == nil {
		t.Error("closed twice")
	}
	asked := len(w.simulator.Calls("9690000000"))
	w.pass(time.Hour)
	if got := w.transaction(me, "addon-closed"); len(got.data["warnings"].([]any)) != 1 {
		t.Errorf("after it was closed: %s", got.raw)
	}
	if now := len(w.simulator.Calls("9690000000")); now > asked+1 {
		t.Errorf("the provider was asked %d more times", now-asked)
	}
	w.audited()
}
