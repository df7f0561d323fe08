package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

// order is a body of an operation's request.
type order map[string]string

func (o order) json() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// operate asks for an operation under a key.
func (w *world) operate(as caller, endpoint, key string, o order) answer {
	w.t.Helper()
	return w.send(call{
		as: as, method: "POST", path: "/api/v1/" + endpoint, body: o.json(),
		header: map[string][]string{"Idempotency-Key": {key}},
	})
}

// transaction looks an operation up by its key.
func (w *world) transaction(as caller, key string) answer {
	w.t.Helper()
	return w.send(call{as: as, path: "/api/v1/transaction?idempotency_key=" + key})
}

// unlimited lets an operator make as many requests as a test likes.
func (w *world) unlimited(as caller) caller {
	w.t.Helper()
	limit := 1_000_000
	if _, err := w.desk.ChangeOperator(context.Background(), as.operatorID, admin.OperatorChange{RateLimit: &limit}); err != nil {
		w.t.Fatal(err)
	}
	return as
}

// rich is a new operator with money and no limit.
func (w *world) rich(name, amount string) caller {
	w.t.Helper()
	me := w.unlimited(w.newOperator(name, access.AllPermissions))
	if amount != "0" {
		w.topUp(me, amount)
	}
	return me
}

func (w *world) topUp(as caller, amount string) {
	w.t.Helper()
	w.paid++
	_, _, err := w.desk.TopUp(context.Background(), admin.TopUp{
		OperatorID: as.operatorID, Amount: rupees(w.t, amount), Reference: fmt.Sprintf("payment %d", w.paid),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// activated makes a subscriber and returns its id.
func (w *world) activated(as caller, mobile, plan string) string {
	w.t.Helper()
	got := w.operate(as, "activate", "activate-"+mobile, order{"full_name": "Asha", "mobile": mobile, "plan_id": plan})
	if got.code != fault.OK {
		w.t.Fatalf("activate %s: %s", mobile, got.raw)
	}
	return got.text("customer.subscriber_id")
}

// text is a field of the data by its path; empty if it is not there.
func (a answer) text(path string) string {
	var at any = a.data
	for name := range strings.SplitSeq(path, ".") {
		object, _ := at.(map[string]any)
		at = object[name]
	}
	if at == nil {
		return ""
	}
	return fmt.Sprint(at)
}

// script tells the simulator how to treat the next calls for a mobile.
func (w *world) script(mobile string, outcomes ...string) {
	w.t.Helper()
	text, _ := json.Marshal(map[string]any{"mobile": mobile, "outcomes": outcomes})
	response, err := w.http.Post(w.simulator.url+"/control/script", "application/json", strings.NewReader(string(text)))
	if err != nil {
		w.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		w.t.Fatalf("the simulator does not take the script: %d", response.StatusCode)
	}
}

// orders counts the orders that the provider was sent; whether it is well, and
// what it sells, the service asks by itself.
func (w *world) orders() int {
	count := 0
	for _, c := range w.simulator.Calls("") {
		switch c.Kind {
		case "activate", "renew", "advance_renew":
			count++
		}
	}
	return count
}

// audited demands clean books, and a provider that did each thing once.
func (w *world) audited() {
	w.t.Helper()
	snapshot, done, err := openSnapshot(context.Background(), w.node.config.Store)
	if err != nil {
		w.t.Fatal(err)
	}
	defer done()
	report, err := audit.Run(context.Background(), snapshot, w.now(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, violation := range report.Violations {
		w.t.Errorf("audit: %+v", violation)
	}
	for reference, effects := range w.simulator.Effects() {
		if effects > 1 {
			w.t.Errorf("the provider applied %s %d times", reference, effects)
		}
	}
}

// traces are the tables that a refused request may touch: what admission remembers, and
// what is written of any request, some seconds later.
var traces = []string{"nonces", "nonce_runs", "nonce_run_parts", "rate_counters", "sqlite_sequence", "request_log", "key_uses"}

// tables hashes every table but those that a refused request may touch.
func (w *world) tables() map[string]string {
	w.t.Helper()
	db := peekStore(w.t, w.node.config.Store)
	defer db.Close()
	hashes := map[string]string{}
	for _, name := range storeTables(w.t, db) {
		if !slices.Contains(traces, name) {
			rows := cliRows(w.t, db, `SELECT * FROM `+name)
			slices.Sort(rows) // they come in no order
			hashes[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(rows, "\n"))))
		}
	}
	return hashes
}

// untouched demands that something leaves no trace.
func (w *world) untouched(what string, run func()) {
	w.t.Helper()
	w.untouchedBut(nil, what, run)
}

// untouchedBut does so for all tables but the named ones.
func (w *world) untouchedBut(but []string, what string, run func()) {
	w.t.Helper()
	before := w.tables()
	run()
	for name, hash := range w.tables() {
		if before[name] != hash && !slices.Contains(but, name) {
			w.t.Errorf("%s: table %s has changed", what, name)
		}
	}
}

// Every refusal before the reservation, each with what it needs to happen.
func TestARefusalBeforeTheReservationLeavesNoTrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "provider.timeout=2s", "limits.failed_auth_per_minute=100000", "review.first_check=1h")
	me, poor := w.rich("me", "5000"), w.rich("poor", "198.99")
	other := w.rich("other", "5000")
	subscriber := w.activated(me, "9811111111", "BASIC-1")
	w.activated(other, "9822222222", "BASIC-1")
	poorOnes := w.rich("poor later", "199")
	theirs := w.activated(poorOnes, "9844444444", "BASIC-1")
	busy := w.activated(me, "9833333333", "BASIC-1")
	w.script("9833333333", "timeout_not_applied")
	if got := w.operate(me, "renew", "in-review-1", order{"subscriber_id": busy, "plan_id": "BASIC-1"}); got.code != fault.PendingReview {
		t.Fatalf("in review: %s", got.raw)
	}
	if got := w.operate(me, "renew", "renewed-just-now", order{"subscriber_id": subscriber, "plan_id": "FAMILY-1"}); got.code != fault.OK {
		t.Fatalf("renewed: %s", got.raw)
	}
	calls := w.orders()
	good := order{"full_name": "Asha", "mobile": "9855555555", "plan_id": "BASIC-1"}
	with := func(o order, name, value string) order {
		changed := maps.Clone(o)
		changed[name] = value
		return changed
	}
	renewal := order{"subscriber_id": subscriber, "plan_id": "BASIC-1"}
	rows := []struct {
		what     string
		as       caller
		endpoint string
		key      string
		order    order
		want     fault.Code
	}{
		{"a bad field", me, "activate", "fresh-key-1", with(good, "mobile", "98"), fault.ValidationError},
		{"no plan", me, "activate", "fresh-key-2", with(good, "plan_id", ""), fault.ValidationError},
		{"an unknown plan", me, "activate", "fresh-key-3", with(good, "plan_id", "NONE-1"), fault.InvalidPlan},
		{"a known mobile", me, "activate", "fresh-key-4", with(good, "mobile", "9811111111"), fault.SubscriberExists},
		{"another operator's mobile", me, "activate", "fresh-key-5", with(good, "mobile", "9822222222"), fault.SubscriberExists},
		{"too little money", poor, "activate", "fresh-key-6", good, fault.InsufficientBalance},
		{"no money at all", poorOnes, "renew", "fresh-key-7", order{"subscriber_id": theirs, "plan_id": "BASIC-1"}, fault.InsufficientBalance},
		{"nobody", me, "renew", "fresh-key-8", with(renewal, "subscriber_id", "000000"), fault.SubscriberNotFound},
		{"another operator's subscriber", other, "renew", "fresh-key-9", renewal, fault.SubscriberNotFound},
		{"a busy customer", me, "renew", "fresh-key-10", order{"subscriber_id": busy, "plan_id": "BASIC-1"}, fault.OperationInProgress},
		{"a duplicate", me, "renew", "fresh-key-11", with(renewal, "plan_id", "FAMILY-1"), fault.DuplicateRequest},
		{"a duplicate in advance", me, "advance-renew", "fresh-key-12", with(renewal, "plan_id", "FAMILY-1"), fault.DuplicateRequest},
		{"a known key with another body", me, "renew", "renewed-just-now", renewal, fault.IdempotencyKeyReused},
		{"a known key at another endpoint", me, "advance-renew", "renewed-just-now", with(renewal, "plan_id", "FAMILY-1"), fault.IdempotencyKeyReused},
		{"a replay", me, "renew", "renewed-just-now", with(renewal, "plan_id", "FAMILY-1"), fault.OK},
		{"a replay of what is in review", me, "renew", "in-review-1", order{"subscriber_id": busy, "plan_id": "BASIC-1"}, fault.PendingReview},
	}
	for _, row := range rows {
		w.untouched(row.what, func() {
			if got := w.operate(row.as, row.endpoint, row.key, row.order); got.code != row.want {
				t.Errorf("%s: %d %s (%s); want %s", row.what, got.status, got.code, got.message, row.want)
			}
		})
	}
	w.pass(3 * time.Minute)
	w.untouched("the active plan in advance", func() {
		if got := w.operate(me, "advance-renew", "fresh-key-13", with(renewal, "plan_id", "FAMILY-1")); got.code != fault.PlanAlreadyActive {
			t.Errorf("the active plan in advance: %s; want PLAN_ALREADY_ACTIVE", got.raw)
		}
	})
	if now := w.orders(); now != calls {
		t.Errorf("the provider was called %d times for what was refused", now-calls)
	}
	w.audited()
}

// Scenarios 0, 1 and 7 for each operation, as the tables of outcomes have them.
func TestOutcomesOfTheThreeOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.rich("me", "100000")
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
		o := order{"full_name": "Asha", "mobile": mobile, "plan_id": "FAMILY-1"}
		if row.endpoint != "activate" {
			w.script(mobile, "success") // the activation goes well whatever the number says
			o = order{"subscriber_id": w.activated(me, mobile, "BASIC-1"), "plan_id": "FAMILY-1"}
		}
		before := w.money(me)
		key := fmt.Sprintf("outcome-%d", i)
		got := w.operate(me, row.endpoint, key, o)
		if got.code != row.code || got.text("status") != row.status || got.text("operation") != row.operation || got.success != (row.code == fault.OK) {
			t.Errorf("%s: %s", what, got.raw)
			continue
		}
		w.judgeMoney(what, got, before, w.money(me), "349")
		w.judgeAgreement(what, me, key, row.endpoint, o, got)
		if row.status == "failed" {
			if got.text("reason") != "PROVIDER_REJECTED" || got.text("provider_message") == "" || got.text("expiry.new") != "" || got.text("customer.password") != "" {
				t.Errorf("%s: %s", what, got.raw)
			}
			// A new attempt needs a new key, and works with one.
			w.script(mobile, "success")
			if again := w.operate(me, row.endpoint, key+"-again", o); again.code != fault.OK {
				t.Errorf("%s, again with a new key: %s", what, again.raw)
			}
		}
	}
	w.audited()
}

