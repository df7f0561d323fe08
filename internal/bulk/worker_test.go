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

// summary lists the rows' states and codes.
func summary(rows []bulk.Row) string {
	var all []string
	for _, row := range rows {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s", row.State, row.Code)))
	}
	return strings.Join(all, ", ")
}

func TestWorker_RowsGetProviderOutcomes(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(2000, "money")
		// Success, rejection, carried out but too late, never carried out, slow.
		job := env.started(env.subscribers(0, 1, 2, 3, 7)...)
		worker := env.worker("node-1", env.store)
		if _, err := worker.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		for job.State != bulk.Finished {
			if _, err := worker.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			job = env.job(job.ID)
		}
		if got, want := summary(env.rows(job.ID)), "done OK, refused PROVIDER_ERROR, in_review PENDING_REVIEW, in_review PENDING_REVIEW, done OK"; got != want {
			t.Errorf("at first: %s; want %s", got, want)
		}
		want := bulk.Progress{Rows: 5, Done: 2, Refused: 1, InReview: 2, Charged: money.Paise(398_00), Held: money.Paise(398_00)}
		if job.Progress != want || job.Progress.Percent() != 100 {
			t.Errorf("progress %+v; want %+v", job.Progress, want)
		}
		env.finish(job.ID, worker)
		rows := env.rows(job.ID)
		if got, want := summary(rows), "done OK, refused PROVIDER_ERROR, done OK, refused PROVIDER_ERROR, done OK"; got != want {
			t.Errorf("in the end: %s; want %s", got, want)
		}
		for _, row := range rows {
			op, _, err := env.store.OperationByKey(t.Context(), env.operator.ID, row.IdempotencyKey)
			if err != nil || op.ID != row.OperationID || op.Channel != operation.Web || op.Actor != "web:asha" {
				t.Errorf("row %d is operation %s by %s %s, %v; want %s by web:asha", row.Number, op.ID, op.Channel, op.Actor, err, row.OperationID)
			}
			if row.State == bulk.RowDone && !row.Expiry.Equal(row.ExpiryQuoted) {
				t.Errorf("row %d lasts until %s; quoted was %s", row.Number, row.Expiry, row.ExpiryQuoted)
			}
		}
		env.checkBooks(money.Paise(2000_00), job.ID)
	})
}

// An emptying wallet refuses only the rows that it does not cover.
func TestWorker_WalletRefusesUncoveredRows(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(700, "money")
		ids := env.subscribers(0, 0, 0, 0, 0, 0)
		order := env.order(ids...)
		order.PlanID = "FAMILY-1"
		order.Selections[5].PlanID = "BASIC-1"
		job, err := env.service().Prepare(t.Context(), order)
		env.must(err)
		check, err := env.service().Check(t.Context(), env.operator.ID, job.ID)
		if err != nil || check.Wallet != money.Paise(700_00) || check.Shortfall != money.Paise(5*349_00+199_00-700_00) {
			t.Errorf("checked as %+v, %v", check, err)
		}
		if _, err := env.service().Start(t.Context(), env.operator.ID, job.ID); err != nil {
			t.Fatal(err)
		}
		job = env.finish(job.ID, env.worker("node-1", env.store))
		refused := 0
		for _, row := range env.rows(job.ID) {
			if row.State == bulk.RowRefused && row.Code == fault.InsufficientBalance {
				refused++
			}
		}
		if job.Progress.Done != 2 || refused != 4 {
			t.Errorf("%+v with %d refused for lack of money; want two done, four refused", job.Progress, refused)
		}
		env.checkBooks(money.Paise(700_00), job.ID)
	})
}

// The process crashes at each store call in turn, before or after its commit; another one,
// with the store opened again, resumes the job. No row is charged twice, and no charge is
// lost.
func TestWorker_CrashAtAnyStepChargesOnce(t *testing.T) {
	const start = 100_000
	onBothStores(t, func(env *testEnv) {
		env.topUp(start, "money")
		var jobs []string
		for _, after := range []bool{false, true} {
			for step := int64(1); ; step++ {
				job := env.started(env.subscribers(0, 0, 0)...)
				jobs = append(jobs, job.ID)
				crashing := crashingAt(env.store, step, after)
				worker := env.worker("crashing", crashing)
				for range 2 {
					_, _ = worker.RunOnce(t.Context())
				}
				if step%5 == 0 {
					env.must(env.store.Close())
					env.store = env.reopen()
					env.staff = admin.NewService(env.store, nil, "test", env.now)
				}
				env.finish(job.ID, env.worker("successor", env.store))
				for _, row := range env.rows(job.ID) {
					if row.State != bulk.RowDone && row.Code != fault.ProviderError {
						t.Errorf("crashed at step %d (after: %v): row %d is %s %s", step, after, row.Number, row.State, row.Code)
					}
				}
				if !crashing.crashed() {
					break
				}
			}
		}
		if len(jobs) < 30 {
			t.Errorf("only %d crashes were tried", len(jobs))
		}
		env.checkBooks(money.Paise(start*100), jobs...)
	})
}

