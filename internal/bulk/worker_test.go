package bulk_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

// story tells the rows' states and codes, in their order.
func story(rows []bulk.Row) string {
	var all []string
	for _, row := range rows {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s", row.State, row.Code)))
	}
	return strings.Join(all, ", ")
}

func TestEveryRowComesToWhatTheProviderMadeOfIt(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(2000, "money")
		// Success, rejection, carried out but too late, never carried out, slow.
		job := w.started(w.subscribers(0, 1, 2, 3, 7)...)
		worker := w.worker("node-1", w.store)
		if _, err := worker.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		for job.State != bulk.Finished {
			if _, err := worker.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			job = w.job(job.ID)
		}
		if got, want := story(w.rows(job.ID)), "done OK, refused PROVIDER_ERROR, in_review PENDING_REVIEW, in_review PENDING_REVIEW, done OK"; got != want {
			t.Errorf("at first: %s; want %s", got, want)
		}
		want := bulk.Progress{Rows: 5, Done: 2, Refused: 1, InReview: 2, Charged: money.Paise(398_00), Held: money.Paise(398_00)}
		if job.Progress != want || job.Progress.Percent() != 100 {
			t.Errorf("progress %+v; want %+v", job.Progress, want)
		}
		w.finish(job.ID, worker)
		rows := w.rows(job.ID)
		if got, want := story(rows), "done OK, refused PROVIDER_ERROR, done OK, refused PROVIDER_ERROR, done OK"; got != want {
			t.Errorf("in the end: %s; want %s", got, want)
		}
		for _, row := range rows {
			op, _, err := w.store.OperationByKey(t.Context(), w.operator.ID, row.IdempotencyKey)
			if err != nil || op.ID != row.OperationID || op.Channel != operation.Web || op.Actor != "web:asha" {
				t.Errorf("row %d is operation %s by %s %s, %v; want %s by web:asha", row.Number, op.ID, op.Channel, op.Actor, err, row.OperationID)
			}
			if row.State == bulk.RowDone && !row.Expiry.Equal(row.ExpiryQuoted) {
				t.Errorf("row %d lasts until %s; quoted was %s", row.Number, row.Expiry, row.ExpiryQuoted)
			}
		}
		w.balanced(money.Paise(2000_00), job.ID)
	})
}

// A wallet that empties refuses the rows that do not fit, and no others.
func TestRowsThatTheWalletDoesNotCoverAreRefusedAndOthersGoOn(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(700, "money")
		ids := w.subscribers(0, 0, 0, 0, 0, 0)
		order := w.order(ids...)
		order.PlanID = "FAMILY-1"
		order.Wishes[5].PlanID = "BASIC-1"
		job, err := w.service().Prepare(t.Context(), order)
		w.must(err)
		check, err := w.service().Check(t.Context(), w.operator.ID, job.ID)
		if err != nil || check.Wallet != money.Paise(700_00) || check.Shortfall != money.Paise(5*349_00+199_00-700_00) {
			t.Errorf("checked as %+v, %v", check, err)
		}
		if _, err := w.service().Start(t.Context(), w.operator.ID, job.ID); err != nil {
			t.Fatal(err)
		}
		job = w.finish(job.ID, w.worker("node-1", w.store))
		refused := 0
		for _, row := range w.rows(job.ID) {
			if row.State == bulk.RowRefused && row.Code == fault.InsufficientBalance {
				refused++
			}
		}
		if job.Progress.Done != 2 || refused != 4 {
			t.Errorf("%+v with %d refused for want of money; want two done, four refused", job.Progress, refused)
		}
		w.balanced(money.Paise(700_00), job.ID)
	})
}

// The process dies at each step in turn, before or after it took hold; another one,
// with the store opened anew, takes the job up. No row is charged twice, and none
// that was charged is forgotten.
func TestAJobThatDiesAtAnyStepIsTakenUpAndChargesNoRowTwice(t *testing.T) {
	const start = 100_000
	onBothStores(t, func(w *world) {
		w.topUp(start, "money")
		var jobs []string
		for _, after := range []bool{false, true} {
			for step := int64(1); ; step++ {
				job := w.started(w.subscribers(0, 0, 0)...)
				jobs = append(jobs, job.ID)
				doomed := dyingAt(w.store, step, after)
				worker := w.worker("doomed", doomed)
				for range 2 {
					_, _ = worker.RunOnce(t.Context())
				}
				if step%5 == 0 {
					w.must(w.store.Close())
					w.store = w.reopen()
					w.staff = admin.NewService(w.store, nil, "test", w.now)
				}
				w.finish(job.ID, w.worker("heir", w.store))
				for _, row := range w.rows(job.ID) {
					if row.State != bulk.RowDone && row.Code != fault.ProviderError {
						t.Errorf("died at step %d (after: %v): row %d is %s %s", step, after, row.Number, row.State, row.Code)
					}
				}
				if !doomed.died() {
					break
				}
			}
		}
		if len(jobs) < 30 {
			t.Errorf("only %d deaths were tried", len(jobs))
		}
		w.balanced(money.Paise(start*100), jobs...)
	})
}