// money is an operator's balance and holds, in paise.
func (w *world) money(as caller) [2]int64 {
	w.t.Helper()
	wallet, err := w.desk.Wallet(context.Background(), as.operatorID)
	if err != nil {
		w.t.Fatal(err)
	}
	return [2]int64{wallet.Balance.Paise(), wallet.Held.Paise()}
}

// judgeMoney holds an answer's wallet against what really moved.
func (w *world) judgeMoney(what string, got answer, before, after [2]int64, price string) {
	w.t.Helper()
	cost := rupees(w.t, price).Paise()
	want := map[string][2]int64{
		"success": {before[0] - cost, before[1]}, "failed": before, "needs_review": {before[0] - cost, before[1] + cost},
	}[got.text("status")]
	if after != want {
		w.t.Errorf("%s: the wallet went from %v to %v; want %v", what, before, after, want)
	}
	wallet, _ := got.data["wallet"].(map[string]any)
	charged := map[string]int64{"success": cost}[got.text("status")]
	shown := func(name string) int64 { f, _ := wallet[name].(float64); return int64(f*100 + 0.5) }
	if shown("before") != before[0] || shown("after") != after[0] || shown("charged") != charged ||
		wallet["held"] != (got.text("status") == "needs_review") || wallet["refunded"] != (got.text("status") == "failed") {
		w.t.Errorf("%s: the answer shows %v; it went from %v to %v", what, wallet, before, after)
	}
}

