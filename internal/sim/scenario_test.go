package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
)

// scenario is a short, deterministic sequence of requests, so that a fault can be
// injected at each of its steps in turn.
type scenario struct {
	name string
	// behaviours are what the provider does with the orders of each key, in turn;
	// the default is "ok".
	behaviours map[string][]string
	// hang are the keys of operations whose queries hang.
	hang []string
	// decide is what staff do during a query about a key's order: "the-order void" to
	// "confirm" or "reject".
	decide map[string]string
	// money: faults are also injected at every pair of its steps.
	money bool
	run   func(scenarioRunner)
}

// scenarioRunner sends the requests of a scenario, and retries those without an answer
// under the same idempotency key.
type scenarioRunner struct{ env *environment }

// The customers of scenarios; the newcomer does not exist yet.
var (
	first    = map[string]string{"subscriber_id": customerID(0, 0), "plan_id": "FAMILY-3"}
	second   = map[string]string{"subscriber_id": customerID(0, 1), "plan_id": "FAMILY-3"}
	combo    = map[string]string{"subscriber_id": customerID(0, 2), "plan_id": "COMBO-1"}
	newcomer = map[string]string{"full_name": "New Comer", "mobile": "9700000001", "plan_id": "BASIC-1"}
)

// perform requests an operation and retries until it has a final answer.
func (t scenarioRunner) perform(task, kind, key string, fields map[string]string) {
	t.performAt(task, 0, kind, key, fields)
}

func (t scenarioRunner) performAt(task string, node int, kind, key string, fields map[string]string) {
	for attempt := range 12 {
		got, ok := t.send(fmt.Sprintf("%s.%d", task, attempt), node+attempt, kind, key, fields, 0)
		if ok && (got.status < 500 || got.code == "PROVIDER_ERROR") && got.code != "REQUEST_IN_PROGRESS" && got.code != "OPERATION_IN_PROGRESS" {
			return
		}
		t.env.sleep(1500 * time.Millisecond)
	}
}

// send requests an operation once, from the given node if that is running.
func (t scenarioRunner) send(task string, node int, kind, key string, fields map[string]string, hangUp time.Duration) (answer, bool) {
	t.env.gates.pass(task, "begin action", nil, false)
	f := action{env: t.env, label: task}.post(task, t.env.allKeys()[0], kind, fields, key)
	if f == nil {
		return answer{}, false
	}
	if chosen := t.env.nodes[node%len(t.env.nodes)].running(); chosen != nil {
		f.process = chosen
	}
	return t.env.send(f, hangUp)
}

func (t scenarioRunner) together(parts ...func()) {
	done := make(chan struct{}, len(parts))
	for _, one := range parts {
		t.env.background.Go(func() {
			defer func() { done <- struct{}{} }()
			one()
		})
	}
	for range parts {
		<-done
	}
}

// staff carries out a staff action, with retries.
func (t scenarioRunner) staff(what string, do func(ctx context.Context, service *admin.Service) error) {
	for range 4 {
		t.env.gates.pass("staff", what, nil, false)
		if err := do(context.Background(), t.env.service); err == nil {
			return
		}
	}
}

// inReview waits until the operation of a key is in review, and returns its id.
func (t scenarioRunner) inReview(key string) string {
	for range 40 {
		t.env.gates.pass("staff", "look", nil, false)
		if op := t.env.model.byKey[keyOf(1, key)]; op != nil && op.state == "needs_review" {
			return op.ID
		}
		t.env.sleep(250 * time.Millisecond)
	}
	return ""
}

