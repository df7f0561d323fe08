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

// A list is checked row by row, and what is wrong with a row by itself keeps that
// row from running.
func TestAListIsCheckedBeforeItIsStarted(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(1000, "money")
		ids := w.subscribers(0, 0, 0)
		order := w.order()
		order.Wishes = []bulk.Wish{
			{Line: 2, SubscriberID: ids[0]}, // with the plan that it has
			{Line: 3, Mobile: "9000000002"}, // the second one, by number
			{Line: 4, SubscriberID: ids[2], PlanID: "FAMILY-1"},
			{Line: 5, SubscriberID: "999999"},                   // nobody
			{Line: 6, SubscriberID: ids[1]},                     // the second one again
			{Line: 7, SubscriberID: "999998", PlanID: "GONE-1"}, // no such plan
		}
		job, err := w.service().Prepare(t.Context(), order)
		w.must(err)
		rows := w.rows(job.ID)
		if got, want := story(rows), "queued, queued, queued, refused SUBSCRIBER_NOT_FOUND, refused DUPLICATE_REQUEST, refused INVALID_PLAN"; got != want {
			t.Errorf("checked as %s; want %s", got, want)
		}
		want := bulk.Progress{Rows: 6, Queued: 3, Refused: 3, Outstanding: money.Paise(199_00 + 199_00 + 349_00)}
		if job.Progress != want || job.State != bulk.Draft || job.Title != "list" {
			t.Errorf("the draft is %+v; want %+v", job, want)
		}
		second := rows[1]
		if second.SubscriberID != ids[1] || second.CustomerName != "Customer 2" || second.PlanID != "BASIC-1" || second.Quoted != money.Paise(199_00) ||
			!second.ExpiryQuoted.After(w.now()) || second.Line != 3 || second.Kind != operation.Renew {
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
		check, err := w.service().Check(t.Context(), w.operator.ID, job.ID)
		if err != nil || !check.Shortfall.IsZero() || check.Wallet != money.Paise(1000_00) {
			t.Errorf("held against the wallet: %+v, %v", check, err)
		}
		if effects := w.simulator.Effects(); len(effects) != 0 {
			t.Errorf("checking had effects: %v", effects)
		}
		// Refused rows do not run, even if what they lacked has come by then.
		_, err = w.service().Start(t.Context(), w.operator.ID, job.ID)
		w.must(err)
		if job := w.finish(job.ID, w.worker("node-1", w.store)); job.Progress.Done != 3 || job.Progress.Refused != 3 {
			t.Errorf("it came to %+v", job.Progress)
		}
		w.balanced(money.Paise(1000_00), job.ID)
	})
}

func TestAnAdvanceRenewalOfThePlanThatRunsIsRefusedWhenItIsChecked(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(1000, "money")
		ids := w.subscribers(0, 0)
		order := w.order(ids...)
		order.Kind = operation.AdvanceRenew
		order.Wishes[1].PlanID = "FAMILY-1"
		job, err := w.service().Prepare(t.Context(), order)
		w.must(err)
		if got, want := story(w.rows(job.ID)), "refused PLAN_ALREADY_ACTIVE, queued"; got != want {
			t.Errorf("checked as %s; want %s", got, want)
		}
	})
}

// What the moment stands in the way of may have passed when the job runs.
func TestARowThatOnlyMoneyStandsInTheWayOfIsQueued(t *testing.T) {
	onBothStores(t, func(w *world) {
		ids := w.subscribers(0, 0)
		job, err := w.service().Prepare(t.Context(), w.order(ids...))
		w.must(err)
		if got, want := story(w.rows(job.ID)), "queued INSUFFICIENT_BALANCE, queued INSUFFICIENT_BALANCE"; got != want {
			t.Errorf("checked as %s; want %s", got, want)
		}
		w.topUp(1000, "in time")
		_, err = w.service().Start(t.Context(), w.operator.ID, job.ID)
		w.must(err)
		if job := w.finish(job.ID, w.worker("node-1", w.store)); job.Progress.Done != 2 {
			t.Errorf("%s; want both done", story(w.rows(job.ID)))
		}
	})
}

func TestWhatCannotBeStartedIsRefusedInWords(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(1000, "money")
		service, ids := w.service(), w.subscribers(0, 0)
		refused := func(what string, err error) {
			t.Helper()
			var refusal *bulk.Refusal
			if !errors.As(err, &refusal) || refusal.Text == "" {
				t.Errorf("%s: %v; want a refusal", what, err)
			}
		}
		_, err := service.Prepare(t.Context(), w.order())
		refused("an empty list", err)
		_, err = service.Prepare(t.Context(), w.order(make([]string, bulk.MaxRows+1)...))
		refused("a list that is too long", err)
		activation := w.order(ids...)
		activation.Kind = operation.Activate
		_, err = service.Prepare(t.Context(), activation)
		refused("activations", err)

		empty, err := service.Prepare(t.Context(), w.order("999999"))
		w.must(err)
		_, err = service.Start(t.Context(), w.operator.ID, empty.ID)
		refused("a list of which nothing can run", err)

		old, err := service.Prepare(t.Context(), w.order(ids...))
		w.must(err)
		w.advance(time.Hour + time.Millisecond)
		_, err = service.Start(t.Context(), w.operator.ID, old.ID)
		refused("a list that was checked long ago", err)

		first, err := service.Prepare(t.Context(), w.order(ids[0]))
		w.must(err)
		second, err := service.Prepare(t.Context(), w.order(ids[1]))
		w.must(err)
		w.advance(time.Second)
		for range 2 { // twice is as once
			if job, err := service.Start(t.Context(), w.operator.ID, first.ID); err != nil || job.State != bulk.Running {
				t.Errorf("started as %s, %v", job.State, err)
			}
		}
		_, err = service.Start(t.Context(), w.operator.ID, second.ID)
		refused("a second one beside it", err)
		w.finish(first.ID, w.worker("node-1", w.store))
		_, err = service.Start(t.Context(), w.operator.ID, second.ID)
		refused("one that was checked before another ran", err)

		other, err := w.staff.CreateOperator(t.Context(), "binu", admin.OperatorChange{})
		w.must(err)
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
		if jobs, err := service.Jobs(t.Context(), w.operator.ID, 10); err != nil || len(jobs) != 1 || jobs[0].ID != first.ID || jobs[0].Progress.Done != 1 {
			t.Errorf("the operator's jobs are %+v, %v", jobs, err)
		}
	})
}

// A store that is away, or prices that nobody vouches for, are no reason to show a
// list in which everything is refused.
func TestAListIsNotKeptThatCouldNotBeChecked(t *testing.T) {
	onBothStores(t, func(w *world) {
		ids := w.subscribers(0, 0)
		away := dyingAt(w.store, 1, false)
		service := bulk.NewService(away, w.processor(away), w.now)
		if _, err := service.Prepare(t.Context(), w.order(ids...)); !fault.Is(err, fault.ServiceUnavailable) {
			t.Errorf("with the store away: %v; want %s", err, fault.ServiceUnavailable)
		}
		w.control("status", `{"catalogue":"down"}`)
		w.advance(2000 * time.Hour)
		if _, err := w.service().Prepare(t.Context(), w.order(ids...)); !fault.Is(err, fault.PlansUnavailable) {
			t.Errorf("with prices not verified: %v; want %s", err, fault.PlansUnavailable)
		}
	})
}