// While one worker waits for the provider its lease ends, and another claims the job: both
// run the same rows.
func TestWorker_TwoOnOneJobChargeOnce(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(10_000, "money")
		job := env.started(env.subscribers(7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0)...)
		var group sync.WaitGroup
		elsewhere := env.store
		if env.several {
			elsewhere = env.reopen()
			defer elsewhere.Close()
		}
		workers := []*bulk.Worker{env.worker("node-1", env.store), env.worker("node-2", elsewhere)}
		for i, worker := range workers {
			if i > 0 {
				env.until("the first one's rows are under way", func() bool { return len(env.simulator.Calls("")) >= 4 })
				env.advance(time.Minute)
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
		if job := env.job(job.ID); job.Epoch < 2 {
			t.Errorf("the job was claimed %d times; want it claimed by both", job.Epoch)
		}
		job = env.finish(job.ID, workers[1])
		if job.Progress.Done != 12 {
			t.Errorf("%s; want twelve done", summary(env.rows(job.ID)))
		}
		env.checkBooks(money.Paise(10_000_00), job.ID)
	})
}

func TestWorker_PausesDuringProviderOutage(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(2000, "money")
		job := env.started(env.subscribers(0, 0, 0, 0, 0, 0)...)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var group sync.WaitGroup
		defer group.Wait()
		defer stop()
		group.Go(func() { env.breaker.Run(ctx) })
		env.control("status", `{"mode":"down"}`)
		env.breaker.Record(operation.Reply{}) // an unknown outcome makes the breaker probe
		env.until("the outage is known", func() bool { return env.breaker.Allow() != nil })

		worker := env.worker("node-1", env.store)
		if worked, err := worker.RunOnce(t.Context()); err != nil || !worked {
			t.Fatalf("worked %v, %v", worked, err)
		}
		job = env.job(job.ID)
		if job.State != bulk.Running || job.PauseReason == "" || job.Progress.Queued != 2 || job.Progress.Running != 4 || !job.DueAt.After(env.now()) {
			t.Errorf("during the outage: %+v; want it paused", job)
		}
		if worked, err := worker.RunOnce(t.Context()); err != nil || worked {
			t.Errorf("before the pause is over: worked %v, %v", worked, err)
		}
		env.control("status", `{"mode":"up"}`)
		env.until("it is known to be back", func() bool { return env.breaker.Allow() == nil })
		if job = env.finish(job.ID, worker); job.Progress.Done != 6 || job.PauseReason != "" {
			t.Errorf("when it is back: %+v; want all done", job)
		}
		env.checkBooks(money.Paise(2000_00), job.ID)
	})
}

// A job is cancelled during a provider outage, with begun rows that have no operation: the
// worker cancels those, too.
func TestCancel_RowsWithoutOperation(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(2000, "money")
		job := env.started(env.subscribers(0, 0, 0, 0, 0, 0)...)
		for range 3 {
			env.breaker.Record(operation.Reply{Outcome: operation.Rejected, NotSent: true})
		}
		worker := env.worker("node-1", env.store)
		if _, err := worker.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if job, err := env.service().Cancel(t.Context(), env.operator.ID, job.ID); err != nil || job.Progress.Cancelled != 2 || job.Progress.Running != 4 {
			t.Errorf("cancelled as %+v, %v", job, err)
		}
		env.breaker.Record(operation.Reply{Outcome: operation.Confirmed}) // the provider is back, and nothing may begin
		env.advance(time.Minute)
		if job := env.finish(job.ID, worker); job.Progress.Cancelled != 6 || len(env.simulator.Effects()) != 0 {
			t.Errorf("in the end %+v, and %d effects; want all cancelled", job.Progress, len(env.simulator.Effects()))
		}
		env.checkBooks(money.Paise(2000_00), job.ID)
	})
}

func TestWorker_RunUntilStopped(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(20_000, "money")
		job := env.started(env.subscribers(slices.Repeat([]int{0}, 60)...)...)
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { env.worker("node-1", env.store).Run(ctx) })
		env.until("the job is finished", func() bool { return env.job(job.ID).State == bulk.Finished })
		stop()
		group.Wait()
		if job := env.job(job.ID); job.Progress.Done != 60 || job.Epoch < 2 {
			t.Errorf("%+v in %d slices; want all done, in several", job.Progress, job.Epoch)
		}
		env.checkBooks(money.Paise(20_000_00), job.ID)
	})
}
