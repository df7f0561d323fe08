package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/httpapi"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// bizEndpoints are the three that cost money.
var bizEndpoints = []string{"activate", "renew", "advance-renew"}

// bizIST is Indian time as the contract has it, reckoned apart from the product.
var bizIST = time.FixedZone("IST", 5*3600+1800)

const bizDay = 24 * time.Hour

// biz is a world with an operator who has money and no limit of requests.
type biz struct {
	*world
	me     caller
	serial int
	held   sync.WaitGroup
}

func newBiz(t *testing.T, sets ...string) *biz {
	t.Helper()
	t.Parallel()
	// Nothing is verified in the background: what is in review stays there until
	// the test settles it.
	b := &biz{world: newWorld(t, append(sets, "review.first_check=24h")...)}
	b.me = b.rich("me", "1000000")
	// A provider that goes away lets go of the calls it holds.
	t.Cleanup(func() {
		b.simulator.stop()
		b.held.Wait()
	})
	return b
}

// run tells one more story in the same world, as a test of its own.
func (b *biz) run(t *testing.T, name string, story func(t *testing.T, b *biz)) {
	t.Run(name, func(t *testing.T) {
		whole := b.t
		b.t = t
		defer func() { b.t = whole }()
		story(t, b)
	})
}

// mobile is a number that nobody has and that the provider serves.
func (b *biz) mobile() string {
	b.serial++
	return fmt.Sprintf("97%08d", b.serial)
}

// key is an idempotency key that was not used before.
func (b *biz) key() string {
	b.serial++
	return fmt.Sprintf("biz-key-%06d", b.serial)
}

// bizCustomer is a subscriber as a client knows one.
type bizCustomer struct{ id, mobile string }

func (b *biz) customer(as caller, plan string) bizCustomer {
	b.t.Helper()
	mobile := b.mobile()
	return bizCustomer{b.activated(as, mobile, plan), mobile}
}

// bizBody is a request's body with values of any type.
type bizBody map[string]any

func (f bizBody) with(name string, value any) bizBody {
	changed := maps.Clone(f)
	changed[name] = value
	return changed
}

func (f bizBody) without(name string) bizBody {
	changed := maps.Clone(f)
	delete(changed, name)
	return changed
}

func (f bizBody) json() string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// good is a body that an endpoint takes, of a customer of its own.
func (b *biz) good(endpoint string) bizBody {
	b.t.Helper()
	if endpoint == "activate" {
		return bizBody{"full_name": "Asha", "mobile": b.mobile(), "plan_id": "BASIC-1"}
	}
	return bizBody{"subscriber_id": b.customer(b.me, "BASIC-1").id, "plan_id": "FAMILY-1"}
}

// post sends a body to an endpoint under a key.
func (b *biz) post(as caller, endpoint, key, body string) answer {
	b.t.Helper()
	return b.send(bizCall(as, endpoint, key, body))
}

func bizCall(as caller, endpoint, key, body string) call {
	return call{
		as: as, method: "POST", path: "/api/v1/" + endpoint, body: body, header: http.Header{"Idempotency-Key": {key}},
	}
}

func (b *biz) get(as caller, target string) answer {
	b.t.Helper()
	return b.send(call{as: as, path: "/api/v1/" + target})
}

// must demands a code, with the status that goes with it.
func (b *biz) must(what string, got answer, want fault.Code) answer {
	b.t.Helper()
	if got.code != want || got.status != httpapi.StatusOf(want) || got.success != (want == fault.OK) {
		b.t.Errorf("%s: %d %s (%s); want %s\n%s", what, got.status, got.code, got.message, want, got.raw)
	}
	return got
}

// mustShow demands values of the data by their paths; an empty one stands for
// null, or for nothing there.
func (b *biz) mustShow(what string, got answer, want map[string]string) {
	b.t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if shown := got.text(path); shown != want[path] {
			b.t.Errorf("%s: %s is %q; want %q", what, path, shown, want[path])
		}
	}
}

// mustName demands a VALIDATION_ERROR that names these fields and no other, with
// a text for each.
func (b *biz) mustName(what string, got answer, want ...string) {
	b.t.Helper()
	b.must(what, got, fault.ValidationError)
	fields, _ := got.data["fields"].(map[string]any)
	slices.Sort(want)
	if named := slices.Sorted(maps.Keys(fields)); !slices.Equal(named, want) {
		b.t.Errorf("%s: named are %v; want %v", what, fields, want)
	}
	for name, why := range fields {
		if text, _ := why.(string); strings.TrimSpace(text) == "" {
			b.t.Errorf("%s: there is no text for %s: %v", what, name, why)
		}
	}
}

