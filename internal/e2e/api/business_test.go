package api

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// bizWindow is how long an equal renewal counts as a duplicate.
const bizWindow = 2 * time.Minute

func bizRenewal(c bizCustomer, plan string) string {
	return bizBody{"subscriber_id": c.id, "plan_id": plan}.json()
}

// The five rows of the contract's table on duplicate protection.
func TestDuplicateProtection(t *testing.T) {
	b := newBiz(t, "provider.timeout=5m")
	b.run(t, "the window is two minutes to the millisecond", bizDuplicateWindow)
	b.run(t, "what does not count as a duplicate", bizNoDuplicates)
	other := b.NewFundedOperator("other", "10000")

	b.run(t, "same key, same body: original result replayed", func(t *testing.T, b *bizEnv) {
		for _, endpoint := range bizEndpoints {
			key, body := b.key(), b.good(endpoint).json()
			first := b.must(endpoint, b.post(b.me, endpoint, key, body), fault.OK)
			b.checkNoCharge(endpoint+" again", func() {
				again := b.must(endpoint+" again", b.post(b.me, endpoint, key, body), fault.OK)
				b.mustShow(endpoint+" again", again, map[string]string{"transaction_id": first.Text("transaction_id"), "idempotency_key": key})
				if again.Header.Get("Idempotent-Replayed") != "true" {
					t.Errorf("%s again: %v", endpoint, again.Header)
				}
			})
		}
	})
	b.run(t, "activation of a mobile number already existing in the service: SUBSCRIBER_EXISTS", func(t *testing.T, b *bizEnv) {
		mine := b.good("activate")
		b.must("the first", b.post(b.me, "activate", b.key(), mine.json()), fault.OK)
		b.checkNoCharge("the second", func() {
			b.must("the same again, new key", b.post(b.me, "activate", b.key(), mine.json()), fault.SubscriberExists)
			b.must("with other words", b.post(b.me, "activate", b.key(), mine.with("full_name", "B").with("plan_id", "FAMILY-3").json()), fault.SubscriberExists)
			b.must("by another operator", b.post(other, "activate", b.key(), mine.json()), fault.SubscriberExists)
		})
		b.advance(40 * bizDay)
		b.must("after it has expired", b.post(b.me, "activate", b.key(), mine.json()), fault.SubscriberExists)
	})
	b.run(t, "same subscriber and same plan renewed within 2 minutes, new key: DUPLICATE_REQUEST", func(t *testing.T, b *bizEnv) {
		c := b.customer(b.me, "BASIC-1")
		first := b.must("the first", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-1")), fault.OK)
		b.checkNoCharge("the second", func() {
			got := b.must("the second", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-1")), fault.DuplicateRequest)
			b.mustShow("the second", got, map[string]string{"previous_transaction_id": first.Text("transaction_id")})
			b.must("by its mobile", b.post(b.me, "renew", b.key(), bizBody{"mobile": c.mobile, "plan_id": "FAMILY-1"}.json()), fault.DuplicateRequest)
		})
	})
	b.run(t, "two simultaneous requests for the same customer: one runs, the other gets OPERATION_IN_PROGRESS", func(t *testing.T, b *bizEnv) {
		c := b.customer(b.me, "BASIC-1")
		renewal, activation := b.key(), b.key()
		b.hold(bizCall(b.me, "renew", renewal, bizRenewal(c, "FAMILY-1")), c.mobile)
		fresh := b.good("activate")
		b.hold(bizCall(b.me, "activate", activation, fresh.json()), fresh["mobile"].(string))
		// The answer names the running operation, which is the caller's own.
		named := func(what, key string, got e2e.Answer) {
			t.Helper()
			b.must(what, got, fault.OperationInProgress)
			b.mustShow(what, got, map[string]string{"transaction_id": b.LookUp(b.me, key).Text("transaction_id")})
		}
		b.checkNoCharge("the other", func() {
			for _, endpoint := range bizEndpoints[1:] {
				for _, plan := range []string{"FAMILY-1", "BASIC-1", "COMBO-1"} {
					named("the other "+endpoint+" with "+plan, renewal, b.post(b.me, endpoint, b.key(), bizRenewal(c, plan)))
				}
			}
			named("the other activation", activation, b.post(b.me, "activate", b.key(), fresh.json()))
			named("a renewal before it is activated", activation, b.post(b.me, "renew", b.key(), bizBody{"mobile": fresh["mobile"], "plan_id": "BASIC-1"}.json()))
			foreign := b.must("another operator's activation", b.post(other, "activate", b.key(), fresh.json()), fault.OperationInProgress)
			if mine := b.LookUp(b.me, activation).Text("transaction_id"); len(foreign.Data) != 0 || mine == "" || bytes.Contains(foreign.Raw, []byte(mine)) {
				t.Errorf("the answer to another operator has transaction %s: %s", mine, foreign.Raw)
			}
			b.must("another operator's renewal", b.post(other, "renew", b.key(), bizBody{"mobile": fresh["mobile"], "plan_id": "BASIC-1"}.json()), fault.SubscriberNotFound)
		})
		// Other customers are not affected.
		b.must("another customer meanwhile", b.post(b.me, "renew", b.key(), b.good("renew").json()), fault.OK)
	})
	b.run(t, "advance renewal onto the currently active plan: PLAN_ALREADY_ACTIVE", func(t *testing.T, b *bizEnv) {
		c := b.customer(b.me, "BASIC-1")
		b.checkNoCharge("the active plan", func() {
			b.must("the active plan", b.post(b.me, "advance-renew", b.key(), bizRenewal(c, "BASIC-1")), fault.PlanAlreadyActive)
		})
		b.must("a renewal with it", b.post(b.me, "renew", b.key(), bizRenewal(c, "BASIC-1")), fault.OK)
	})
	b.CheckAudit()
}

func bizDuplicateWindow(t *testing.T, b *bizEnv) {
	for _, first := range bizEndpoints[1:] {
		for _, second := range bizEndpoints[1:] {
			what := second + " after " + first
			c := b.customer(b.me, "BASIC-1")
			earlier := b.must(what, b.post(b.me, first, b.key(), bizRenewal(c, "FAMILY-1")), fault.OK)
			b.checkNoCharge(what, func() {
				for _, wait := range []time.Duration{0, bizWindow - time.Millisecond} {
					b.advance(wait)
					got := b.must(fmt.Sprintf("%s by %s", what, wait), b.post(b.me, second, b.key(), bizRenewal(c, "FAMILY-1")), fault.DuplicateRequest)
					b.mustShow(what, got, map[string]string{"previous_transaction_id": earlier.Text("transaction_id")})
				}
			})
			b.must(what+", another plan meanwhile", b.post(b.me, second, b.key(), bizRenewal(c, "FAMILY-3")), fault.OK)
			b.advance(time.Millisecond)
			want := fault.OK
			if first == "renew" && second == "advance-renew" {
				// Not a duplicate any more, but the renewal made the plan active;
				// FAMILY-3 is only booked.
				want = fault.PlanAlreadyActive
			}
			b.must(what+" by two minutes", b.post(b.me, second, b.key(), bizRenewal(c, "FAMILY-1")), want)
		}
	}
}

func bizNoDuplicates(t *testing.T, b *bizEnv) {
	c := b.customer(b.me, "FAMILY-1")
	b.must("after an activation with the plan", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-1")), fault.OK)

	c = b.customer(b.me, "BASIC-1")
	b.ScriptProvider(c.mobile, "reject")
	b.must("a rejected renewal", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-1")), fault.ProviderError)
	b.must("after a failure", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-1")), fault.OK)

	sibling := b.customer(b.me, "BASIC-1")
	b.must("another subscriber", b.post(b.me, "renew", b.key(), bizRenewal(sibling, "FAMILY-1")), fault.OK)
	b.must("still a duplicate of the second try", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-1")), fault.DuplicateRequest)

	// A refused request does not restart the window.
	b.advance(bizWindow)
	b.must("after the window", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-1")), fault.OK)

	// The answer names the latest renewal; the window starts at its completion.
	c = b.customer(b.me, "BASIC-1")
	inReview := b.leaveInReview(b.me, "renew", c.mobile, bizBody{"subscriber_id": c.id, "plan_id": "FAMILY-1"})
	b.advance(bizWindow)
	b.settle(b.me, inReview, operation.Success)
	b.advance(bizWindow - time.Millisecond)
	got := b.must("settled within the window", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-1")), fault.DuplicateRequest)
	b.mustShow("settled within the window", got, map[string]string{"previous_transaction_id": inReview})
	b.advance(time.Millisecond)
	b.must("two minutes after the settlement", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-1")), fault.OK)

	// A renewal that failed in review does not count.
	c = b.customer(b.me, "BASIC-1")
	inReview = b.leaveInReview(b.me, "renew", c.mobile, bizBody{"subscriber_id": c.id, "plan_id": "FAMILY-1"})
	b.settle(b.me, inReview, operation.Failed)
	b.must("after an unconfirmed one", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-1")), fault.OK)
}

func TestActivePlan_FollowsTheClock(t *testing.T) {
	b := newBiz(t)
	shown := func(what string, c bizCustomer, plan, status string) {
		t.Helper()
		b.mustShow(what, b.get(b.me, "subscription?subscriber_id="+c.id), map[string]string{"plan.id": plan, "status": status})
	}
	refused := func(what string, c bizCustomer, plan string) {
		t.Helper()
		b.checkNoCharge(what, func() {
			b.must(what, b.post(b.me, "advance-renew", b.key(), bizRenewal(c, plan)), fault.PlanAlreadyActive)
		})
	}
	// A renewal changes the plan at once.
	c := b.customer(b.me, "BASIC-1")
	shown("activated", c, "BASIC-1", "active")
	b.must("renew onto another plan", b.post(b.me, "renew", b.key(), bizRenewal(c, "FAMILY-3")), fault.OK)
	shown("renewed", c, "FAMILY-3", "active")
	b.advance(bizWindow)
	refused("the plan renewed onto", c, "FAMILY-3")
	b.must("the plan of before", b.post(b.me, "advance-renew", b.key(), bizRenewal(c, "BASIC-1")), fault.OK)
	shown("booked ahead", c, "FAMILY-3", "active")

	// An advance renewal changes it on its start date, at midnight in India.
	c = b.customer(b.me, "BASIC-1")
	b.advance(20 * bizDay)
	booked := b.must("book ahead", b.post(b.me, "advance-renew", b.key(), bizRenewal(c, "COMBO-1")), fault.OK)
	start, err := time.ParseInLocation("2006-01-02", booked.Text("expiry.start_date"), bizIST)
	if err != nil {
		t.Fatal(err)
	}
	b.advance(bizWindow)
	refused("the plan that still runs", c, "BASIC-1")
	b.advance(start.Sub(b.Now()) - time.Millisecond)
	shown("a millisecond before the start date", c, "BASIC-1", "active")
	refused("the plan that still runs, a millisecond before", c, "BASIC-1")
	b.advance(time.Millisecond)
	shown("on the start date", c, "COMBO-1", "active")
	refused("the plan that has begun", c, "COMBO-1")
	b.must("the plan that has ended", b.post(b.me, "advance-renew", b.key(), bizRenewal(c, "BASIC-1")), fault.OK)

	// The booked plan is not active yet, so it may be booked once more.
	c = b.customer(b.me, "BASIC-1")
	b.must("book", b.post(b.me, "advance-renew", b.key(), bizRenewal(c, "COMBO-1")), fault.OK)
	b.advance(bizWindow)
	b.must("book once more", b.post(b.me, "advance-renew", b.key(), bizRenewal(c, "COMBO-1")), fault.OK)

	// An expired subscriber has no active plan; the plan is active to the last millisecond.
	c = b.customer(b.me, "BASIC-1")
	b.advance(30*bizDay - time.Millisecond)
	refused("in the last millisecond", c, "BASIC-1")
	b.advance(time.Millisecond)
	shown("at the expiry", c, "BASIC-1", "expired")
	b.must("the last plan, expired", b.post(b.me, "advance-renew", b.key(), bizRenewal(c, "BASIC-1")), fault.OK)
	b.CheckAudit()
}

func TestAmounts_InAnswers(t *testing.T) {
	b := newBiz(t)
	b.run(t, "the wallet must cover the price, and the shortfall is reported", bizShortfall)
	b.run(t, "messages say what happened, and amounts have two decimals", bizMessages)
	b.CheckAudit()
}

func bizShortfall(t *testing.T, b *bizEnv) {
	rows := []struct{ plan, price, wallet, shortfall string }{
		{"BASIC-1", "199.00", "198.99", "0.01"},
		{"BASIC-1", "199.00", "0.01", "198.99"},
		{"BASIC-1", "199.00", "0.00", "199.00"},
		{"FAMILY-3", "999.00", "349.50", "649.50"},
		{"COMBO-1", "499.00", "498.90", "0.10"},
		{b.plan("CHEAP", "0.01", 1), "0.01", "0.00", "0.01"},
		{b.plan("DEAR", "100000.07", 1), "100000.07", "99999.98", "0.09"},
	}
	for _, endpoint := range bizEndpoints {
		poor := b.NewFundedOperator("poor at "+endpoint, "100")
		b.TopUp(poor, "199")
		c := b.customer(poor, "BASIC-1")
		for _, row := range rows {
			b.setBalance(poor, row.wallet)
			body := bizRenewal(c, row.plan)
			if endpoint == "activate" {
				body = b.good("activate").with("plan_id", row.plan).json()
			}
			if endpoint == "advance-renew" && row.plan == "BASIC-1" {
				continue // the active plan
			}
			what := fmt.Sprintf("%s for %s with %s", endpoint, row.price, row.wallet)
			orders := b.orders()
			got := b.must(what, b.post(poor, endpoint, b.key(), body), fault.InsufficientBalance)
			for name, amount := range map[string]string{"wallet_balance": row.wallet, "required_amount": row.price, "shortfall": row.shortfall} {
				if !strings.Contains(string(got.Raw), fmt.Sprintf(`"%s":%s,`, name, amount)) && !strings.Contains(string(got.Raw), fmt.Sprintf(`"%s":%s}`, name, amount)) {
					t.Errorf("%s: %s is not %s in %s", what, name, amount, got.Raw)
				}
			}
			b.mustShow(what, got, map[string]string{"currency": "INR"})
			if !strings.Contains(got.Message, row.shortfall) {
				t.Errorf("%s: the message %q does not name the shortfall", what, got.Message)
			}
			if len(got.Data) != 4 || b.orders() != orders {
				t.Errorf("%s: %s, and %d orders", what, got.Raw, b.orders()-orders)
			}
		}
		// A balance equal to the price is enough.
		b.setBalance(poor, "349")
		body := bizRenewal(c, "FAMILY-1")
		if endpoint == "activate" {
			body = b.good("activate").with("plan_id", "FAMILY-1").json()
		}
		got := b.must(endpoint+" for all there is", b.post(poor, endpoint, b.key(), body), fault.OK)
		b.mustShow(endpoint+" for all there is", got, map[string]string{"wallet.before": "349", "wallet.after": "0", "wallet.charged": "349"})
	}
}

func bizMessages(t *testing.T, b *bizEnv) {
	b.plan("ODD", "249.50", 2)
	amount := regexp.MustCompile(`"(amount|before|after|charged|wallet_balance|required_amount|shortfall|price)":([^,}]*)`)
	two := regexp.MustCompile(`^-?(0|[1-9][0-9]*)\.[0-9]{2}$`)
	decimals := func(what string, got e2e.Answer, minimum int) {
		t.Helper()
		found := amount.FindAllStringSubmatch(string(got.Raw), -1)
		for _, one := range found {
			if !two.MatchString(one[2]) {
				t.Errorf("%s: %s is written %s", what, one[1], one[2])
			}
		}
		if len(found) < minimum {
			t.Errorf("%s: only %d amounts in %s", what, len(found), got.Raw)
		}
	}
	activation := b.good("activate").with("plan_id", "ODD")
	got := b.must("activate", b.post(b.me, "activate", b.key(), activation.json()), fault.OK)
	if !strings.Contains(strings.ToLower(got.Message), "activated") {
		t.Errorf("the message %q does not say that the subscriber was activated", got.Message)
	}
	decimals("activate", got, 4)
	c := bizCustomer{got.Text("customer.subscriber_id"), got.Text("customer.mobile")}
	for _, plan := range []string{"ODD", "BASIC-1"} {
		renewed := b.must("renew", b.post(b.me, "renew", b.key(), bizRenewal(c, plan)), fault.OK)
		if renewed.Message == got.Message || renewed.Message == "" {
			t.Errorf("a renewal says %q", renewed.Message)
		}
		decimals("renew", renewed, 4)
	}
	booked := b.must("advance-renew", b.post(b.me, "advance-renew", b.key(), bizRenewal(c, "FAMILY-3")), fault.OK)
	decimals("advance-renew", booked, 4)
	decimals("transaction", b.get(b.me, "transaction?transaction_id="+booked.Text("transaction_id")), 4)
	decimals("balance", b.get(b.me, "balance"), 1)
	decimals("plans", b.get(b.me, "plans"), 5)
	b.ScriptProvider(c.mobile, "reject")
	decimals("a rejection", b.must("a rejection", b.post(b.me, "renew", b.key(), bizRenewal(c, "COMBO-1")), fault.ProviderError), 4)
	b.leaveInReview(b.me, "renew", c.mobile, bizBody{"subscriber_id": c.id, "plan_id": "COMBO-1"})
	decimals("pending", b.get(b.me, "subscription?subscriber_id="+c.id), 1)

	// An operation shows the price it was charged, whatever the plan costs now.
	key := b.key()
	fresh := b.good("activate").with("plan_id", "ODD").json()
	b.must("at the old price", b.post(b.me, "activate", key, fresh), fault.OK)
	b.plan("ODD", "1234.05", 2)
	b.mustShow("at the old price", b.LookUp(b.me, key), map[string]string{"amount": "249.5", "wallet.charged": "249.5"})
	b.mustShow("replayed", b.post(b.me, "activate", key, fresh), map[string]string{"amount": "249.5", "wallet.charged": "249.5"})
	dear := b.must("at the new price", b.post(b.me, "activate", b.key(), b.good("activate").with("plan_id", "ODD").json()), fault.OK)
	b.mustShow("at the new price", dear, map[string]string{"amount": "1234.05", "wallet.charged": "1234.05"})

	lines, err := b.Admin.LedgerPage(context.Background(), admin.ListQuery{OperatorID: b.me.OperatorID})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if line.TransactionID != "" && !strings.HasSuffix(line.Description, "[API]") {
			t.Errorf("the ledger says %q; it has to end with [API]", line.Description)
		}
	}
	if last := lines[len(lines)-1]; last.TransactionID != dear.Text("transaction_id") || last.Amount != e2e.Rupees(t, "1234.05") {
		t.Errorf("the ledger's last line is %+v", last)
	}
}
