package demohistory

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
)

func TestAHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.state(Possible)
	begins := w.furnish(Maker)
	if found := w.state(Begun); !found.Equal(begins) {
		t.Errorf("the history begins at %s; want %s", found, begins)
	}
	w.fill(begins)
	w.state(Whole)
	told := summary(w.operations())
	t.Run("gives every page something to show", func(t *testing.T) { everyPageHasSomething(w.in(t), begins) })
	t.Run("has the calls that its orders came by", func(t *testing.T) { callsAreThere(w.in(t)) })
	t.Run("is not made twice", func(t *testing.T) { notMadeTwice(w.in(t), begins) })
	t.Run("leaves customers who can be renewed", func(t *testing.T) { canBeRenewed(w.in(t)) })
	t.Run("that was cut off is ended by the next start", func(t *testing.T) { cutOff(t, told) })
}

// callsAreThere: each order of the last month is in the log, be it a call of the API or
// from the counter, and among the others are refusals that can be explained.
func callsAreThere(w *world) {
	channels := map[bool]operation.Channel{true: operation.Web, false: operation.API}
	orders, refused, explained := map[string]operation.Channel{}, 0, 0
	for query := (requestlog.Query{Limit: 100}); ; {
		page, err := w.config.Requests.Search(w.Context(), 1, query)
		if err != nil {
			w.Fatal(err)
		}
		for _, call := range page.Entries {
			if call.At.After(today) || call.At.Before(today.Add(-30*day)) {
				w.Errorf("a call of %s; want it in the last 30 days", call.At)
			}
			if call.IdempotencyKey != "" {
				orders[call.IdempotencyKey] = channels[call.FromPage()]
			}
			if call.Signature != nil {
				refused++
				if len(requestlog.Explain(call)) > 0 {
					explained++
				}
			}
		}
		if query.After = page.Next; page.Next == "" {
			break
		}
	}
	for _, op := range w.operations() {
		var want operation.Channel
		if op.OperatorID == 1 && op.CreatedAt.After(today.Add(-30*day)) {
			want = op.Channel
		}
		if got := orders[op.IdempotencyKey]; got != want {
			w.Errorf("%s of %s by %s is in the log as one by %q; want %q", op.IdempotencyKey, op.CreatedAt, op.Channel, got, want)
		}
	}
	// That of a wrong secret is to be compared with one's own string.
	if refused != 3 || explained != 2 {
		w.Errorf("%d signatures were refused, %d of them explained; want 3 and 2", refused, explained)
	}
	if strangers, err := w.config.Requests.RefusedAddresses(w.Context(), 1, today.Add(-30*day)); err != nil || len(strangers) != 1 {
		w.Errorf("refused addresses: %v, %v; want one", strangers, err)
	}
	if used, err := w.config.Requests.LastUse(w.Context(), 1); err != nil || len(used) != 1 {
		w.Errorf("keys in use: %v, %v; want one", used, err)
	}
}

