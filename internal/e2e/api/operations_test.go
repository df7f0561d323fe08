package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

// Every refusal before the reservation changes nothing.
func TestRefusal_BeforeReserveChangesNothing(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.timeout=2s", "limits.failed_auth_per_minute=100000", "review.first_check=1h")
	me, poor := w.NewFundedOperator("me", "5000"), w.NewFundedOperator("poor", "198.99")
	other := w.NewFundedOperator("other", "5000")
	subscriber := w.Activate(me, "9811111111", "BASIC-1")
	w.Activate(other, "9822222222", "BASIC-1")
	poorOnes := w.NewFundedOperator("poor later", "199")
	theirs := w.Activate(poorOnes, "9844444444", "BASIC-1")
	busy := w.Activate(me, "9833333333", "BASIC-1")
	w.ScriptProvider("9833333333", "timeout_not_applied")
	if got := w.Operate(me, "renew", "in-review-1", e2e.Order{"subscriber_id": busy, "plan_id": "BASIC-1"}); got.Code != fault.PendingReview {
		t.Fatalf("in review: %s", got.Raw)
	}
	if got := w.Operate(me, "renew", "renewed-just-now", e2e.Order{"subscriber_id": subscriber, "plan_id": "FAMILY-1"}); got.Code != fault.OK {
		t.Fatalf("renewed: %s", got.Raw)
	}
	calls := w.ProviderOrders()
	good := e2e.Order{"full_name": "Asha", "mobile": "9855555555", "plan_id": "BASIC-1"}
	with := func(o e2e.Order, name, value string) e2e.Order {
		changed := maps.Clone(o)
		changed[name] = value
		return changed
	}
	renewal := e2e.Order{"subscriber_id": subscriber, "plan_id": "BASIC-1"}
	rows := []struct {
		what     string
		as       e2e.Caller
		endpoint string
		key      string
		order    e2e.Order
		want     fault.Code
	}{
		{"a bad field", me, "activate", "fresh-key-1", with(good, "mobile", "98"), fault.ValidationError},
		{"no plan", me, "activate", "fresh-key-2", with(good, "plan_id", ""), fault.ValidationError},
		{"an unknown plan", me, "activate", "fresh-key-3", with(good, "plan_id", "NONE-1"), fault.InvalidPlan},
		{"a known mobile", me, "activate", "fresh-key-4", with(good, "mobile", "9811111111"), fault.SubscriberExists},
		{"another operator's mobile", me, "activate", "fresh-key-5", with(good, "mobile", "9822222222"), fault.SubscriberExists},
		{"too little money", poor, "activate", "fresh-key-6", good, fault.InsufficientBalance},
		{"no money at all", poorOnes, "renew", "fresh-key-7", e2e.Order{"subscriber_id": theirs, "plan_id": "BASIC-1"}, fault.InsufficientBalance},
		{"an unknown subscriber", me, "renew", "fresh-key-8", with(renewal, "subscriber_id", "000000"), fault.SubscriberNotFound},
		{"another operator's subscriber", other, "renew", "fresh-key-9", renewal, fault.SubscriberNotFound},
		{"a busy customer", me, "renew", "fresh-key-10", e2e.Order{"subscriber_id": busy, "plan_id": "BASIC-1"}, fault.OperationInProgress},
		{"a duplicate", me, "renew", "fresh-key-11", with(renewal, "plan_id", "FAMILY-1"), fault.DuplicateRequest},
		{"a duplicate in advance", me, "advance-renew", "fresh-key-12", with(renewal, "plan_id", "FAMILY-1"), fault.DuplicateRequest},
		{"a known key with another body", me, "renew", "renewed-just-now", renewal, fault.IdempotencyKeyReused},
		{"a known key at another endpoint", me, "advance-renew", "renewed-just-now", with(renewal, "plan_id", "FAMILY-1"), fault.IdempotencyKeyReused},
		{"a replay", me, "renew", "renewed-just-now", with(renewal, "plan_id", "FAMILY-1"), fault.OK},
		{"a replay of what is in review", me, "renew", "in-review-1", e2e.Order{"subscriber_id": busy, "plan_id": "BASIC-1"}, fault.PendingReview},
	}
	for _, row := range rows {
		w.CheckUnchanged(row.what, func() {
			if got := w.Operate(row.as, row.endpoint, row.key, row.order); got.Code != row.want {
				t.Errorf("%s: %d %s (%s); want %s", row.what, got.Status, got.Code, got.Message, row.want)
			}
		})
	}
	w.Advance(3 * time.Minute)
	w.CheckUnchanged("the active plan in advance", func() {
		if got := w.Operate(me, "advance-renew", "fresh-key-13", with(renewal, "plan_id", "FAMILY-1")); got.Code != fault.PlanAlreadyActive {
			t.Errorf("the active plan in advance: %s; want PLAN_ALREADY_ACTIVE", got.Raw)
		}
	})
	if now := w.ProviderOrders(); now != calls {
		t.Errorf("the provider was called %d times for refused requests", now-calls)
	}
	w.CheckAudit()
}

