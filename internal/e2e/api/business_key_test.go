package api

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

func TestIdempotencyKey_FreeOrTaken(t *testing.T) {
	b := newBiz(t)
	b.run(t, "free after a rejection, works once the cause is fixed", bizFreeKeys)
	b.run(t, "free after RATE_LIMITED", bizRateLimited)
	b.run(t, "taken by an operation whatever its outcome", bizKeyStaysTaken)
	b.CheckAudit()
}

// Each rejection before money is reserved, the removal of its cause, and the
// same key again.
func bizFreeKeys(t *testing.T, b *bizEnv) {
	other := b.NewFundedOperator("other", "10000")
	nothing := func() {}
	// Each row prepares a call that is rejected, the fix of its cause, and the call that
	// then succeeds under the same key.
	type scenario func(key string) (bad e2e.Call, fix func(), good e2e.Call)
	// sent is one call that fails first and succeeds after the fix.
	sent := func(c e2e.Call, fix func()) (e2e.Call, func(), e2e.Call) { return c, fix, c }
	post := func(endpoint, key string, body bizBody) e2e.Call { return bizCall(b.me, endpoint, key, body.json()) }
	type row struct {
		what string
		want fault.Code
		make scenario
	}
	rows := []row{}
	for _, endpoint := range bizEndpoints {
		add := func(what string, want fault.Code, make scenario) {
			rows = append(rows, row{endpoint + ", " + what, want, make})
		}
		with := func(name string, value any) scenario {
			return func(key string) (e2e.Call, func(), e2e.Call) {
				good := b.good(endpoint)
				return post(endpoint, key, good.with(name, value)), nothing, post(endpoint, key, good)
			}
		}
		add("a field that is not valid", fault.ValidationError, with("plan_id", ""))
		add("an unknown plan", fault.InvalidPlan, with("plan_id", "NONE"))
		add("a plan that comes back", fault.InvalidPlan, func(key string) (e2e.Call, func(), e2e.Call) {
			plan := b.plan("BACK-"+endpoint, "10.00", 1)
			b.retire(plan)
			return sent(post(endpoint, key, b.good(endpoint).with("plan_id", plan)), func() { b.plan(plan, "12.00", 1) })
		})
		add("no JSON", fault.InvalidJSON, func(key string) (e2e.Call, func(), e2e.Call) {
			good := post(endpoint, key, b.good(endpoint))
			bad := good
			bad.Body += "x"
			return bad, nothing, good
		})
		add("another media type", fault.UnsupportedMediaType, func(key string) (e2e.Call, func(), e2e.Call) {
			good := post(endpoint, key, b.good(endpoint))
			bad := good
			bad.Header = http.Header{"Idempotency-Key": {key}, "Content-Type": {"text/plain"}}
			return bad, nothing, good
		})
		add("a wrong signature", fault.InvalidSignature, func(key string) (e2e.Call, func(), e2e.Call) {
			good := post(endpoint, key, b.good(endpoint))
			bad := good
			bad.As.Secret = other.Secret
			return bad, nothing, good
		})
		add("no permission", fault.PermissionDenied, func(key string) (e2e.Call, func(), e2e.Call) {
			c := post(endpoint, key, b.good(endpoint))
			c.As = b.NewKey(b.me.OperatorID, access.PermissionsOf(access.CheckBalance))
			return sent(c, func() { b.permit(c.As, access.AllPermissions) })
		})
		add("too little money", fault.InsufficientBalance, func(key string) (e2e.Call, func(), e2e.Call) {
			c := post(endpoint, key, b.good(endpoint))
			b.setBalance(b.me, "198.99")
			return sent(c, func() { b.TopUp(b.me, "100000") })
		})
		add("an operation in review that fails", fault.OperationInProgress, func(key string) (e2e.Call, func(), e2e.Call) {
			var body bizBody
			var inReview string
			if endpoint == "activate" {
				body = b.good(endpoint)
				inReview = b.leaveInReview(b.me, endpoint, body["mobile"].(string), body)
			} else {
				c := b.customer(b.me, "BASIC-1")
				body = bizBody{"subscriber_id": c.id, "plan_id": "FAMILY-1"}
				inReview = b.leaveInReview(b.me, "renew", c.mobile, body)
			}
			return sent(post(endpoint, key, body), func() { b.settle(b.me, inReview, operation.Failed) })
		})
		if endpoint == "activate" {
			add("a registered mobile", fault.SubscriberExists, func(key string) (e2e.Call, func(), e2e.Call) {
				good := b.good(endpoint)
				return post(endpoint, key, good.with("mobile", b.customer(b.me, "BASIC-1").mobile)), nothing, post(endpoint, key, good)
			})
			continue
		}
		add("an operation in review that succeeds", fault.OperationInProgress, func(key string) (e2e.Call, func(), e2e.Call) {
			c := b.customer(b.me, "BASIC-1")
			inReview := b.leaveInReview(b.me, "renew", c.mobile, bizBody{"subscriber_id": c.id, "plan_id": "FAMILY-3"})
			return sent(bizCall(b.me, endpoint, key, bizRenewal(c, "FAMILY-1")), func() { b.settle(b.me, inReview, operation.Success) })
		})
		add("an unknown subscriber, activated then", fault.SubscriberNotFound, func(key string) (e2e.Call, func(), e2e.Call) {
			mobile := b.mobile()
			return sent(post(endpoint, key, bizBody{"mobile": mobile, "plan_id": "FAMILY-1"}), func() { b.Activate(b.me, mobile, "BASIC-1") })
		})
		add("a duplicate", fault.DuplicateRequest, func(key string) (e2e.Call, func(), e2e.Call) {
			c := b.customer(b.me, "BASIC-1")
			b.must("the first", b.post(b.me, endpoint, b.key(), bizRenewal(c, "FAMILY-1")), fault.OK)
			return sent(bizCall(b.me, endpoint, key, bizRenewal(c, "FAMILY-1")), func() { b.advance(bizWindow) })
		})
	}
	rows = append(rows, row{"the active plan, which expires", fault.PlanAlreadyActive, func(key string) (e2e.Call, func(), e2e.Call) {
		c := b.customer(b.me, "BASIC-1")
		return sent(bizCall(b.me, "advance-renew", key, bizRenewal(c, "BASIC-1")), func() { b.advance(30 * bizDay) })
	}})
	for _, row := range rows {
		key := b.key()
		bad, fix, good := row.make(key)
		b.checkNoCharge(row.what, func() { b.must(row.what, b.Send(bad), row.want) })
		b.must(row.what+", looked up", b.LookUp(b.me, key), fault.TransactionNotFound)
		fix()
		got := b.must(row.what+", fixed", b.Send(good), fault.OK)
		if got.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s, fixed: answered as a replay", row.what)
		}
		b.mustShow(row.what+", looked up", b.LookUp(b.me, key), map[string]string{"transaction_id": got.Text("transaction_id"), "idempotency_key": key})
	}
	t.Logf("%d rejections", len(rows))
}

