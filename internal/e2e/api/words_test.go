package api

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
	"github.com/coaxhq/coax/internal/e2e"
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
	*e2e.Env
	me     e2e.Caller
	serial int
	held   sync.WaitGroup
}

func newBiz(t *testing.T, sets ...string) *biz {
	t.Helper()
	t.Parallel()
	// Nothing is verified in the background: what is in review stays there until
	// the test settles it.
	b := &biz{Env: e2e.NewEnv(t, append(sets, "review.first_check=24h")...)}
	b.me = b.NewFundedOperator("me", "1000000")
	// A provider that goes away lets go of the calls it holds.
	t.Cleanup(func() {
		b.Simulator.Stop()
		b.held.Wait()
	})
	return b
}

// run tells one more story in the same world, as a test of its own.
func (b *biz) run(t *testing.T, name string, story func(t *testing.T, b *biz)) {
	t.Run(name, func(t *testing.T) {
		whole := b.TB
		b.TB = t
		defer func() { b.TB = whole }()
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

func (b *biz) customer(as e2e.Caller, plan string) bizCustomer {
	b.TB.Helper()
	mobile := b.mobile()
	return bizCustomer{b.Activate(as, mobile, plan), mobile}
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
	b.TB.Helper()
	if endpoint == "activate" {
		return bizBody{"full_name": "Asha", "mobile": b.mobile(), "plan_id": "BASIC-1"}
	}
	return bizBody{"subscriber_id": b.customer(b.me, "BASIC-1").id, "plan_id": "FAMILY-1"}
}

// post sends a body to an endpoint under a key.
func (b *biz) post(as e2e.Caller, endpoint, key, body string) e2e.Answer {
	b.TB.Helper()
	return b.Send(bizCall(as, endpoint, key, body))
}

func bizCall(as e2e.Caller, endpoint, key, body string) e2e.Call {
	return e2e.Call{
		As: as, Method: "POST", Path: "/api/v1/" + endpoint, Body: body, Header: http.Header{"Idempotency-Key": {key}},
	}
}

func (b *biz) get(as e2e.Caller, target string) e2e.Answer {
	b.TB.Helper()
	return b.Send(e2e.Call{As: as, Path: "/api/v1/" + target})
}

// must demands a code, with the status that goes with it.
func (b *biz) must(what string, got e2e.Answer, want fault.Code) e2e.Answer {
	b.TB.Helper()
	if got.Code != want || got.Status != httpapi.StatusOf(want) || got.Success != (want == fault.OK) {
		b.TB.Errorf("%s: %d %s (%s); want %s\n%s", what, got.Status, got.Code, got.Message, want, got.Raw)
	}
	return got
}

// mustShow demands values of the data by their paths; an empty one stands for
// null, or for nothing there.
func (b *biz) mustShow(what string, got e2e.Answer, want map[string]string) {
	b.TB.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if shown := got.Text(path); shown != want[path] {
			b.TB.Errorf("%s: %s is %q; want %q", what, path, shown, want[path])
		}
	}
}

// mustName demands a VALIDATION_ERROR that names these fields and no other, with
// a text for each.
func (b *biz) mustName(what string, got e2e.Answer, want ...string) {
	b.TB.Helper()
	b.must(what, got, fault.ValidationError)
	fields, _ := got.Data["fields"].(map[string]any)
	slices.Sort(want)
	if named := slices.Sorted(maps.Keys(fields)); !slices.Equal(named, want) {
		b.TB.Errorf("%s: named are %v; want %v", what, fields, want)
	}
	for name, why := range fields {
		if text, _ := why.(string); strings.TrimSpace(text) == "" {
			b.TB.Errorf("%s: there is no text for %s: %v", what, name, why)
		}
	}
}

// unspent demands that what runs costs nothing and orders nothing.
func (b *biz) unspent(what string, run func()) {
	b.TB.Helper()
	money, orders := b.WalletPaise(b.me), b.orders()
	run()
	if after := b.WalletPaise(b.me); after != money {
		b.TB.Errorf("%s: the wallet went from %v to %v", what, money, after)
	}
	if after := b.orders(); after != orders {
		b.TB.Errorf("%s: the provider was given %d orders", what, after-orders)
	}
}

// orders counts what the provider was asked to do. Questions do not count: the
// service asks some on its own.
func (b *biz) orders() (orders int) {
	for _, asked := range b.Simulator.Calls("") {
		if slices.Contains([]string{"activate", "renew", "advance_renew"}, asked.Kind) {
			orders++
		}
	}
	return orders
}

// pass moves the clock. Prices that would have been verified meanwhile are.
func (b *biz) pass(d time.Duration) {
	b.TB.Helper()
	b.Env.Advance(d)
	if d < time.Minute {
		return
	}
	if err := b.Node.Catalogue.Compare(context.Background()); err != nil {
		b.TB.Fatal(err)
	}
}

// hold sends a request that the provider keeps waiting, and returns once it is
// processing. It is answered when the test is over.
func (b *biz) hold(c e2e.Call, mobile string) {
	b.TB.Helper()
	b.ScriptProvider(mobile, "timeout_not_applied")
	calls := len(b.Simulator.Calls(mobile))
	request := b.Request(c)
	b.held.Go(func() {
		if response, err := b.HTTP.Do(request); err == nil {
			_, _ = b.Receive(request, c.Path, response) // it may be cut off: nobody waits for it
		}
	})
	b.WaitUntil("the provider holds the call", func() bool { return len(b.Simulator.Calls(mobile)) > calls })
}

// doubt leaves an operation of a customer in review, without any waiting, and
// returns its transaction.
func (b *biz) doubt(as e2e.Caller, endpoint, mobile string, body bizBody) string {
	b.TB.Helper()
	b.ScriptProvider(mobile, "gateway_error")
	got := b.post(as, endpoint, b.key(), body.json())
	if got.Code != fault.PendingReview {
		b.TB.Fatalf("in review: %s", got.Raw)
	}
	return got.Text("transaction_id")
}

// settle ends an operation in review, as the provider's word does.
func (b *biz) settle(as e2e.Caller, transaction string, to operation.State) {
	b.TB.Helper()
	op, found, err := b.Node.Store.OperationByID(context.Background(), as.OperatorID, transaction)
	if err != nil || !found {
		b.TB.Fatalf("the operation to settle: %v, %v", found, err)
	}
	outcome := operation.Settlement{OperationID: op.ID, Epoch: op.Epoch, To: to, At: b.Now(), Node: "test", Why: "the test said so"}
	answer := operation.Reply{Outcome: operation.Confirmed}
	if to == operation.Failed {
		answer.Outcome = operation.Rejected
		outcome.Reason, outcome.ProviderMessage = operation.NotConfirmed, "It was not carried out."
	}
	outcome.Calls = []operation.ProviderCall{{Reference: op.ID, What: "status", Component: op.Main, Reply: answer, AskedAt: b.Now(), AnsweredAt: b.Now()}}
	if _, settled, err := b.Node.Store.Settle(context.Background(), outcome); err != nil || !settled {
		b.TB.Fatalf("settle %s: %v, %v", transaction, settled, err)
	}
}

// plan puts a plan on sale.
func (b *biz) plan(id, price string, months int) string {
	b.TB.Helper()
	_, err := b.Admin.SetPlan(context.Background(), subscription.Plan{
		ID: id, Name: "Plan " + id[:min(len(id), 20)], Price: e2e.Rupees(b.TB, price), Months: months, Type: subscription.Standard, Main: "TV-BASIC",
	})
	if err != nil {
		b.TB.Fatal(err)
	}
	return id
}

func (b *biz) retire(plan string) {
	b.TB.Helper()
	if err := b.Admin.RetirePlan(context.Background(), plan); err != nil {
		b.TB.Fatal(err)
	}
}

// leave takes money out of a wallet until so much is left.
func (b *biz) leave(as e2e.Caller, amount string) {
	b.TB.Helper()
	wallet, err := b.Admin.Wallet(context.Background(), as.OperatorID)
	if err != nil {
		b.TB.Fatal(err)
	}
	change := e2e.Rupees(b.TB, amount).Sub(wallet.Balance)
	if change.IsZero() {
		return
	}
	if _, err := b.Admin.Adjust(context.Background(), as.OperatorID, change, "for a test"); err != nil {
		b.TB.Fatal(err)
	}
}

// permit gives a key other permissions.
func (b *biz) permit(as e2e.Caller, permissions access.Permissions) {
	b.TB.Helper()
	if err := b.Admin.PermitKey(context.Background(), as.ID, permissions); err != nil {
		b.TB.Fatal(err)
	}
}

// bizTime writes a moment as answers do.
func bizTime(at time.Time) string { return at.In(bizIST).Format("2006-01-02 15:04:05") }