func everyPageHasSomething(w *world, begins time.Time) {
	counts := w.audited()

	wallet, err := w.store.Wallet(w.Context(), 1)
	if err != nil || wallet.Balance != Closing {
		w.Errorf("the wallet holds %s (%v); want %s", wallet.Balance, err, Closing)
	}
	if wallet.Held.IsZero() {
		w.Error("nothing is held")
	}
	ops := w.operations()
	tally := map[string]int{}
	for _, op := range ops {
		tally[string(op.Kind)]++
		tally[string(op.State)]++
		tally[string(op.Channel)]++
		tally[string(op.Reason)]++
		if op.NeedsPerson {
			tally["needs a person"]++
		}
		if op.CreatedAt.After(today) || op.CreatedAt.Before(begins) {
			w.Errorf("operation %s is of %s; want it between %s and %s", op.ID, op.CreatedAt, begins, today)
		}
		if op.CreatedAt.After(today.Add(-30 * time.Minute)) {
			tally["just now"]++
		}
	}
	for what, least := range map[string]int{
		"activate": 240, "renew": 250, "advance_renew": 20, "api": 300, "web": 150, "success": 550, "just now": 4,
		string(operation.ProviderRejected): 8, string(operation.NotConfirmed): 2, string(operation.RejectedByReview): 1,
	} {
		if tally[what] < least {
			w.Errorf("%d operations are %s; want at least %d", tally[what], what, least)
		}
	}
	if tally["needs_review"] != 3 || tally["needs a person"] != 3 || tally["processing"] != 0 {
		w.Errorf("%d are in review, %d of them for a person, and %d processing; want 3, 3 and 0",
			tally["needs_review"], tally["needs a person"], tally["processing"])
	}
	if counts.Operators != 3 || counts.Actions < 25 || counts.PlanVersions != 6 {
		w.Errorf("there are %d operators, %d acts and %d versions of plans; want 3, 25 or more, and 6", counts.Operators, counts.Actions, counts.PlanVersions)
	}
	open, err := w.store.Exceptions(w.Context(), false)
	if err != nil || len(open) != 1 || open[0].Kind != operation.LateSuccess {
		w.Errorf("open exceptions: %v, %v; want one late success", open, err)
	}
	all, err := w.store.Exceptions(w.Context(), true)
	if err != nil || len(all) != 2 {
		w.Errorf("%d exceptions in all (%v); want 2", len(all), err)
	}
	missing, err := w.store.MissingAddons(w.Context())
	if err != nil || len(missing) != 1 {
		w.Errorf("%d add-ons are missing (%v); want 1", len(missing), err)
	}
	w.expiriesAreSpread(ops)
}

// operations are all of the first operator's, oldest first.
func (w *world) operations() []operation.Operation {
	w.Helper()
	ops, err := w.store.ListOperations(w.Context(), admin.OperationFilter{OperatorID: 1, Limit: 10_000})
	if err != nil {
		w.Fatal(err)
	}
	slices.Reverse(ops)
	return ops
}

func (w *world) expiriesAreSpread(ops []operation.Operation) {
	w.Helper()
	within := map[string]int{}
	seen := map[string]bool{}
	for _, op := range ops {
		if seen[op.SubscriberID] {
			continue
		}
		seen[op.SubscriberID] = true
		s, found, err := w.store.SubscriptionOf(w.Context(), 1, op.SubscriberID, "")
		if err != nil {
			w.Fatal(err)
		}
		if !found || s.Expires.IsZero() {
			continue
		}
		switch left := s.Expires.Sub(today); {
		case left <= 0:
			within["expired"]++
		case s.Expires.Before(midnightAfter(today)):
			within["today"]++
		case left <= 3*day:
			within["3 days"]++
		case left <= 7*day:
			within["7 days"]++
		case left <= 15*day:
			within["15 days"]++
		default:
			within["later"]++
		}
	}
	for what, least := range map[string]int{"expired": 10, "today": 5, "3 days": 4, "7 days": 6, "15 days": 10, "later": 60} {
		if within[what] < least {
			w.Errorf("%d subscriptions end: %s; want at least %d (%v)", within[what], what, least, within)
		}
	}
}

