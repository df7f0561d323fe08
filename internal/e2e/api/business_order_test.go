package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/httpapi"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/simulator"
)

// bizFaults is a combination of reasons to refuse one operation.
type bizFaults struct {
	media      bool
	json       bool
	key        string // missing, malformed, reused or taken; running or done if the same request was sent before
	field      bool
	plan       string // unknown or retired
	customer   string // unknown or another's; for an activation mine or another's
	busy       string // in review or processing
	duplicate  bool
	active     bool
	poor       bool
	maintained bool // maintenance mode
	unverified bool // prices not verified
	outage     bool
}

// bizChecks is the contract's order of checks from the media type on. If two fail, the
// answer must be that of the one listed first.
var bizChecks = []struct {
	name      string
	code      fault.Code
	endpoints string
	make      func(*bizFaults)
}{
	{"another media type", fault.UnsupportedMediaType, "all", func(w *bizFaults) { w.media = true }},
	{"text after the object", fault.InvalidJSON, "all", func(w *bizFaults) { w.json = true }},
	{"no key", fault.MissingIdempotencyKey, "all", func(w *bizFaults) { w.key = "missing" }},
	{"a malformed key", fault.InvalidIdempotencyKey, "all", func(w *bizFaults) { w.key = "malformed" }},
	{"a key used for another body", fault.IdempotencyKeyReused, "all", func(w *bizFaults) { w.key = "reused" }},
	{"a key that runs with another body", fault.IdempotencyKeyReused, "all", func(w *bizFaults) { w.key = "taken" }},
	{"the same request still running", fault.RequestInProgress, "all", func(w *bizFaults) { w.key = "running" }},
	{"the same request done before", fault.OK, "all", func(w *bizFaults) { w.key = "done" }},
	{"maintenance", fault.ServiceUnavailable, "all", func(w *bizFaults) { w.maintained = true }},
	{"a field that is not valid", fault.ValidationError, "all", func(w *bizFaults) { w.field = true }},
	{"prices not verified", fault.PlansUnavailable, "all", func(w *bizFaults) { w.unverified = true }},
	{"an unknown plan", fault.InvalidPlan, "all", func(w *bizFaults) { w.plan = "unknown" }},
	{"a retired plan", fault.InvalidPlan, "all", func(w *bizFaults) { w.plan = "retired" }},
	{"an unknown subscriber", fault.SubscriberNotFound, "renew advance-renew", func(w *bizFaults) { w.customer = "unknown" }},
	{"another operator's subscriber", fault.SubscriberNotFound, "renew advance-renew", func(w *bizFaults) { w.customer = "another's" }},
	{"a registered mobile", fault.SubscriberExists, "activate", func(w *bizFaults) { w.customer = "mine" }},
	{"another operator's registered mobile", fault.SubscriberExists, "activate", func(w *bizFaults) { w.customer = "another's" }},
	{"an operation in review", fault.OperationInProgress, "all", func(w *bizFaults) { w.busy = "in review" }},
	{"an operation processing", fault.OperationInProgress, "all", func(w *bizFaults) { w.busy = "processing" }},
	{"the same renewal a moment ago", fault.DuplicateRequest, "renew advance-renew", func(w *bizFaults) { w.duplicate = true }},
	{"the active plan", fault.PlanAlreadyActive, "advance-renew", func(w *bizFaults) { w.active = true }},
	{"too little money", fault.InsufficientBalance, "all", func(w *bizFaults) { w.poor = true }},
	{"a provider that is down", fault.ServiceUnavailable, "all", func(w *bizFaults) { w.outage = true }},
}

// possible reports whether one request can have all these faults.
func (w bizFaults) possible() bool {
	bought := w.key == "running" || w.key == "done"
	switch {
	case bought && (w.field || w.customer != ""):
		return false // a reserved request had valid fields and its own customer
	case (bought || w.duplicate || w.active) && w.plan == "unknown":
		return false // it cannot have been bought
	case w.customer == "unknown" && (w.busy != "" || w.duplicate || w.active):
		return false // an unknown customer has no operations
	case w.key == "running" && (w.duplicate || w.active):
		return false // it would have been refused itself
	}
	return true
}

// bizFixture is a customer and a plan with the faults of a request.
type bizFixture struct {
	bizCustomer
	plan string
	key  string
	body bizBody
}

// bizOrderEnv makes the fixtures. A refused request changes nothing, so requests with the
// same faults share one.
type bizOrderEnv struct {
	*bizEnv
	other e2e.Caller
	used  string // a key used for another body
	taken string // a key whose request is still running
	made  map[string]bizFixture
}

func (o *bizOrderEnv) owner(w bizFaults) e2e.Caller {
	if w.customer == "another's" {
		return o.other
	}
	return o.me
}