func bizRateLimited(t *testing.T, b *bizEnv) {
	me, limit := b.NewFundedOperator("limited", "1000"), 1
	if _, err := b.Admin.ChangeOperator(context.Background(), me.OperatorID, admin.OperatorChange{RateLimit: &limit}); err != nil {
		t.Fatal(err)
	}
	key, body := b.key(), b.good("activate").json()
	b.must("the only request of the minute", b.get(me, "balance"), fault.OK)
	late := b.must("one too many", b.post(me, "activate", key, body), fault.RateLimited)
	wait, err := time.ParseDuration(late.Header.Get("Retry-After") + "s")
	if err != nil {
		t.Fatal(err)
	}
	b.advance(wait)
	b.must("after the wait", b.post(me, "activate", key, body), fault.OK)
}

// An operation keeps its key whatever its outcome. Those in review come last: the service
// would check them once a day has passed.
func bizKeyStaysTaken(t *testing.T, b *bizEnv) {
	for _, row := range []struct {
		outcome string
		want    fault.Code
		after   time.Duration
	}{{"success", fault.OK, 400 * bizDay}, {"reject", fault.ProviderError, 400 * bizDay}, {"gateway_error", fault.PendingReview, time.Hour}} {
		for _, endpoint := range bizEndpoints {
			what := fmt.Sprintf("%s with %s", endpoint, row.outcome)
			key, body := b.key(), b.good(endpoint)
			mobile, _ := body["mobile"].(string)
			if mobile == "" {
				mobile = b.get(b.me, "subscription?subscriber_id="+body["subscriber_id"].(string)).Text("customer.mobile")
			}
			b.ScriptProvider(mobile, row.outcome)
			first := b.must(what, b.post(b.me, endpoint, key, body.json()), row.want)
			b.advance(row.after)
			b.checkNoCharge(what, func() {
				again := b.must(what+", again", b.post(b.me, endpoint, key, body.json()), row.want)
				b.mustShow(what+", again", again, map[string]string{"transaction_id": first.Text("transaction_id")})
				b.must(what+", another body", b.post(b.me, endpoint, key, b.good("activate").json()), fault.IdempotencyKeyReused)
			})
		}
	}
}
