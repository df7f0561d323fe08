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

// bizWrongs is everything that can stand in the way of one operation at once.
type bizWrongs struct {
	media      bool
	json       bool
	key        string // missing, malformed, reused or taken; running or done: the same request before
	field      bool
	plan       string // unknown or retired
	customer   string // unknown or another's; for an activation mine or another's
	busy       string // in review or processing
	duplicate  bool
	active     bool
	poor       bool
	maintained bool // in maintenance
	unverified bool // prices
	outage     bool
}

// bizStates is the contract's order of checks from the media type on. Of two
// that fail, the one further up here must answer.
var bizStates = []struct {
	name      string
	code      fault.Code
	endpoints string
	make      func(*bizWrongs)
}{
	{"another media type", fault.UnsupportedMediaType, "all", func(w *bizWrongs) { w.media = true }},
	{"something after the object", fault.InvalidJSON, "all", func(w *bizWrongs) { w.json = true }},
	{"no key", fault.MissingIdempotencyKey, "all", func(w *bizWrongs) { w.key = "missing" }},
	{"a malformed key", fault.InvalidIdempotencyKey, "all", func(w *bizWrongs) { w.key = "malformed" }},
	{"a key used for another body", fault.IdempotencyKeyReused, "all", func(w *bizWrongs) { w.key = "reused" }},
	{"a key that runs with another body", fault.IdempotencyKeyReused, "all", func(w *bizWrongs) { w.key = "taken" }},
	{"the same request still running", fault.RequestInProgress, "all", func(w *bizWrongs) { w.key = "running" }},
	{"the same request done before", fault.OK, "all", func(w *bizWrongs) { w.key = "done" }},
	{"maintenance", fault.ServiceUnavailable, "all", func(w *bizWrongs) { w.maintained = true }},
	{"a field that is not valid", fault.ValidationError, "all", func(w *bizWrongs) { w.field = true }},
	{"prices not verified", fault.PlansUnavailable, "all", func(w *bizWrongs) { w.unverified = true }},
	{"an unknown plan", fault.InvalidPlan, "all", func(w *bizWrongs) { w.plan = "unknown" }},
	{"a retired plan", fault.InvalidPlan, "all", func(w *bizWrongs) { w.plan = "retired" }},
	{"nobody", fault.SubscriberNotFound, "renew advance-renew", func(w *bizWrongs) { w.customer = "unknown" }},
	{"another operator's subscriber", fault.SubscriberNotFound, "renew advance-renew", func(w *bizWrongs) { w.customer = "another's" }},
	{"a registered mobile", fault.SubscriberExists, "activate", func(w *bizWrongs) { w.customer = "mine" }},
	{"another operator's registered mobile", fault.SubscriberExists, "activate", func(w *bizWrongs) { w.customer = "another's" }},
	{"an operation in review", fault.OperationInProgress, "all", func(w *bizWrongs) { w.busy = "in review" }},
	{"an operation processing", fault.OperationInProgress, "all", func(w *bizWrongs) { w.busy = "processing" }},
	{"the same renewal a moment ago", fault.DuplicateRequest, "renew advance-renew", func(w *bizWrongs) { w.duplicate = true }},
	{"the active plan", fault.PlanAlreadyActive, "advance-renew", func(w *bizWrongs) { w.active = true }},
	{"too little money", fault.InsufficientBalance, "all", func(w *bizWrongs) { w.poor = true }},
	{"a provider that is down", fault.ServiceUnavailable, "all", func(w *bizWrongs) { w.outage = true }},
}

// meets tells whether one request can have all these wrongs.
func (w bizWrongs) meets() bool {
	bought := w.key == "running" || w.key == "done"
	switch {
	case bought && (w.field || w.customer != ""):
		return false // what was reserved once had good fields and its own customer
	case (bought || w.duplicate || w.active) && w.plan == "unknown":
		return false // nobody can have bought it
	case w.customer == "unknown" && (w.busy != "" || w.duplicate || w.active):
		return false // somebody who does not exist has done nothing
	case w.key == "running" && (w.duplicate || w.active):
		return false // it would not have been let in
	}
	return true
}

// bizSituation is a customer, and a plan, that wrongs were made of.
type bizSituation struct {
	bizCustomer
	plan string
	key  string
	body bizBody
}

// bizOrder makes the situations. What is refused changes nothing, so requests
// with the same situation can share it.
type bizOrder struct {
	*biz
	other e2e.Caller
	used  string // a key that stands for another body
	taken string // one whose request is still running
	made  map[string]bizSituation
}

func (o *bizOrder) owner(w bizWrongs) e2e.Caller {
	if w.customer == "another's" {
		return o.other
	}
	return o.me
}