// unspent demands that what runs costs nothing and orders nothing.
func (b *biz) unspent(what string, run func()) {
	b.t.Helper()
	money, orders := b.money(b.me), b.orders()
	run()
	if after := b.money(b.me); after != money {
		b.t.Errorf("%s: the wallet went from %v to %v", what, money, after)
	}
	if after := b.orders(); after != orders {
		b.t.Errorf("%s: the provider was given %d orders", what, after-orders)
	}
}

// orders counts what the provider was asked to do. Questions do not count: the
// service asks some on its own.
func (b *biz) orders() (orders int) {
	for _, asked := range b.simulator.Calls("") {
		if slices.Contains([]string{"activate", "renew", "advance_renew"}, asked.Kind) {
			orders++
		}
	}
	return orders
}

// pass moves the clock. Prices that would have been verified meanwhile are.
func (b *biz) pass(d time.Duration) {
	b.t.Helper()
	b.world.pass(d)
	if d < time.Minute {
		return
	}
	if err := b.node.catalogue.Compare(context.Background()); err != nil {
		b.t.Fatal(err)
	}
}

// hold sends a request that the provider keeps waiting, and returns once it is
// processing. It is answered when the test is over.
func (b *biz) hold(c call, mobile string) {
	b.t.Helper()
	b.script(mobile, "timeout_not_applied")
	calls := len(b.simulator.Calls(mobile))
	request := b.request(c)
	b.held.Go(func() {
		if response, err := b.http.Do(request); err == nil {
			_, _ = b.receive(request, c.path, response) // it may be cut off: nobody waits for it
		}
	})
	b.until("the provider holds the call", func() bool { return len(b.simulator.Calls(mobile)) > calls })
}

// doubt leaves an operation of a customer in review, without any waiting, and
// returns its transaction.
func (b *biz) doubt(as caller, endpoint, mobile string, body bizBody) string {
	b.t.Helper()
	b.script(mobile, "gateway_error")
	got := b.post(as, endpoint, b.key(), body.json())
	if got.code != fault.PendingReview {
		b.t.Fatalf("in review: %s", got.raw)
	}
	return got.text("transaction_id")
}

// settle ends an operation in review, as the provider's word does.
func (b *biz) settle(as caller, transaction string, to operation.State) {
	b.t.Helper()
	op, found, err := b.node.store.OperationByID(context.Background(), as.operatorID, transaction)
	if err != nil || !found {
		b.t.Fatalf("the operation to settle: %v, %v", found, err)
	}
	outcome := operation.Settlement{OperationID: op.ID, Epoch: op.Epoch, To: to, At: b.now(), Node: "test", Why: "the test said so"}
	answer := operation.Answer{Verdict: operation.Confirmed}
	if to == operation.Failed {
		answer.Verdict = operation.Rejected
		outcome.Reason, outcome.ProviderMessage = operation.NotConfirmed, "It was not carried out."
	}
	outcome.Calls = []operation.ProviderCall{{Reference: op.ID, What: "status", Component: op.Main, Answer: answer, AskedAt: b.now(), AnsweredAt: b.now()}}
	if _, settled, err := b.node.store.Settle(context.Background(), outcome); err != nil || !settled {
		b.t.Fatalf("settle %s: %v, %v", transaction, settled, err)
	}
}

// plan puts a plan on sale.
func (b *biz) plan(id, price string, months int) string {
	b.t.Helper()
	_, err := b.desk.SetPlan(context.Background(), subscription.Plan{
		ID: id, Name: "Plan " + id[:min(len(id), 20)], Price: rupees(b.t, price), Months: months, Type: subscription.Standard, Main: "TV-BASIC",
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

func (b *biz) retire(plan string) {
	b.t.Helper()
	if err := b.desk.RetirePlan(context.Background(), plan); err != nil {
		b.t.Fatal(err)
	}
}

// leave takes money out of a wallet until so much is left.
func (b *biz) leave(as caller, amount string) {
	b.t.Helper()
	wallet, err := b.desk.Wallet(context.Background(), as.operatorID)
	if err != nil {
		b.t.Fatal(err)
	}
	change := rupees(b.t, amount).Sub(wallet.Balance)
	if change.IsZero() {
		return
	}
	if _, err := b.desk.Adjust(context.Background(), as.operatorID, change, "for a test"); err != nil {
		b.t.Fatal(err)
	}
}

// permit gives a key other permissions.
func (b *biz) permit(as caller, permissions access.Permissions) {
	b.t.Helper()
	if err := b.desk.PermitKey(context.Background(), as.id, permissions); err != nil {
		b.t.Fatal(err)
	}
}

// bizTime writes a moment as answers do.
func bizTime(at time.Time) string { return at.In(bizIST).Format("2006-01-02 15:04:05") }
