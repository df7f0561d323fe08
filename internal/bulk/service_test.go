package bulk_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

// Prepare checks every row; a row with a permanent refusal does not run.
func TestPrepare_ChecksRows(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(1000, "money")
		ids := env.subscribers(0, 0, 0)
		order := env.order()
		order.Selections = []bulk.Selection{
			{Line: 2, SubscriberID: ids[0]}, // with the plan that it has
			{Line: 3, Mobile: "9000000002"}, // the second one, by number
			{Line: 4, SubscriberID: ids[2], PlanID: "FAMILY-1"},
			{Line: 5, SubscriberID: "999999"},                   // unknown
			{Line: 6, SubscriberID: ids[1]},                     // the second one again
			{Line: 7, SubscriberID: "999998", PlanID: "GONE-1"}, // no such plan
		}
		job, err := env.service().Prepare(t.Context(), order)
		env.must(err)
		rows := env.rows(job.ID)
		if got, want := summary(rows), "queued, queued, queued, refused SUBSCRIBER_NOT_FOUND, refused DUPLICATE_REQUEST, refused INVALID_PLAN"; got != want {
			t.Errorf("checked as %s; want %s", got, want)
		}
		want := bulk.Progress{Rows: 6, Queued: 3, Refused: 3, Outstanding: money.Paise(199_00 + 199_00 + 349_00), Cheapest: money.Paise(199_00)}
		if job.Progress != want || job.State != bulk.Draft || job.Title != "list" {
			t.Errorf("the draft is %+v; want %+v", job, want)
		}
		second := rows[1]
		if second.SubscriberID != ids[1] || second.CustomerName != "Customer 2" || second.PlanID != "BASIC-1" || second.Quoted != money.Paise(199_00) ||
			!second.ExpiryQuoted.After(env.now()) || second.Line != 3 || second.Kind != operation.Renew {
			t.Errorf("the second row is %+v", second)
		}
		var keys []string
		for _, row := range rows {
			keys = append(keys, row.IdempotencyKey)
		}
		slices.Sort(keys)
		if len(slices.Compact(keys)) != len(rows) {
			t.Errorf("the keys are %v; want one for each row", keys)
		}
		check, err := env.service().Check(t.Context(), env.operator.ID, job.ID)
		if err != nil || !check.Shortfall.IsZero() || check.Wallet != money.Paise(1000_00) {
			t.Errorf("compared with the wallet: %+v, %v", check, err)
		}
		if effects := env.simulator.Effects(); len(effects) != 0 {
			t.Errorf("checking had effects: %v", effects)
		}
		// Refused rows do not run, even if what they lacked has come by then.
		_, err = env.service().Start(t.Context(), env.operator.ID, job.ID)
		env.must(err)
		if job := env.finish(job.ID, env.worker("node-1", env.store)); job.Progress.Done != 3 || job.Progress.Refused != 3 {
			t.Errorf("it came to %+v", job.Progress)
		}
		env.checkBooks(money.Paise(1000_00), job.ID)
	})
}

func TestPrepare_RefusesAdvanceRenewalOfActivePlan(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(1000, "money")
		ids := env.subscribers(0, 0)
		order := env.order(ids...)
		order.Kind = operation.AdvanceRenew
		order.Selections[1].PlanID = "FAMILY-1"
		job, err := env.service().Prepare(t.Context(), order)
		env.must(err)
		if got, want := summary(env.rows(job.ID)), "refused PLAN_ALREADY_ACTIVE, queued"; got != want {
			t.Errorf("checked as %s; want %s", got, want)
		}
	})
}

// A transient refusal may have passed when the job runs.
func TestPrepare_QueuesTransientRefusals(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		ids := env.subscribers(0, 0)
		job, err := env.service().Prepare(t.Context(), env.order(ids...))
		env.must(err)
		if got, want := summary(env.rows(job.ID)), "queued INSUFFICIENT_BALANCE, queued INSUFFICIENT_BALANCE"; got != want {
			t.Errorf("checked as %s; want %s", got, want)
		}
		env.topUp(1000, "in time")
		_, err = env.service().Start(t.Context(), env.operator.ID, job.ID)
		env.must(err)
		if job := env.finish(job.ID, env.worker("node-1", env.store)); job.Progress.Done != 2 {
			t.Errorf("%s; want both done", summary(env.rows(job.ID)))
		}
	})
}

