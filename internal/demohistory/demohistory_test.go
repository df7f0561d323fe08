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

func TestFill(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.checkState(Possible)
	begins := e.setup(Actor)
	if found := e.checkState(Incomplete); !found.Equal(begins) {
		t.Errorf("the history begins at %s; want %s", found, begins)
	}
	e.fill(begins)
	e.checkState(Complete)
	want := summary(e.operations())
	t.Run("every page has data", func(t *testing.T) { everyPageHasData(e.with(t), begins) })
	t.Run("request log", func(t *testing.T) { requestLog(e.with(t)) })
	t.Run("second Fill changes nothing", func(t *testing.T) { secondFill(e.with(t), begins) })
	t.Run("customers can be renewed", func(t *testing.T) { canBeRenewed(e.with(t)) })
	t.Run("completed after kills", func(t *testing.T) { completedAfterKills(t, want) })
}

// requestLog checks that each order of the last month is in the request log, by API or from
// the counter, and that there are refused calls which can be explained.
func requestLog(e *env) {
	channels := map[bool]operation.Channel{true: operation.Web, false: operation.API}
	orders, refused, explained := map[string]operation.Channel{}, 0, 0
	for query := (requestlog.Query{Limit: 100}); ; {
		page, err := e.config.Requests.Search(e.Context(), 1, query)
		if err != nil {
			e.Fatal(err)
		}
		for _, call := range page.Entries {
			if call.At.After(today) || call.At.Before(today.Add(-30*day)) {
				e.Errorf("a call of %s; want it in the last 30 days", call.At)
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
	for _, op := range e.operations() {
		var want operation.Channel
		if op.OperatorID == 1 && op.CreatedAt.After(today.Add(-30*day)) {
			want = op.Channel
		}
		if got := orders[op.IdempotencyKey]; got != want {
			e.Errorf("%s of %s by %s is in the log as one by %q; want %q", op.IdempotencyKey, op.CreatedAt, op.Channel, got, want)
		}
	}
	// The call with a wrong secret cannot be explained.
	if refused != 3 || explained != 2 {
		e.Errorf("%d signatures were refused, %d of them explained; want 3 and 2", refused, explained)
	}
	if refused, err := e.config.Requests.RefusedAddresses(e.Context(), 1, today.Add(-30*day)); err != nil || len(refused) != 1 {
		e.Errorf("refused addresses: %v, %v; want one", refused, err)
	}
	if used, err := e.config.Requests.LastUse(e.Context(), 1); err != nil || len(used) != 1 {
		e.Errorf("keys in use: %v, %v; want one", used, err)
	}
}

func everyPageHasData(e *env, begins time.Time) {
	counts := e.audited()

	wallet, err := e.store.Wallet(e.Context(), 1)
	if err != nil || wallet.Balance != Closing {
		e.Errorf("the wallet holds %s (%v); want %s", wallet.Balance, err, Closing)
	}
	if wallet.Held.IsZero() {
		e.Error("nothing is held")
	}
	ops := e.operations()
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
			e.Errorf("operation %s is of %s; want it between %s and %s", op.ID, op.CreatedAt, begins, today)
		}
		if op.CreatedAt.After(today.Add(-30 * time.Minute)) {
			tally["just now"]++
		}
	}
	for what, minimum := range map[string]int{
		"activate": 240, "renew": 250, "advance_renew": 20, "api": 300, "web": 150, "success": 550, "just now": 4,
		string(operation.ProviderRejected): 8, string(operation.NotConfirmed): 2, string(operation.RejectedByReview): 1,
	} {
		if tally[what] < minimum {
			e.Errorf("%d operations are %s; want at least %d", tally[what], what, minimum)
		}
	}
	if tally["needs_review"] != 3 || tally["needs a person"] != 3 || tally["processing"] != 0 {
		e.Errorf("%d are in review, %d of them for a person, and %d processing; want 3, 3 and 0",
			tally["needs_review"], tally["needs a person"], tally["processing"])
	}
	if counts.Operators != 3 || counts.Actions < 25 || counts.PlanVersions != 6 {
		e.Errorf("there are %d operators, %d staff actions and %d versions of plans; want 3, 25 or more, and 6", counts.Operators, counts.Actions, counts.PlanVersions)
	}
	open, err := e.store.Exceptions(e.Context(), false)
	if err != nil || len(open) != 1 || open[0].Kind != operation.LateSuccess {
		e.Errorf("open exceptions: %v, %v; want one late success", open, err)
	}
	all, err := e.store.Exceptions(e.Context(), true)
	if err != nil || len(all) != 2 {
		e.Errorf("%d exceptions in all (%v); want 2", len(all), err)
	}
	missing, err := e.store.MissingAddons(e.Context())
	if err != nil || len(missing) != 1 {
		e.Errorf("%d add-ons are missing (%v); want 1", len(missing), err)
	}
	e.expiriesAreSpread(ops)
}

// operations returns all operations of the first operator, oldest first.
func (e *env) operations() []operation.Operation {
	e.Helper()
	ops, err := e.store.ListOperations(e.Context(), admin.OperationFilter{OperatorID: 1, Limit: 10_000})
	if err != nil {
		e.Fatal(err)
	}
	slices.Reverse(ops)
	return ops
}

func (e *env) expiriesAreSpread(ops []operation.Operation) {
	e.Helper()
	within := map[string]int{}
	seen := map[string]bool{}
	for _, op := range ops {
		if seen[op.SubscriberID] {
			continue
		}
		seen[op.SubscriberID] = true
		s, found, err := e.store.SubscriptionOf(e.Context(), 1, op.SubscriberID, "")
		if err != nil {
			e.Fatal(err)
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
	for what, minimum := range map[string]int{"expired": 10, "today": 5, "3 days": 4, "7 days": 6, "15 days": 10, "later": 60} {
		if within[what] < minimum {
			e.Errorf("%d subscriptions end: %s; want at least %d (%v)", within[what], what, minimum, within)
		}
	}
}

// canBeRenewed renews customers, as the service would after the history.
func canBeRenewed(e *env) {
	plans := catalogue.New(e.store, e.config.Source, catalogue.Config{Now: e.config.Now, Provider: "simulator", MaxAge: 30 * time.Minute})
	processor := operation.NewProcessor(e.store, plans, e.config.Provider, operation.NewBreaker(func(context.Context) error { return nil }),
		operation.Config{Now: e.config.Now, Node: "now", ProviderName: "simulator", Timeout: e.config.Timeout, FirstCheck: e.config.FirstCheck, ActivationTerm: subscription.ThirtyDays, Fingerprints: e.config.Fingerprints})
	renewed := 0
	for i, op := range e.operations() {
		busy := op.State.Open()
		if i%17 != 0 && !busy {
			continue
		}
		fields := map[string]string{"subscriber_id": op.SubscriberID, "plan_id": basic}
		content, err := json.Marshal(fields)
		if err != nil {
			e.Fatal(err)
		}
		result, err := processor.Process(e.Context(), operation.Request{
			OperatorID: 1, Channel: operation.Web, Actor: "web:test", IdempotencyKey: "renewal of " + op.ID, Kind: operation.Renew, Fields: fields, Content: content,
		})
		if busy && err == nil {
			e.Errorf("%s is in review, and its customer could be renewed", op.ID)
		}
		if !busy && err == nil && result.State != operation.Success {
			e.Errorf("the renewal of %s is %s: %s; want success", op.SubscriberID, result.State, result.ProviderMessage)
		}
		if err == nil {
			renewed++
		}
	}
	if renewed < 20 {
		e.Errorf("%d customers could be renewed; want 20 or more", renewed)
	}

	// Operations in review stay there until staff settle them.
	reviewer := operation.NewReviewer(e.store, e.config.Provider, operation.ReviewConfig{
		Now: e.config.Now, Node: "now", Timeout: e.config.Timeout, FirstCheck: e.config.FirstCheck, MaxInterval: e.config.MaxInterval, RefundAfter: e.config.RefundAfter,
	})
	if _, err := reviewer.RunOnce(e.Context()); err != nil {
		e.Fatal(err)
	}
	service := admin.NewService(e.store, e.config.Vault, "cli:test", e.config.Now)
	waiting, err := service.InReview(e.Context())
	if err != nil || len(waiting) != 3 {
		e.Fatalf("%d are in review after another status check (%v); want 3", len(waiting), err)
	}
	for i, op := range waiting {
		if _, err := service.SettleReview(e.Context(), op.ID, i > 0, "decided by a test"); err != nil {
			e.Error(err)
		}
	}
	e.audited()
}

func completedAfterKills(t *testing.T, want map[string]string) {
	e := newEnv(t)
	begins := e.setup(Actor)
	// Each time it is killed after some orders; the last one is carried out and not settled.
	for _, orders := range []int{40, 200, 150, 120, 70} {
		ctx, cut := context.WithCancel(t.Context())
		config := e.config
		config.Provider = &killingProvider{Provider: e.config.Provider, orders: orders, cut: cut}
		config.Store = &killedStore{DB: e.store, dead: ctx}
		if err := Fill(ctx, config, begins); !errors.Is(err, errDead) && !errors.Is(err, context.Canceled) {
			t.Fatalf("a history that was killed after %d orders ended with %v", orders, err)
		}
		e.checkState(Incomplete)
		if err := e.store.Close(); err != nil {
			t.Fatal(err)
		}
		e.open()
	}
	e.fill(begins)
	e.checkState(Complete)
	e.audited()
	wallet, err := e.store.Wallet(t.Context(), 1)
	if err != nil || wallet.Balance != Closing {
		t.Errorf("the wallet holds %s (%v); want %s", wallet.Balance, err, Closing)
	}

	// It is the same history, except for the time at which interrupted orders were settled.
	got := summary(e.operations())
	for key, line := range want {
		if got[key] != line {
			t.Errorf("%s is %q; want %q", key, got[key], line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d operations; want %d", len(got), len(want))
	}
	for reference, times := range e.config.Simulator.Effects() {
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

func secondFill(e *env, begins time.Time) {
	before := e.audited()
	calls := len(e.config.Simulator.Calls(""))
	e.fill(begins)
	after := e.audited()
	if before.Operations != after.Operations || before.WalletEntries != after.WalletEntries || before.Actions != after.Actions {
		e.Errorf("the second Fill changed %+v into %+v", before, after)
	}
	if more := len(e.config.Simulator.Calls("")) - calls; more != 0 {
		e.Errorf("the second Fill called the provider %d times", more)
	}
}

func TestExamine_DemoWithoutHistory(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.setup("demo")
	e.checkState(Impossible)
}

func TestMobileOf_SimulatorSucceeds(t *testing.T) {
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