// fixture creates a customer with the given faults: first its past operations, then those
// in progress, then the state of the plan.
func (o *bizOrderEnv) fixture(endpoint string, w bizFaults) bizFixture {
	o.TB.Helper()
	w.media, w.json, w.field, w.poor, w.unverified, w.outage = false, false, false, false, false, false
	w.maintained = false
	if w.key != "running" && w.key != "done" {
		w.key = ""
	}
	name := fmt.Sprintf("%s %+v", endpoint, w)
	if w.duplicate {
		name += o.Now().String() // it counts as one for two minutes only
	}
	if known, ok := o.made[name]; ok {
		return known
	}
	s := bizFixture{plan: "FAMILY-1", key: o.key()}
	if w.plan != "" {
		s.plan = fmt.Sprintf("PLAN-%s", s.key)
	}
	if w.plan == "retired" {
		o.plan(s.plan, "249.50", 1)
	}
	if endpoint == "activate" {
		o.activation(&s, w)
	} else {
		o.renewal(&s, endpoint, w)
	}
	if w.plan == "retired" {
		o.retire(s.plan)
	}
	o.made[name] = s
	return s
}

func (o *bizOrderEnv) activation(s *bizFixture, w bizFaults) {
	o.TB.Helper()
	s.mobile = o.mobile()
	s.body = bizBody{"full_name": "Asha", "mobile": s.mobile, "plan_id": s.plan}
	first := s.body.with("plan_id", "BASIC-1")
	switch {
	case w.key == "running":
		o.hold(bizCall(o.me, "activate", s.key, s.body.json()), s.mobile)
	case w.key == "done":
		o.ok(o.me, "activate", s.key, s.body)
	case w.customer != "":
		o.ok(o.owner(w), "activate", o.key(), first)
	case w.busy == "in review":
		o.leaveInReview(o.other, "activate", s.mobile, first)
		return
	case w.busy == "processing":
		o.hold(bizCall(o.other, "activate", o.key(), first.json()), s.mobile)
		return
	default:
		return
	}
	o.keepBusy(s, w)
}

func (o *bizOrderEnv) renewal(s *bizFixture, endpoint string, w bizFaults) {
	o.TB.Helper()
	if w.customer == "unknown" {
		s.body = bizBody{"subscriber_id": "nobody", "plan_id": s.plan}
		return
	}
	first := "BASIC-1"
	if w.active && !w.duplicate && w.key != "done" {
		first = s.plan
	}
	owner := o.owner(w)
	s.bizCustomer = o.customer(owner, first)
	s.body = bizBody{"subscriber_id": s.id, "plan_id": s.plan}
	switch {
	case w.key == "running":
		o.hold(bizCall(o.me, endpoint, s.key, s.body.json()), s.mobile)
	case w.key == "done":
		o.ok(o.me, endpoint, s.key, s.body)
		if w.active {
			// Booked ahead, and made active by another renewal.
			o.advance(bizWindow)
			o.ok(o.me, "renew", o.key(), s.body)
		}
	case w.duplicate && (w.active || endpoint == "renew"):
		o.ok(owner, "renew", o.key(), s.body)
	case w.duplicate:
		o.ok(owner, "advance-renew", o.key(), s.body)
	}
	o.keepBusy(s, w)
}

// keepBusy starts a renewal that does not finish.
func (o *bizOrderEnv) keepBusy(s *bizFixture, w bizFaults) {
	o.TB.Helper()
	renewal := bizBody{"mobile": s.mobile, "plan_id": "FAMILY-3"}
	switch {
	case w.key == "running":
	case w.busy == "in review":
		o.leaveInReview(o.owner(w), "renew", s.mobile, renewal)
	case w.busy == "processing":
		o.hold(bizCall(o.owner(w), "renew", o.key(), renewal.json()), s.mobile)
	}
}

func (o *bizOrderEnv) ok(as e2e.Caller, endpoint, key string, body bizBody) {
	o.TB.Helper()
	if got := o.post(as, endpoint, key, body.json()); got.Code != fault.OK {
		o.TB.Fatalf("prepare: %s %v: %s", endpoint, body, got.Raw)
	}
}

// try sends a request with the given faults.
func (o *bizOrderEnv) try(endpoint string, w bizFaults) e2e.Answer {
	o.TB.Helper()
	s := o.fixture(endpoint, w)
	body, key := s.body, o.key()
	switch {
	case w.field && endpoint == "activate":
		body = body.with("email", "nowhere")
	case w.field:
		// A list with the right plan: lenient parsing would accept it.
		body = body.with("plan_id", []string{s.plan})
	}
	switch w.key {
	case "malformed":
		key = "short"
	case "reused":
		key = o.used
	case "taken":
		key = o.taken
	case "running", "done":
		key = s.key
	}
	c := bizCall(o.me, endpoint, key, body.json())
	if w.media {
		c.Header.Set("Content-Type", "text/plain")
	}
	if w.json {
		c.Body += "}"
	}
	if w.key == "missing" {
		c.Header = http.Header{"Content-Type": c.Header["Content-Type"]}
		if !w.media {
			c.Header.Set("Content-Type", "application/json")
		}
		c.Drop = []string{"Idempotency-Key"}
	}
	if w.unverified {
		defer o.expirePrices()()
	}
	if w.outage {
		defer o.startOutage()()
	}
	if w.poor {
		had := o.WalletPaise(o.me)[0]
		o.setBalance(o.me, "198.99") // less than any plan here costs
		defer o.setBalance(o.me, fmt.Sprintf("%d.%02d", had/100, had%100))
	}
	if w.maintained {
		defer o.startMaintenance()()
	}
	return o.Send(c)
}