// Success, rejection and a slow success of each operation.
func TestOperations_ProviderOutcomes(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me := w.NewFundedOperator("me", "100000")
	rows := []struct {
		endpoint, operation, outcome string
		code                         fault.Code
		status                       string
	}{
		{"activate", "activate", "success", fault.OK, "success"},
		{"renew", "renew", "success", fault.OK, "success"},
		{"advance-renew", "advance_renew", "success", fault.OK, "success"},
		{"activate", "activate", "slow", fault.OK, "success"},
		{"renew", "renew", "slow", fault.OK, "success"},
		{"advance-renew", "advance_renew", "slow", fault.OK, "success"},
		{"activate", "activate", "reject", fault.ProviderError, "failed"},
		{"renew", "renew", "reject", fault.ProviderError, "failed"},
		{"advance-renew", "advance_renew", "reject", fault.ProviderError, "failed"},
	}
	digit := map[string]string{"success": "0", "reject": "1", "slow": "7"}
	for i, row := range rows {
		what := row.endpoint + " " + row.outcome
		mobile := fmt.Sprintf("90000%s%04d", digit[row.outcome], i)
		o := e2e.Order{"full_name": "Asha", "mobile": mobile, "plan_id": "FAMILY-1"}
		if row.endpoint != "activate" {
			w.ScriptProvider(mobile, "success") // the activation succeeds whatever the number
			o = e2e.Order{"subscriber_id": w.Activate(me, mobile, "BASIC-1"), "plan_id": "FAMILY-1"}
		}
		before := w.WalletPaise(me)
		key := fmt.Sprintf("outcome-%d", i)
		got := w.Operate(me, row.endpoint, key, o)
		if got.Code != row.code || got.Text("status") != row.status || got.Text("operation") != row.operation || got.Success != (row.code == fault.OK) {
			t.Errorf("%s: %s", what, got.Raw)
			continue
		}
		w.CheckWallet(what, got, before, w.WalletPaise(me), "349")
		w.CheckReplayAndLookup(what, me, key, row.endpoint, o, got)
		if row.status == "failed" {
			if got.Text("reason") != "PROVIDER_REJECTED" || got.Text("provider_message") == "" || got.Text("expiry.new") != "" || got.Text("customer.password") != "" {
				t.Errorf("%s: %s", what, got.Raw)
			}
			// A new attempt with a new key succeeds.
			w.ScriptProvider(mobile, "success")
			if again := w.Operate(me, row.endpoint, key+"-again", o); again.Code != fault.OK {
				t.Errorf("%s, again with a new key: %s", what, again.Raw)
			}
		}
	}
	w.CheckAudit()
}

// Every kind of unknown outcome holds the money and answers 202.
func TestUnknownOutcome_HoldsMoneyAndAnswers202(t *testing.T) {
	t.Parallel()
	outcomes := map[string]string{"2": "timeout_applied", "3": "timeout_not_applied", "4": "gateway_error", "5": "wrong_reference", "8": "unknowable", "9": "reset_applied"}
	e2e.RunConcurrently(t, []string{"activate", "renew", "advance-renew"}, strings.Clone, func(t *testing.T, endpoint string) {
		w := e2e.NewEnv(t, "provider.timeout=2s", "review.first_check=1h")
		me := w.NewFundedOperator("me", "100000")
		for digit, outcome := range outcomes {
			mobile := fmt.Sprintf("90000%s0001", digit)
			o := e2e.Order{"full_name": "Asha", "mobile": mobile, "plan_id": "FAMILY-1"}
			if endpoint != "activate" {
				w.ScriptProvider(mobile, "success")
				o = e2e.Order{"subscriber_id": w.Activate(me, mobile, "BASIC-1"), "plan_id": "FAMILY-1"}
			}
			before := w.WalletPaise(me)
			key := "pending-" + digit
			got := w.Operate(me, endpoint, key, o)
			if got.Code != fault.PendingReview || got.Status != 202 || got.Success || got.Text("status") != "needs_review" {
				t.Errorf("%s: %d %s", outcome, got.Status, got.Raw)
				continue
			}
			w.CheckWallet(outcome, got, before, w.WalletPaise(me), "349")
			w.CheckReplayAndLookup(outcome, me, key, endpoint, o, got)
			if endpoint == "activate" && len(got.Text("customer.password")) != 12 {
				t.Errorf("%s: no password in the first answer: %s", outcome, got.Raw)
			}
			sub := w.Send(e2e.Call{As: me, Path: "/api/v1/subscription?mobile=" + mobile})
			pending, _ := sub.Data["pending_operations"].([]any)
			if len(pending) != 1 || (endpoint == "activate") != (sub.Text("status") == "pending") {
				t.Errorf("%s: the subscriber is shown as %s", outcome, sub.Raw)
			}
			next := w.Operate(me, "renew", key+"-next", e2e.Order{"mobile": mobile, "plan_id": "FAMILY-1"})
			if next.Code != fault.OperationInProgress {
				t.Errorf("%s: another operation meanwhile: %s", outcome, next.Code)
			}
		}
		// A mismatched reply is an exception for staff; no reply is not.
		entries, err := w.Admin.Exceptions(t.Context(), false)
		if err != nil || len(entries) != 1 || entries[0].Kind != "WRONG_ANSWER" || !strings.Contains(entries[0].Detail, "another reference") {
			t.Errorf("exceptions %+v, %v; want one, for the wrong reference", entries, err)
		}
		w.CheckAudit()
	})
}