// situation makes a customer of what is wrong with one: first what was bought,
// then what is under way, then what became of the plan.
func (o *bizOrder) situation(endpoint string, w bizWrongs) bizSituation {
	o.TB.Helper()
	w.media, w.json, w.field, w.poor, w.unverified, w.outage = false, false, false, false, false, false
	w.maintained = false
	if w.key != "running" && w.key != "done" {
		w.key = ""
	}
	name := fmt.Sprintf("%s %+v", endpoint, w)
	if w.duplicate {
		name += o.Now().String() // it is one for two minutes only
	}
	if known, ok := o.made[name]; ok {
		return known
	}
	s := bizSituation{plan: "FAMILY-1", key: o.key()}
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

func (o *bizOrder) activation(s *bizSituation, w bizWrongs) {
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
		o.doubt(o.other, "activate", s.mobile, first)
		return
	case w.busy == "processing":
		o.hold(bizCall(o.other, "activate", o.key(), first.json()), s.mobile)
		return
	default:
		return
	}
	o.keepBusy(s, w)
}

func (o *bizOrder) renewal(s *bizSituation, endpoint string, w bizWrongs) {
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
			// It was booked ahead, and is active now by another renewal.
			o.pass(bizWindow)
			o.ok(o.me, "renew", o.key(), s.body)
		}
	case w.duplicate && (w.active || endpoint == "renew"):
		o.ok(owner, "renew", o.key(), s.body)
	case w.duplicate:
		o.ok(owner, "advance-renew", o.key(), s.body)
	}
	o.keepBusy(s, w)
}

// keepBusy begins a renewal that does not end.
func (o *bizOrder) keepBusy(s *bizSituation, w bizWrongs) {
	o.TB.Helper()
	renewal := bizBody{"mobile": s.mobile, "plan_id": "FAMILY-3"}
	switch {
	case w.key == "running":
	case w.busy == "in review":
		o.doubt(o.owner(w), "renew", s.mobile, renewal)
	case w.busy == "processing":
		o.hold(bizCall(o.owner(w), "renew", o.key(), renewal.json()), s.mobile)
	}
}

func (o *bizOrder) ok(as e2e.Caller, endpoint, key string, body bizBody) {
	o.TB.Helper()
	if got := o.post(as, endpoint, key, body.json()); got.Code != fault.OK {
		o.TB.Fatalf("prepare: %s %v: %s", endpoint, body, got.Raw)
	}
}

// try sends a request with the given wrongs.
func (o *bizOrder) try(endpoint string, w bizWrongs) e2e.Answer {
	o.TB.Helper()
	s := o.situation(endpoint, w)
	body, key := s.body, o.key()
	switch {
	case w.field && endpoint == "activate":
		body = body.with("email", "nowhere")
	case w.field:
		// A list of the very plan: whoever took it for a text would go on.
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
		defer o.unverify()()
	}
	if w.outage {
		defer o.breakDown()()
	}
	if w.poor {
		had := o.WalletPaise(o.me)[0]
		o.leave(o.me, "198.99") // less than any plan here costs
		defer o.leave(o.me, fmt.Sprintf("%d.%02d", had/100, had%100))
	}
	if w.maintained {
		defer o.maintain()()
	}
	return o.Send(c)
}

// maintain is maintenance mode until what it returns is called.
func (o *bizOrder) maintain() (undo func()) {
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

// unverify makes prices old that cannot be verified anew, until what it returns
// is called.
func (o *bizOrder) unverify() (undo func()) {
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

// breakDown is an outage of the provider's that the service has noticed, until
// what it returns is called.
func (o *bizOrder) breakDown() (undo func()) {
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
			// A call that the provider holds must not end before the test does.
			b := newBiz(t, "provider.timeout=5m")
			o := &bizOrder{biz: b, other: b.NewFundedOperator("other", "100000"), used: b.key(), taken: b.key(), made: map[string]bizSituation{}}
			o.ok(o.me, "activate", o.used, o.good("activate"))
			running := o.good("activate")
			o.hold(bizCall(o.me, "activate", o.taken, running.json()), running["mobile"].(string))
			cases := o.pairs(endpoint)
			// With nothing in its way it is carried out: none of the above was
			// refused for a reason that nobody knows of.
			o.must("nothing wrong", o.try(endpoint, bizWrongs{}), fault.OK)
			t.Logf("%d cases, %d situations", cases, len(o.made))
			o.CheckAudit()
		})
	}
}

// pairs tries every state and every pair of them that can meet, and returns how
// many those were.
func (o *bizOrder) pairs(endpoint string) (cases int) {
	o.TB.Helper()
	applies := func(endpoints string) bool {
		return endpoints == "all" || slices.Contains(strings.Fields(endpoints), endpoint)
	}
	for i, earlier := range bizStates {
		if !applies(earlier.endpoints) {
			continue
		}
		one := bizWrongs{}
		earlier.make(&one)
		o.check(endpoint, earlier.name, one, earlier.code)
		cases++
		for _, later := range bizStates[i+1:] {
			both, back := one, bizWrongs{}
			later.make(&both)
			later.make(&back)
			earlier.make(&back)
			// Two values of the same thing cannot meet either.
			if applies(later.endpoints) && both == back && both.meets() {
				o.check(endpoint, earlier.name+" with "+later.name, both, earlier.code)
				cases++
			}
		}
	}
	return cases
}

func (o *bizOrder) check(endpoint, what string, w bizWrongs, want fault.Code) {
	o.TB.Helper()
	o.situation(endpoint, w)
	o.unspent(what, func() {
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
