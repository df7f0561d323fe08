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

// bizEndpoints are the endpoints that charge the wallet.
var bizEndpoints = []string{"activate", "renew", "advance-renew"}

// bizIST is the contract's time zone, defined independently of the product.
var bizIST = time.FixedZone("IST", 5*3600+1800)

const bizDay = 24 * time.Hour

// bizEnv is an Env with a funded operator without a rate limit.
type bizEnv struct {
	*e2e.Env
	me     e2e.Caller
	serial int
	held   sync.WaitGroup
}

func newBiz(t *testing.T, sets ...string) *bizEnv {
	t.Helper()
	t.Parallel()
	// With a late first check, an operation stays in review until the test settles it.
	b := &bizEnv{Env: e2e.NewEnv(t, append(sets, "review.first_check=24h")...)}
	b.me = b.NewFundedOperator("me", "1000000")
	// Stopping the provider ends the calls that it holds.
	t.Cleanup(func() {
		b.Simulator.Stop()
		b.held.Wait()
	})
	return b
}

// run runs a subtest in the same environment.
func (b *bizEnv) run(t *testing.T, name string, test func(t *testing.T, b *bizEnv)) {
	t.Run(name, func(t *testing.T) {
		parent := b.TB
		b.TB = t
		defer func() { b.TB = parent }()
		test(t, b)
	})
}

// mobile returns an unused number that the provider accepts.
func (b *bizEnv) mobile() string {
	b.serial++
	return fmt.Sprintf("97%08d", b.serial)
}

// key returns an unused idempotency key.
func (b *bizEnv) key() string {
	b.serial++
	return fmt.Sprintf("biz-key-%06d", b.serial)
}

// bizCustomer identifies a subscriber.
type bizCustomer struct{ id, mobile string }

func (b *bizEnv) customer(as e2e.Caller, plan string) bizCustomer {
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

// good returns a valid body for an endpoint, with a new customer.
func (b *bizEnv) good(endpoint string) bizBody {
	b.TB.Helper()
	if endpoint == "activate" {
		return bizBody{"full_name": "Asha", "mobile": b.mobile(), "plan_id": "BASIC-1"}
	}
	return bizBody{"subscriber_id": b.customer(b.me, "BASIC-1").id, "plan_id": "FAMILY-1"}
}

// post sends a body to an endpoint under a key.
func (b *bizEnv) post(as e2e.Caller, endpoint, key, body string) e2e.Answer {
	b.TB.Helper()
	return b.Send(bizCall(as, endpoint, key, body))
}

func bizCall(as e2e.Caller, endpoint, key, body string) e2e.Call {
	return e2e.Call{
		As: as, Method: "POST", Path: "/api/v1/" + endpoint, Body: body, Header: http.Header{"Idempotency-Key": {key}},
	}
}

func (b *bizEnv) get(as e2e.Caller, target string) e2e.Answer {
	b.TB.Helper()
	return b.Send(e2e.Call{As: as, Path: "/api/v1/" + target})
}

// must checks the code and its HTTP status.
func (b *bizEnv) must(what string, got e2e.Answer, want fault.Code) e2e.Answer {
	b.TB.Helper()
	if got.Code != want || got.Status != httpapi.StatusOf(want) || got.Success != (want == fault.OK) {
		b.TB.Errorf("%s: %d %s (%s); want %s\n%s", what, got.Status, got.Code, got.Message, want, got.Raw)
	}
	return got
}

// mustShow checks fields of the data by their paths; an empty value stands for null or a
// missing field.
func (b *bizEnv) mustShow(what string, got e2e.Answer, want map[string]string) {
	b.TB.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if shown := got.Text(path); shown != want[path] {
			b.TB.Errorf("%s: %s is %q; want %q", what, path, shown, want[path])
		}
	}
}