// The provider, too, has nothing against going on from here.
func canBeRenewed(w *world) {
	plans := catalogue.New(w.store, w.config.Source, catalogue.Config{Now: w.config.Now, Provider: "simulator", MaxAge: 30 * time.Minute})
	processor := operation.NewProcessor(w.store, plans, w.config.Provider, operation.NewBreaker(func(context.Context) error { return nil }),
		operation.Config{Now: w.config.Now, Node: "now", ProviderName: "simulator", Timeout: w.config.Timeout, FirstCheck: w.config.FirstCheck, ActivationTerm: subscription.ThirtyDays, Fingerprints: w.config.Fingerprints})
	renewed := 0
	for i, op := range w.operations() {
		busy := op.State.Open()
		if i%17 != 0 && !busy {
			continue
		}
		fields := map[string]string{"subscriber_id": op.SubscriberID, "plan_id": basic}
		content, err := json.Marshal(fields)
		if err != nil {
			w.Fatal(err)
		}
		result, err := processor.Process(w.Context(), operation.Request{
			OperatorID: 1, Channel: operation.Web, Actor: "web:test", IdempotencyKey: "renewal of " + op.ID, Kind: operation.Renew, Fields: fields, Content: content,
		})
		if busy && err == nil {
			w.Errorf("%s is in review, and its customer could be renewed", op.ID)
		}
		if !busy && err == nil && result.State != operation.Success {
			w.Errorf("the renewal of %s is %s: %s; want success", op.SubscriberID, result.State, result.ProviderMessage)
		}
		if err == nil {
			renewed++
		}
	}
	if renewed < 20 {
		w.Errorf("%d customers could be renewed; want 20 or more", renewed)
	}

	// What is in review stays there until a person decides, who can.
	reviewer := operation.NewReviewer(w.store, w.config.Provider, operation.ReviewConfig{
		Now: w.config.Now, Node: "now", Timeout: w.config.Timeout, FirstCheck: w.config.FirstCheck, MaxInterval: w.config.MaxInterval, RefundAfter: w.config.RefundAfter,
	})
	if _, err := reviewer.RunOnce(w.Context()); err != nil {
		w.Fatal(err)
	}
	service := admin.NewService(w.store, w.config.Vault, "cli:test", w.config.Now)
	waiting, err := service.InReview(w.Context())
	if err != nil || len(waiting) != 3 {
		w.Fatalf("%d are in review once the provider was asked again (%v); want 3", len(waiting), err)
	}
	for i, op := range waiting {
		if _, err := service.SettleReview(w.Context(), op.ID, i > 0, "decided by a test"); err != nil {
			w.Error(err)
		}
	}
	w.audited()
}

func cutOff(t *testing.T, want map[string]string) {
	w := newWorld(t)
	begins := w.furnish(Maker)
	// Again and again it is cut off after some orders, the last of them carried
	// out and not settled, as by a kill.
	for _, orders := range []int{40, 200, 150, 120, 70} {
		ctx, cut := context.WithCancel(t.Context())
		config := w.config
		config.Provider = &cutting{Provider: w.config.Provider, orders: orders, cut: cut}
		config.Store = &dying{DB: w.store, dead: ctx}
		if err := Fill(ctx, config, begins); !errors.Is(err, errDead) && !errors.Is(err, context.Canceled) {
			t.Fatalf("a history that was cut off after %d orders ended with %v", orders, err)
		}
		w.state(Begun)
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		w.open()
	}
	w.fill(begins)
	w.state(Whole)
	w.audited()
	wallet, err := w.store.Wallet(t.Context(), 1)
	if err != nil || wallet.Balance != Closing {
		t.Errorf("the wallet holds %s (%v); want %s", wallet.Balance, err, Closing)
	}

	// And it is the same history, but for when what was cut off was settled.
	got := summary(w.operations())
	for key, line := range want {
		if got[key] != line {
			t.Errorf("%s is %q; want %q", key, got[key], line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d operations; want %d", len(got), len(want))
	}
	for reference, times := range w.config.Simulator.Effects() {
		if times > 1 {
			t.Errorf("%s was carried out %d times", reference, times)
		}
	}
}

func summary(ops []operation.Operation) map[string]string {
	lines := map[string]string{}
	for _, op := range ops {
		lines[op.IdempotencyKey] = string(op.Kind) + " " + op.SubscriberID + " " + op.CustomerName + " " + op.PlanID + " " + op.Amount.String() + " " + string(op.State)
	}
	return lines
}

func notMadeTwice(w *world, begins time.Time) {
	before := w.audited()
	calls := len(w.config.Simulator.Calls(""))
	w.fill(begins)
	after := w.audited()
	if before.Operations != after.Operations || before.WalletEntries != after.WalletEntries || before.Actions != after.Actions {
		w.Errorf("a second time changed %+v into %+v", before, after)
	}
	if more := len(w.config.Simulator.Calls("")) - calls; more != 0 {
		w.Errorf("a second time asked the provider %d times", more)
	}
}

func TestWhoBeganWithoutAHistoryIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.furnish("demo")
	w.state(Impossible)
}

func TestMadeUpNumbersTellTheSimulatorNothing(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for number := range 1000 {
		mobile := mobileOf(number)
		if len(mobile) != 10 || seen[mobile] || simulator.OutcomeFor(mobile) != simulator.Success {
			t.Errorf("customer %d has the mobile %s", number, mobile)
		}
		seen[mobile] = true
	}
}
