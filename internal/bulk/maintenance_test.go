package bulk_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

func (env *testEnv) maintenanceOn() {
	env.Helper()
	_, err := env.staff.StartMaintenance(env.Context(), "a test")
	env.must(err)
}

func (env *testEnv) maintenanceOff() {
	env.Helper()
	env.must(env.staff.EndMaintenance(env.Context(), false, ""))
}

// work runs a worker several times, with time for pauses to end between them.
func (env *testEnv) work(worker *bulk.Worker, slices int) {
	env.Helper()
	for range slices {
		_, err := worker.RunOnce(env.Context())
		env.must(err)
		env.advance(time.Minute)
	}
}

// stoppedStore switches maintenance on after the first reservations; other ones wait for
// that.
type stoppedStore struct {
	testStore
	seen *atomic.Int64
	made *sync.WaitGroup // the first ones
	once *sync.Once
	stop func()
}

// reservedBefore is how many reservations come before maintenance.
const reservedBefore = 2

func (env *testEnv) stoppedStore() stoppedStore {
	s := stoppedStore{env.store, new(atomic.Int64), new(sync.WaitGroup), new(sync.Once), env.maintenanceOn}
	s.made.Add(reservedBefore)
	return s
}

func (s stoppedStore) Reserve(ctx context.Context, draft operation.Draft) (operation.Operation, error) {
	if s.seen.Add(1) <= reservedBefore {
		defer s.made.Done()
	} else {
		s.made.Wait()
		s.once.Do(s.stop)
	}
	return s.testStore.Reserve(ctx, draft)
}

// Maintenance starts while rows of a job are under way: some have an operation, some do not.
// No further operation begins, also not after maintenance until the job is continued.
func TestWorker_MaintenanceInterruptsJob(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(2000, "money")
		job := env.started(env.subscribers(0, 0, 0, 0, 0, 0, 0)...)
		worker := env.worker("node-1", env.stoppedStore())
		env.work(worker, 5)
		job = env.job(job.ID)
		renewed := job.Progress.Done
		if !job.Waits() || job.Interrupted != bulk.ByMaintenance || renewed != reservedBefore {
			env.Fatalf("in maintenance: %+v; want it interrupted with the first %d rows renewed", job, reservedBefore)
		}
		if _, err := env.service().Continue(env.Context(), env.operator.ID, job.ID, "web:asha"); !errors.Is(err, bulk.ErrMaintenance) {
			env.Errorf("continued in maintenance: %v; want %v", err, bulk.ErrMaintenance)
		}
		env.maintenanceOff()
		env.work(worker, 5)
		if job = env.job(job.ID); !job.Waits() || job.Progress.Done != renewed {
			env.Fatalf("after maintenance, before it was continued: %+v", job)
		}
		if waiting, err := env.service().Interrupted(env.Context(), env.operator.ID); err != nil || waiting != 1 {
			env.Errorf("%d jobs wait, %v; want 1", waiting, err)
		}
		job, err := env.service().Continue(env.Context(), env.operator.ID, job.ID, "web:binu")
		env.must(err)
		if job.Waits() || job.ContinuedBy != "web:binu" {
			env.Errorf("continued as %+v", job)
		}
		if job = env.finish(job.ID, worker); job.Progress.Done != 7 {
			env.Errorf("in the end %+v; want all rows renewed", job.Progress)
		}
		env.checkBooks(money.Paise(2000_00), job.ID)
	})
}

// A row whose operation was under way when the job was interrupted is settled although the
// job was not continued.
func TestWorker_SettlesBegunRowsOfInterruptedJob(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(2000, "money")
		ids := env.subscribers(0, 0, 0)
		job := env.started(ids...)
		claimed, _, err := env.store.ClaimBulkJob(env.Context(), bulk.Claim{Now: env.now(), Node: "gone", Until: env.now().Add(time.Second)})
		env.must(err)
		lease := bulk.Lease{OperatorID: env.operator.ID, JobID: job.ID, Epoch: claimed.Epoch, Now: env.now(), Until: env.now().Add(time.Second)}
		running, rows, _, err := env.store.TakeBulkRows(env.Context(), lease, 2)
		env.must(err)
		// The node processes the first of its rows, and crashes before it settles the row.
		_, err = env.processor(env.store).Process(env.Context(), operation.Request{
			OperatorID: env.operator.ID, Channel: operation.Web, Actor: running.Actor, IdempotencyKey: rows[0].IdempotencyKey, Kind: rows[0].Kind,
			Fields:  map[string]string{"plan_id": rows[0].PlanID, "subscriber_id": rows[0].SubscriberID},
			Content: []byte(`{"plan_id":"` + rows[0].PlanID + `","subscriber_id":"` + rows[0].SubscriberID + `"}`),
		})
		env.must(err)
		env.maintenanceOn()
		env.advance(time.Minute)
		env.work(env.worker("node-2", env.store), 2)
		if got, want := summary(env.rows(job.ID)), "done OK, running, queued"; got != want {
			env.Errorf("in maintenance: %s; want %s", got, want)
		}
		if _, err := env.service().Cancel(env.Context(), env.operator.ID, job.ID); err != nil {
			env.Fatal(err)
		}
		env.finish(job.ID, env.worker("node-2", env.store))
		if got, want := summary(env.rows(job.ID)), "done OK, cancelled, cancelled"; got != want {
			env.Errorf("stopped: %s; want %s", got, want)
		}
	})
}

func TestService_RefusesInMaintenance(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(2000, "money")
		ids := env.subscribers(0, 0)
		draft, err := env.service().Prepare(env.Context(), env.order(ids[0]))
		env.must(err)
		env.maintenanceOn()
		if _, err := env.service().Prepare(env.Context(), env.order(ids[1])); !errors.Is(err, bulk.ErrMaintenance) {
			env.Errorf("prepare: %v; want %v", err, bulk.ErrMaintenance)
		}
		if _, err := env.service().Start(env.Context(), env.operator.ID, draft.ID); !errors.Is(err, bulk.ErrMaintenance) {
			env.Errorf("start: %v; want %v", err, bulk.ErrMaintenance)
		}
		env.maintenanceOff()
		if job, err := env.service().Start(env.Context(), env.operator.ID, draft.ID); err != nil || job.State != bulk.Running {
			env.Errorf("start after maintenance: %+v, %v; want the same draft to run", job, err)
		}
	})
}