// startMaintenance switches maintenance on and returns a function to end it.
func (o *bizOrderEnv) startMaintenance() (undo func()) {
	o.TB.Helper()
	if _, err := o.Admin.StartMaintenance(context.Background(), "a test"); err != nil {
		o.TB.Fatal(err)
	}
	return func() {
		if err := o.Admin.EndMaintenance(context.Background(), false, ""); err != nil {
			o.TB.Fatal(err)
		}
	}
}

// expirePrices makes the last price verification too old, and returns a function to
// verify again.
func (o *bizOrderEnv) expirePrices() (undo func()) {
	o.TB.Helper()
	ctx := context.Background()
	o.ControlSimulator("status", `{"catalogue":"down"}`)
	old := catalogue.Comparison{Provider: o.Node.Config.Provider.Name, At: o.Now().Add(-time.Hour), Components: simulator.Components()}
	if err := o.Node.Store.RecordComparison(ctx, old); err != nil {
		o.TB.Fatal(err)
	}
	return func() {
		o.ControlSimulator("status", `{"catalogue":"up"}`)
		if err := o.Node.Catalogue.Compare(ctx); err != nil {
			o.TB.Fatal(err)
		}
	}
}

// startOutage opens the breaker as an outage of the provider does, and returns a function
// to close it.
func (o *bizOrderEnv) startOutage() (undo func()) {
	o.TB.Helper()
	o.ControlSimulator("status", `{"mode":"down"}`)
	for range 3 {
		o.Node.Breaker.Record(operation.Reply{NotSent: true})
	}
	return func() {
		o.ControlSimulator("status", `{"mode":"up"}`)
		o.Node.Breaker.Record(operation.Reply{Outcome: operation.Confirmed})
	}
}

func TestOperationChecks_FirstFailureAnswers(t *testing.T) {
	for _, endpoint := range bizEndpoints {
		t.Run(endpoint, func(t *testing.T) {
			// A held provider call must not time out during the test.
			b := newBiz(t, "provider.timeout=5m")
			o := &bizOrderEnv{bizEnv: b, other: b.NewFundedOperator("other", "100000"), used: b.key(), taken: b.key(), made: map[string]bizFixture{}}
			o.ok(o.me, "activate", o.used, o.good("activate"))
			running := o.good("activate")
			o.hold(bizCall(o.me, "activate", o.taken, running.json()), running["mobile"].(string))
			cases := o.pairs(endpoint)
			// Without faults the operation succeeds, so none of the above was
			// refused for another reason.
			o.must("nothing wrong", o.try(endpoint, bizFaults{}), fault.OK)
			t.Logf("%d cases, %d situations", cases, len(o.made))
			o.CheckAudit()
		})
	}
}

// pairs checks every fault and every possible pair of them, and returns their number.
func (o *bizOrderEnv) pairs(endpoint string) (cases int) {
	o.TB.Helper()
	applies := func(endpoints string) bool {
		return endpoints == "all" || slices.Contains(strings.Fields(endpoints), endpoint)
	}
	for i, earlier := range bizChecks {
		if !applies(earlier.endpoints) {
			continue
		}
		one := bizFaults{}
		earlier.make(&one)
		o.check(endpoint, earlier.name, one, earlier.code)
		cases++
		for _, later := range bizChecks[i+1:] {
			both, back := one, bizFaults{}
			later.make(&both)
			later.make(&back)
			earlier.make(&back)
			// Two values of the same field exclude each other.
			if applies(later.endpoints) && both == back && both.possible() {
				o.check(endpoint, earlier.name+" with "+later.name, both, earlier.code)
				cases++
			}
		}
	}
	return cases
}

func (o *bizOrderEnv) check(endpoint, what string, w bizFaults, want fault.Code) {
	o.TB.Helper()
	o.fixture(endpoint, w)
	o.checkNoCharge(what, func() {
		o.TB.Helper()
		got := o.try(endpoint, w)
		if got.Code != want || got.Status != httpapi.StatusOf(want) {
			o.TB.Errorf("%s: %d %s (%s); want %s", what, got.Status, got.Code, got.Message, want)
		}
		if replayed := got.Header.Get("Idempotent-Replayed") == "true"; replayed != (want == fault.OK) {
			o.TB.Errorf("%s: replayed is %v", what, replayed)
		}
	})
}