// judgeAgreement holds first answer, replay and look-up against each other,
// field by field, the password aside.
func (w *world) judgeAgreement(what string, as caller, key, endpoint string, o order, first answer) {
	w.t.Helper()
	calls := w.orders()
	replay := w.operate(as, endpoint, key, o)
	if replay.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
		w.t.Errorf("%s: replayed %q, first %q", what, replay.header.Get("Idempotent-Replayed"), first.header.Get("Idempotent-Replayed"))
	}
	if replay.code != first.code || replay.status != first.status || replay.message != first.message || replay.id == first.id {
		w.t.Errorf("%s: replayed as %s; first was %s", what, replay.raw, first.raw)
	}
	found := w.transaction(as, key)
	if found.code != fault.OK || found.text("result_code") != string(first.code) || found.text("result_message") != first.message {
		w.t.Errorf("%s: looked up as %s", what, found.raw)
	}
	byID := w.send(call{as: as, path: "/api/v1/transaction?transaction_id=" + first.text("transaction_id")})
	plain := func(a answer, drop ...string) string {
		var data map[string]any
		text, _ := json.Marshal(a.data)
		_ = json.Unmarshal(text, &data)
		for _, name := range drop {
			delete(data, name)
		}
		if customer, ok := data["customer"].(map[string]any); ok {
			delete(customer, "password")
		}
		text, _ = json.Marshal(data)
		return string(text)
	}
	want := plain(first)
	for name, other := range map[string]string{
		"replay": plain(replay), "look-up": plain(found, "result_code", "result_message"), "look-up by id": plain(byID, "result_code", "result_message"),
	} {
		if other != want {
			w.t.Errorf("%s: the %s differs\n%s\nfrom\n%s", what, name, other, want)
		}
	}
	if replay.text("customer.password") != "" || found.text("customer.password") != "" {
		w.t.Errorf("%s: the password is given twice", what)
	}
	if now := w.orders(); now != calls {
		w.t.Errorf("%s: replay and look-up called the provider %d times", what, now-calls)
	}
}