func TestUnreachableProvider_RefundsAtOnce(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "provider.url=http://127.0.0.1:1")
	me := w.NewFundedOperator("me", "1000")
	before := w.WalletPaise(me)
	got := w.Operate(me, "activate", "unreachable-1", e2e.Order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "FAMILY-1"})
	if got.Code != fault.ProviderError || got.Text("reason") != "PROVIDER_UNREACHABLE" || got.Text("provider_message") == "" {
		t.Errorf("%s", got.Raw)
	}
	w.CheckWallet("unreachable provider", got, before, w.WalletPaise(me), "349")
	if sub := w.Send(e2e.Call{As: me, Path: "/api/v1/subscription?mobile=9811111111"}); sub.Code != fault.SubscriberNotFound {
		t.Errorf("the subscriber remains: %s", sub.Raw)
	}
	w.CheckAudit()
}

// A combo orders twice, main first. A failed add-on leaves a success with a warning and
// the full charge.
func TestCombo_OrdersMainThenAddon(t *testing.T) {
	t.Parallel()
	rows := []struct {
		what     string
		outcomes []string
		code     fault.Code
		warned   bool
		calls    int
	}{
		{"both work", []string{"success", "success"}, fault.OK, false, 2},
		{"the add-on is rejected", []string{"success", "reject"}, fault.OK, true, 2},
		{"no reply for the add-on", []string{"success", "timeout_applied"}, fault.OK, true, 2},
		{"main is rejected", []string{"reject"}, fault.ProviderError, false, 1},
		{"no reply for main", []string{"timeout_not_applied"}, fault.PendingReview, false, 1},
	}
	e2e.RunConcurrently(t, []string{"activate", "renew", "advance-renew"}, strings.Clone, func(t *testing.T, endpoint string) {
		w := e2e.NewEnv(t, "provider.timeout=2s", "review.first_check=1h")
		me := w.NewFundedOperator("me", "100000")
		for i, row := range rows {
			mobile := fmt.Sprintf("98000000%02d", i)
			o := e2e.Order{"full_name": "Asha", "mobile": mobile, "plan_id": "COMBO-1"}
			earlier := 0
			if endpoint != "activate" {
				o = e2e.Order{"subscriber_id": w.Activate(me, mobile, "BASIC-1"), "plan_id": "COMBO-1"}
				earlier = 1
			}
			w.ScriptProvider(mobile, row.outcomes...)
			before := w.WalletPaise(me)
			key := fmt.Sprintf("combo-%03d", i)
			got := w.Operate(me, endpoint, key, o)
			warned := len(got.Data["warnings"].([]any)) == 1
			if got.Code != row.code || warned != row.warned {
				t.Errorf("%s: %s", row.what, got.Raw)
			}
			w.CheckWallet(row.what, got, before, w.WalletPaise(me), "499")
			w.CheckReplayAndLookup(row.what, me, key, endpoint, o, got)
			calls := w.Simulator.Calls(mobile)[earlier:]
			if len(calls) != row.calls || calls[0].Component != "TV-FAMILY" || calls[0].Reference != got.Text("transaction_id") ||
				(row.calls == 2 && (calls[1].Component != "OTT-PLUS" || calls[1].Reference != got.Text("transaction_id")+"-2")) {
				t.Errorf("%s: the provider calls are %+v", row.what, calls)
			}
		}
		w.CheckAudit()
	})
}

func TestPrice_ChangeAppliesClientPriceIgnored(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me := w.NewFundedOperator("me", "10000")
	first := w.Send(e2e.Call{
		As: me, Method: "POST", Path: "/api/v1/activate", Body: `{"full_name":"A","mobile":"9811111111","plan_id":"BASIC-1","price":"1.00","amount":0.01}`,
	})
	if first.Text("amount") != "199" {
		t.Errorf("with a price of the client's own: %s", first.Raw)
	}
	plans, err := w.Admin.Plans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	basic := plans[slices.IndexFunc(plans, func(p subscription.Plan) bool { return p.ID == "BASIC-1" })]
	basic.Price = e2e.Rupees(t, "209.50")
	if _, err := w.Admin.SetPlan(t.Context(), basic); err != nil {
		t.Fatal(err)
	}
	if got := w.Operate(me, "renew", "new-price-1", e2e.Order{"mobile": "9811111111", "plan_id": "BASIC-1"}); got.Text("amount") != "209.5" {
		t.Errorf("after the change: %s", got.Raw)
	}
	w.CheckAudit()
}