// scenarios returns all scenarios: everything the provider may do with each kind of
// operation, and requests and staff actions that interfere with each other.
func scenarios() []scenario {
	var all []scenario
	for _, o := range []struct {
		kind   string
		fields map[string]string
	}{{"activate", newcomer}, {"renew", first}, {"advance_renew", second}} {
		for _, behaviour := range append([]weight{{name: "refused"}}, behaviours...) {
			if behaviour.name == "treacherous" {
				continue // it violates the provider protocol
			}
			all = append(all, scenario{
				name: o.kind + ", " + behaviour.name, money: o.kind == "renew" && strings.Contains("ok reject lost dropped refused", behaviour.name),
				behaviours: map[string][]string{"the-order": {behaviour.name}},
				run: func(t scenarioRunner) {
					if behaviour.name == "refused" {
						t.env.provider.set(func() { t.env.provider.down = true })
						t.env.after(1200*time.Millisecond, func() { t.env.provider.set(func() { t.env.provider.down = false }) })
					}
					t.perform("one", o.kind, "the-order", o.fields)
				},
			})
		}
	}
	return append(all, others...)
}

var others = []scenario{
	{name: "combo, both work", run: func(t scenarioRunner) { t.perform("one", "renew", "the-order", combo) }},
	{name: "combo, the add-on is rejected once", behaviours: map[string][]string{"the-order-2": {"reject"}}, run: func(t scenarioRunner) { t.perform("one", "renew", "the-order", combo) }},
	{name: "combo, the add-on's answer is lost", behaviours: map[string][]string{"the-order-2": {"lost"}}, run: func(t scenarioRunner) { t.perform("one", "renew", "the-order", combo) }},
	{name: "combo, the add-on never arrives", behaviours: map[string][]string{"the-order-2": {"dropped"}}, run: func(t scenarioRunner) { t.perform("one", "renew", "the-order", combo) }},
	{name: "combo, main's answer is lost", behaviours: map[string][]string{"the-order": {"lost"}}, run: func(t scenarioRunner) { t.perform("one", "renew", "the-order", combo) }},
	{name: "one key from two clients at once", money: true, run: func(t scenarioRunner) {
		t.together(func() { t.performAt("one", 0, "renew", "the-order", first) }, func() { t.performAt("two", 1, "renew", "the-order", first) })
	}},
	{name: "one customer, two keys at once", money: true, run: func(t scenarioRunner) {
		t.together(func() { t.performAt("one", 0, "renew", "the-order", first) }, func() { t.performAt("two", 1, "renew", "the-other", first) })
	}},
	{name: "one mobile activated by two at once", run: func(t scenarioRunner) {
		t.together(func() { t.performAt("one", 0, "activate", "the-order", newcomer) }, func() { t.performAt("two", 1, "activate", "the-other", newcomer) })
	}},
	{name: "a wallet for one of two", money: true, run: func(t scenarioRunner) {
		t.staff("drain", func(ctx context.Context, service *admin.Service) error {
			wallet, err := service.Wallet(ctx, 1)
			if err == nil && wallet.Balance.Paise() > 40_000 {
				_, err = service.Adjust(ctx, 1, paise(40_000-wallet.Balance.Paise()), "drained")
			}
			return err
		})
		t.together(func() { t.performAt("one", 0, "renew", "the-order", first) }, func() { t.performAt("two", 1, "renew", "the-other", second) })
	}},
	{name: "short of money, topped up, the same key again", money: true, run: func(t scenarioRunner) {
		t.staff("drain", func(ctx context.Context, service *admin.Service) error {
			wallet, err := service.Wallet(ctx, 1)
			if err == nil && wallet.Balance.Paise() > 10 {
				_, err = service.Adjust(ctx, 1, paise(10-wallet.Balance.Paise()), "drained")
			}
			return err
		})
		t.perform("one", "renew", "the-order", first)
		t.staff("top up", func(ctx context.Context, service *admin.Service) error {
			_, _, err := service.TopUp(ctx, admin.TopUp{OperatorID: 1, Amount: paise(50_000), Reference: "more"})
			return err
		})
		t.perform("two", "renew", "the-order", first)
	}},
	{name: "the same key again, and for something else", run: func(t scenarioRunner) {
		t.perform("one", "renew", "the-order", first)
		t.perform("two", "renew", "the-order", first)
		t.perform("three", "advance_renew", "the-order", first)
		t.perform("four", "renew", "the-order", second)
	}},
	{name: "twice within two minutes", run: func(t scenarioRunner) {
		t.perform("one", "renew", "the-order", first)
		t.perform("two", "renew", "the-other", first)
	}},
	{name: "the client hangs up", behaviours: map[string][]string{"the-order": {"slow"}}, run: func(t scenarioRunner) {
		_, _ = t.send("one", 0, "renew", "the-order", first, 50*time.Millisecond)
		t.env.sleep(time.Second)
		t.perform("two", "renew", "the-order", first)
	}},
	{name: "the price changes meanwhile", money: true, run: func(t scenarioRunner) {
		t.together(
			func() { t.perform("one", "renew", "the-order", first) },
			func() {
				t.staff("price", func(ctx context.Context, service *admin.Service) error {
					_, err := service.SetPlan(ctx, t.env.planOf("FAMILY-3", 777))
					return err
				})
			})
	}},
	{name: "a person confirms", money: true, behaviours: map[string][]string{"the-order": {"unknowable"}}, run: func(t scenarioRunner) { t.decide(true) }},
	{name: "a person rejects", money: true, behaviours: map[string][]string{"the-order": {"late"}}, run: func(t scenarioRunner) { t.decide(false) }},
	{name: "a person confirms during a void", money: true, behaviours: map[string][]string{"the-order": {"dropped"}},
		decide: map[string]string{"the-order void": "confirm"}, run: func(t scenarioRunner) { t.awaitSettled("the-order", first) }},
	{name: "a person confirms during a status query", behaviours: map[string][]string{"the-order": {"lost"}},
		decide: map[string]string{"the-order status": "confirm"}, run: func(t scenarioRunner) { t.awaitSettled("the-order", first) }},
	{name: "a person rejects during a status query", money: true, behaviours: map[string][]string{"the-order": {"lost"}},
		decide: map[string]string{"the-order status": "reject"}, run: func(t scenarioRunner) { t.awaitSettled("the-order", first) }},
	{name: "a reversal", money: true, run: func(t scenarioRunner) {
		t.perform("one", "renew", "the-order", first)
		t.reverse("the-order")
		t.perform("two", "renew", "the-other", first)
	}},
	{name: "a reversal whose answer is lost", behaviours: map[string][]string{"the-order/undo1": {"lost"}}, run: func(t scenarioRunner) {
		t.perform("one", "renew", "the-order", first)
		t.reverse("the-order")
	}},
	{name: "a person settles a reversal during a call", behaviours: map[string][]string{"the-order/undo1": {"reject"}},
		decide: map[string]string{"the-order/undo1 reverse": "confirm"}, run: func(t scenarioRunner) {
			t.perform("one", "activate", "the-order", newcomer)
			t.reverse("the-order")
		}},
	{name: "an operation and a look at it", run: func(t scenarioRunner) {
		t.together(func() { t.perform("one", "renew", "the-order", first) }, func() {
			for i, kind := range []string{"balance", "subscription", "transaction", "plans"} {
				t.env.gates.pass(fmt.Sprint("look ", i), "begin action", nil, false)
				if f := (action{env: t.env, i: 1, label: fmt.Sprint("look", i)}).request(kind); f != nil {
					_, _ = t.env.send(f, 0)
				}
			}
		})
	}},
}

// awaitSettled sends a renewal and waits until it is settled.
func (t scenarioRunner) awaitSettled(key string, fields map[string]string) {
	t.perform("one", "renew", key, fields)
	for range 120 {
		t.env.gates.pass("one", "look", nil, false)
		if op := t.env.model.byKey[keyOf(1, key)]; op != nil && terminal(op.state) {
			return
		}
		t.env.sleep(250 * time.Millisecond)
	}
}

// decide has a person settle an operation in review.
func (t scenarioRunner) decide(confirm bool) {
	t.perform("one", "renew", "the-order", first)
	if id := t.inReview("the-order"); id != "" {
		t.staff("settle", func(ctx context.Context, service *admin.Service) error {
			_, err := service.SettleReview(ctx, id, confirm, "asked them by phone")
			if op := t.env.model.operations[id]; terminal(op.state) {
				return nil // settled, by this person or by review
			}
			return err
		})
	}
	t.perform("two", "renew", "the-order", first)
}