// What the provider leaves open is held and answered 202, in each of the ways in
// which it can.
func TestAnUnknownOutcomeIsHeldAndAnsweredAsPending(t *testing.T) {
	t.Parallel()
	outcomes := map[string]string{"2": "timeout_applied", "3": "timeout_not_applied", "4": "gateway_error", "5": "wrong_reference", "8": "unknowable", "9": "reset_applied"}
	together(t, []string{"activate", "renew", "advance-renew"}, strings.Clone, func(t *testing.T, endpoint string) {
		w := newWorld(t, "provider.timeout=2s", "review.first_check=1h")
		me := w.rich("me", "100000")
		for digit, outcome := range outcomes {
			mobile := fmt.Sprintf("90000%s0001", digit)
			o := order{"full_name": "Asha", "mobile": mobile, "plan_id": "FAMILY-1"}
			if endpoint != "activate" {
				w.script(mobile, "success")
				o = order{"subscriber_id": w.activated(me, mobile, "BASIC-1"), "plan_id": "FAMILY-1"}
			}
			before := w.money(me)
			key := "pending-" + digit
			got := w.operate(me, endpoint, key, o)
			if got.code != fault.PendingReview || got.status != 202 || got.success || got.text("status") != "needs_review" {
				t.Errorf("%s: %d %s", outcome, got.status, got.raw)
				continue
			}
			w.judgeMoney(outcome, got, before, w.money(me), "349")
			w.judgeAgreement(outcome, me, key, endpoint, o, got)
			if endpoint == "activate" && len(got.text("customer.password")) != 12 {
				t.Errorf("%s: no password in the first answer: %s", outcome, got.raw)
			}
			sub := w.send(call{as: me, path: "/api/v1/subscription?mobile=" + mobile})
			pending, _ := sub.data["pending_operations"].([]any)
			if len(pending) != 1 || (endpoint == "activate") != (sub.text("status") == "pending") {
				t.Errorf("%s: the subscriber is shown as %s", outcome, sub.raw)
			}
			next := w.operate(me, "renew", key+"-next", order{"mobile": mobile, "plan_id": "FAMILY-1"})
			if next.code != fault.OperationInProgress {
				t.Errorf("%s: another operation meanwhile: %s", outcome, next.code)
			}
		}
		// An answer about something else is for a person to see; silence is not.
		entries, err := w.desk.Exceptions(t.Context(), false)
		if err != nil || len(entries) != 1 || entries[0].Kind != "WRONG_ANSWER" || !strings.Contains(entries[0].Detail, "another reference") {
			t.Errorf("exceptions %+v, %v; want one, for the wrong reference", entries, err)
		}
		w.audited()
	})
}