// While one worker waits for the provider its lease ends, and another takes the job:
// both have the same rows under way.
func TestTwoWorkersOnOneJobChargeEachRowOnce(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(10_000, "money")
		job := w.started(w.subscribers(7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0)...)
		var group sync.WaitGroup
		elsewhere := w.store
		if w.several {
			elsewhere = w.reopen()
			defer elsewhere.Close()
		}
		workers := []*bulk.Worker{w.worker("node-1", w.store), w.worker("node-2", elsewhere)}
		for i, worker := range workers {
			if i > 0 {
				w.until("the first one's rows are under way", func() bool { return len(w.simulator.Calls("")) >= 4 })
				w.advance(time.Minute)
			}
			group.Go(func() {
				for range 5 {
					if _, err := worker.RunOnce(context.WithoutCancel(t.Context())); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		if job := w.job(job.ID); job.Epoch < 2 {
			t.Errorf("the job was in %d hands; want both to have had it", job.Epoch)
		}
		job = w.finish(job.ID, workers[1])
		if job.Progress.Done != 12 {
			t.Errorf("%s; want twelve done", story(w.rows(job.ID)))
		}
		w.balanced(money.Paise(10_000_00), job.ID)
	})
}

func TestAJobWaitsForAProviderThatIsOut(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(2000, "money")
		job := w.started(w.subscribers(0, 0, 0, 0, 0, 0)...)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var group sync.WaitGroup
		defer group.Wait()
		defer stop()
		group.Go(func() { w.breaker.Run(ctx) })
		w.control("status", `{"mode":"down"}`)
		w.breaker.Record(operation.Reply{}) // somebody's order is in doubt, so it is probed
		w.until("the outage is known", func() bool { return w.breaker.Allow() != nil })

		worker := w.worker("node-1", w.store)
		if worked, err := worker.RunOnce(t.Context()); err != nil || !worked {
			t.Fatalf("worked %v, %v", worked, err)
		}
		job = w.job(job.ID)
		if job.State != bulk.Running || job.PauseReason == "" || job.Progress.Queued != 2 || job.Progress.Running != 4 || !job.DueAt.After(w.now()) {
			t.Errorf("while it is out: %+v; want it to wait", job)
		}
		if worked, err := worker.RunOnce(t.Context()); err != nil || worked {
			t.Errorf("before the pause is over: worked %v, %v", worked, err)
		}
		w.control("status", `{"mode":"up"}`)
		w.until("it is known to be back", func() bool { return w.breaker.Allow() == nil })
		if job = w.finish(job.ID, worker); job.Progress.Done != 6 || job.PauseReason != "" {
			t.Errorf("when it is back: %+v; want all done", job)
		}
		w.balanced(money.Paise(2000_00), job.ID)
	})
}

// A job is cancelled while it waits for the provider, with rows begun that came to
// nothing: those are cancelled as well, once somebody has looked.
func TestCancellingStopsWhatHasCostNothing(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(2000, "money")
		job := w.started(w.subscribers(0, 0, 0, 0, 0, 0)...)
		for range 3 {
			w.breaker.Record(operation.Reply{Outcome: operation.Rejected, NotSent: true})
		}
		worker := w.worker("node-1", w.store)
		if _, err := worker.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if job, err := w.service().Cancel(t.Context(), w.operator.ID, job.ID); err != nil || job.Progress.Cancelled != 2 || job.Progress.Running != 4 {
			t.Errorf("cancelled as %+v, %v", job, err)
		}
		w.breaker.Record(operation.Reply{Outcome: operation.Confirmed}) // it is back, and nothing may begin
		w.advance(time.Minute)
		if job := w.finish(job.ID, worker); job.Progress.Cancelled != 6 || len(w.simulator.Effects()) != 0 {
			t.Errorf("in the end %+v, and %d effects; want all cancelled", job.Progress, len(w.simulator.Effects()))
		}
		w.balanced(money.Paise(2000_00), job.ID)
	})
}

// A worker by itself finds the job, and stops when it is told to.
func TestAWorkerRunsJobsUntilItIsStopped(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(20_000, "money")
		job := w.started(w.subscribers(slices.Repeat([]int{0}, 60)...)...)
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { w.worker("node-1", w.store).Run(ctx) })
		w.until("the job is finished", func() bool { return w.job(job.ID).State == bulk.Finished })
		stop()
		group.Wait()
		if job := w.job(job.ID); job.Progress.Done != 60 || job.Epoch < 2 {
			t.Errorf("%+v in %d turns; want all done, in several", job.Progress, job.Epoch)
		}
		w.balanced(money.Paise(20_000_00), job.ID)
	})
}