// mustName checks for a VALIDATION_ERROR that names exactly these fields, each with a text.
func (b *bizEnv) mustName(what string, got e2e.Answer, want ...string) {
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

// checkNoCharge checks that run charges nothing and orders nothing from the provider.
func (b *bizEnv) checkNoCharge(what string, run func()) {
	b.TB.Helper()
	money, orders := b.WalletPaise(b.me), b.orders()
	run()
	if after := b.WalletPaise(b.me); after != money {
		b.TB.Errorf("%s: the wallet went from %v to %v", what, money, after)
	}
	if after := b.orders(); after != orders {
		b.TB.Errorf("%s: the provider received %d orders", what, after-orders)
	}
}

// orders counts the orders sent to the provider, without status and catalogue calls.
func (b *bizEnv) orders() (orders int) {
	for _, asked := range b.Simulator.Calls("") {
		if slices.Contains([]string{"activate", "renew", "advance_renew"}, asked.Kind) {
			orders++
		}
	}
	return orders
}

// advance moves the clock, and verifies the prices if that is due.
func (b *bizEnv) advance(d time.Duration) {
	b.TB.Helper()
	b.Env.Advance(d)
	if d < time.Minute {
		return
	}
	if err := b.Node.Catalogue.Compare(context.Background()); err != nil {
		b.TB.Fatal(err)
	}
}

// hold sends a request whose provider call hangs until the test ends, and returns once
// the provider has received the call.
func (b *bizEnv) hold(c e2e.Call, mobile string) {
	b.TB.Helper()
	b.ScriptProvider(mobile, "timeout_not_applied")
	calls := len(b.Simulator.Calls(mobile))
	request := b.Request(c)
	b.held.Go(func() {
		if response, err := b.HTTP.Do(request); err == nil {
			_, _ = b.Receive(request, c.Path, response) // it may be cut off; the answer is not needed
		}
	})
	b.WaitUntil("the provider holds the call", func() bool { return len(b.Simulator.Calls(mobile)) > calls })
}

// leaveInReview starts an operation that goes to review at once, and returns its
// transaction id.
func (b *bizEnv) leaveInReview(as e2e.Caller, endpoint, mobile string, body bizBody) string {
	b.TB.Helper()
	b.ScriptProvider(mobile, "gateway_error")
	got := b.post(as, endpoint, b.key(), body.json())
	if got.Code != fault.PendingReview {
		b.TB.Fatalf("in review: %s", got.Raw)
	}
	return got.Text("transaction_id")
}

// settle settles an operation in review as a provider reply does.
func (b *bizEnv) settle(as e2e.Caller, transaction string, to operation.State) {
	b.TB.Helper()
	op, found, err := b.Node.Store.OperationByID(context.Background(), as.OperatorID, transaction)
	if err != nil || !found {
		b.TB.Fatalf("the operation to settle: %v, %v", found, err)
	}
	outcome := operation.Settlement{OperationID: op.ID, Epoch: op.Epoch, To: to, At: b.Now(), Node: "test", Why: "settled by the test"}
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
func (b *bizEnv) plan(id, price string, months int) string {
	b.TB.Helper()
	_, err := b.Admin.SetPlan(context.Background(), subscription.Plan{
		ID: id, Name: "Plan " + id[:min(len(id), 20)], Price: e2e.Rupees(b.TB, price), Months: months, Type: subscription.Standard, Main: "TV-BASIC",
	})
	if err != nil {
		b.TB.Fatal(err)
	}
	return id
}

func (b *bizEnv) retire(plan string) {
	b.TB.Helper()
	if err := b.Admin.RetirePlan(context.Background(), plan); err != nil {
		b.TB.Fatal(err)
	}
}

// setBalance adjusts a wallet to an amount.
func (b *bizEnv) setBalance(as e2e.Caller, amount string) {
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

// permit changes the permissions of a key.
func (b *bizEnv) permit(as e2e.Caller, permissions access.Permissions) {
	b.TB.Helper()
	if err := b.Admin.PermitKey(context.Background(), as.ID, permissions); err != nil {
		b.TB.Fatal(err)
	}
}

// bizTime formats a time as answers do.
func bizTime(at time.Time) string { return at.In(bizIST).Format("2006-01-02 15:04:05") }