func TestAProviderThatIsNotThereIsAFailureRefundedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "provider.url=http://127.0.0.1:1")
	me := w.rich("me", "1000")
	before := w.money(me)
	got := w.operate(me, "activate", "unreachable-1", order{"full_name": "Asha", "mobile": "9811111111", "plan_id": "FAMILY-1"})
	if got.code != fault.ProviderError || got.text("reason") != "PROVIDER_UNREACHABLE" || got.text("provider_message") == "" {
		t.Errorf("%s", got.raw)
	}
	w.judgeMoney("nobody there", got, before, w.money(me), "349")
	if sub := w.send(call{as: me, path: "/api/v1/subscription?mobile=9811111111"}); sub.code != fault.SubscriberNotFound {
		t.Errorf("the subscriber remains: %s", sub.raw)
	}
	w.audited()
}

// A combo asks twice, main first; a failed add-on leaves a success with a
// warning and the whole charge.
func TestAComboAsksForMainThenAddon(t *testing.T) {
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
		{"the add-on's answer does not come", []string{"success", "timeout_applied"}, fault.OK, true, 2},
		{"main is rejected", []string{"reject"}, fault.ProviderError, false, 1},
		{"main's answer does not come", []string{"timeout_not_applied"}, fault.PendingReview, false, 1},
	}
	together(t, []string{"activate", "renew", "advance-renew"}, strings.Clone, func(t *testing.T, endpoint string) {
		w := newWorld(t, "provider.timeout=2s", "review.first_check=1h")
		me := w.rich("me", "100000")
		for i, row := range rows {
			mobile := fmt.Sprintf("98000000%02d", i)
			o := order{"full_name": "Asha", "mobile": mobile, "plan_id": "COMBO-1"}
			earlier := 0
			if endpoint != "activate" {
				o = order{"subscriber_id": w.activated(me, mobile, "BASIC-1"), "plan_id": "COMBO-1"}
				earlier = 1
			}
			w.script(mobile, row.outcomes...)
			before := w.money(me)
			key := fmt.Sprintf("combo-%03d", i)
			got := w.operate(me, endpoint, key, o)
			warned := len(got.data["warnings"].([]any)) == 1
			if got.code != row.code || warned != row.warned {
				t.Errorf("%s: %s", row.what, got.raw)
			}
			w.judgeMoney(row.what, got, before, w.money(me), "499")
			w.judgeAgreement(row.what, me, key, endpoint, o, got)
			calls := w.simulator.Calls(mobile)[earlier:]
			if len(calls) != row.calls || calls[0].Component != "TV-FAMILY" || calls[0].Reference != got.text("transaction_id") ||
				(row.calls == 2 && (calls[1].Component != "OTT-PLUS" || calls[1].Reference != got.text("transaction_id")+"-2")) {
				t.Errorf("%s: the provider was asked %+v", row.what, calls)
			}
		}
		w.audited()
	})
}

func TestAPriceChangeActsAtOnceAndAClientsPriceNever(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.rich("me", "10000")
	first := w.send(call{
		as: me, method: "POST", path: "/api/v1/activate", body: `{"full_name":"A","mobile":"9811111111","plan_id":"BASIC-1","price":"1.00","amount":0.01}`,
	})
	if first.text("amount") != "199" {
		t.Errorf("with a price of the client's own: %s", first.raw)
	}
	plans, err := w.desk.Plans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	basic := plans[slices.IndexFunc(plans, func(p subscription.Plan) bool { return p.ID == "BASIC-1" })]
	basic.Price = rupees(t, "209.50")
	if _, err := w.desk.SetPlan(t.Context(), basic); err != nil {
		t.Fatal(err)
	}
	if got := w.operate(me, "renew", "new-price-1", order{"mobile": "9811111111", "plan_id": "BASIC-1"}); got.text("amount") != "209.5" {
		t.Errorf("after the change: %s", got.raw)
	}
	w.audited()
}