// A row whose subscriber has an operation in progress runs later and is charged then, so the
// draft's total includes its price.
func TestPrepare_TotalsRowsInProgress(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(1000, "money")
		ids := env.subscribers(0, 8)
		open := operation.Request{
			OperatorID: env.operator.ID, Channel: operation.Web, Actor: "web:asha", Kind: operation.Renew, IdempotencyKey: "open",
			Fields: map[string]string{"subscriber_id": ids[1], "plan_id": "FAMILY-1"}, Content: []byte("open"),
		}
		_, err := env.processor(env.store).Process(t.Context(), open)
		env.must(err)
		job, err := env.service().Prepare(t.Context(), env.order(ids...))
		env.must(err)
		rows := env.rows(job.ID)
		if got, want := summary(rows), "queued, queued OPERATION_IN_PROGRESS"; got != want {
			t.Errorf("checked as %s; want %s", got, want)
		}
		if busy := rows[1]; job.Progress.Outstanding != money.Paise(2*199_00) || busy.CustomerName != "Customer 2" || !busy.ExpiryQuoted.IsZero() {
			t.Errorf("the total is %s, and the row in progress is %+v", job.Progress.Outstanding, busy)
		}
	})
}

func TestStart_Refusals(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(1000, "money")
		service, ids := env.service(), env.subscribers(0, 0)
		refused := func(what string, err error) {
			t.Helper()
			var refusal *bulk.Refusal
			if !errors.As(err, &refusal) || refusal.Text == "" {
				t.Errorf("%s: %v; want a refusal", what, err)
			}
		}
		_, err := service.Prepare(t.Context(), env.order())
		refused("an empty list", err)
		_, err = service.Prepare(t.Context(), env.order(make([]string, bulk.MaxRows+1)...))
		refused("a list that is too long", err)
		activation := env.order(ids...)
		activation.Kind = operation.Activate
		_, err = service.Prepare(t.Context(), activation)
		refused("activations", err)

		empty, err := service.Prepare(t.Context(), env.order("999999"))
		env.must(err)
		_, err = service.Start(t.Context(), env.operator.ID, empty.ID)
		refused("a list of which nothing can run", err)

		old, err := service.Prepare(t.Context(), env.order(ids...))
		env.must(err)
		env.advance(time.Hour + time.Millisecond)
		_, err = service.Start(t.Context(), env.operator.ID, old.ID)
		refused("a list that was checked long ago", err)

		first, err := service.Prepare(t.Context(), env.order(ids[0]))
		env.must(err)
		second, err := service.Prepare(t.Context(), env.order(ids[1]))
		env.must(err)
		env.advance(time.Second)
		for range 2 { // it is idempotent
			if job, err := service.Start(t.Context(), env.operator.ID, first.ID); err != nil || job.State != bulk.Running {
				t.Errorf("started as %s, %v", job.State, err)
			}
		}
		_, err = service.Start(t.Context(), env.operator.ID, second.ID)
		refused("a second one beside it", err)
		env.finish(first.ID, env.worker("node-1", env.store))
		_, err = service.Start(t.Context(), env.operator.ID, second.ID)
		refused("one that was checked before another ran", err)

		other, err := env.staff.CreateOperator(t.Context(), "binu", admin.OperatorChange{})
		env.must(err)
		for what, ask := range map[string]func() error{
			"job":    func() error { _, err := service.Job(t.Context(), other.ID, first.ID); return err },
			"check":  func() error { _, err := service.Check(t.Context(), other.ID, first.ID); return err },
			"start":  func() error { _, err := service.Start(t.Context(), other.ID, second.ID); return err },
			"cancel": func() error { _, err := service.Cancel(t.Context(), other.ID, second.ID); return err },
		} {
			if err := ask(); !errors.Is(err, bulk.ErrNoJob) {
				t.Errorf("%s by another operator: %v; want that there is none", what, err)
			}
		}
		if jobs, err := service.Jobs(t.Context(), env.operator.ID, time.Time{}, 10); err != nil || len(jobs) != 1 || jobs[0].ID != first.ID || jobs[0].Progress.Done != 1 {
			t.Errorf("the operator's jobs are %+v, %v", jobs, err)
		}
	})
}

// If the store is unavailable or prices are not verified, Prepare fails instead of storing
// a list in which everything is refused.
func TestPrepare_FailsWhenRowsCannotBeChecked(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		ids := env.subscribers(0, 0)
		unavailable := crashingAt(env.store, 1, false)
		service := bulk.NewService(unavailable, env.processor(unavailable), env.now)
		if _, err := service.Prepare(t.Context(), env.order(ids...)); !fault.Is(err, fault.ServiceUnavailable) {
			t.Errorf("with the store unavailable: %v; want %s", err, fault.ServiceUnavailable)
		}
		env.control("status", `{"catalogue":"down"}`)
		env.advance(2000 * time.Hour)
		if _, err := env.service().Prepare(t.Context(), env.order(ids...)); !fault.Is(err, fault.PlansUnavailable) {
			t.Errorf("with prices not verified: %v; want %s", err, fault.PlansUnavailable)
		}
	})
}
