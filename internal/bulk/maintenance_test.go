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

func (w *world) maintenanceOn() {
	w.Helper()
	_, err := w.staff.StartMaintenance(w.Context(), "a test")
	w.must(err)
}

func (w *world) maintenanceOff() {
	w.Helper()
	w.must(w.staff.EndMaintenance(w.Context(), false, ""))
}

// work gives a worker so many turns, with time for pauses to end between them.
func (w *world) work(worker *bulk.Worker, turns int) {
	w.Helper()
	for range turns {
		_, err := worker.RunOnce(w.Context())
		w.must(err)
		w.advance(time.Minute)
	}
}

// stoppedStore switches maintenance on when the first reservations are made, and lets
// no other one begin before that.
type stoppedStore struct {
	books
	seen *atomic.Int64
	made *sync.WaitGroup // the first ones
	once *sync.Once
	stop func()
}

// reservedBefore is how many reservations come before maintenance.
const reservedBefore = 2

func (w *world) stoppedStore() stoppedStore {
	s := stoppedStore{w.store, new(atomic.Int64), new(sync.WaitGroup), new(sync.Once), w.maintenanceOn}
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
	return s.books.Reserve(ctx, draft)
}

// Maintenance comes while rows of a job are under way: some have become operations, some
// have not. No further one does, and after maintenance none until somebody continues it.
func TestWorker_MaintenanceInterruptsAJob(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(2000, "money")
		job := w.started(w.subscribers(0, 0, 0, 0, 0, 0, 0)...)
		worker := w.worker("node-1", w.stoppedStore())
		w.work(worker, 5)
		job = w.job(job.ID)
		renewed := job.Progress.Done
		if !job.Waits() || job.Interrupted != bulk.ByMaintenance || renewed != reservedBefore {
			w.Fatalf("in maintenance: %+v; want it interrupted with the first %d rows renewed", job, reservedBefore)
		}
		if _, err := w.service().Continue(w.Context(), w.operator.ID, job.ID, "web:asha"); !errors.Is(err, bulk.ErrMaintenance) {
			w.Errorf("continued in maintenance: %v; want %v", err, bulk.ErrMaintenance)
		}
		w.maintenanceOff()
		w.work(worker, 5)
		if job = w.job(job.ID); !job.Waits() || job.Progress.Done != renewed {
			w.Fatalf("after maintenance, before anybody continued it: %+v", job)
		}
		if waiting, err := w.service().Interrupted(w.Context(), w.operator.ID); err != nil || waiting != 1 {
			w.Errorf("%d jobs wait, %v; want 1", waiting, err)
		}
		job, err := w.service().Continue(w.Context(), w.operator.ID, job.ID, "web:binu")
		w.must(err)
		if job.Waits() || job.ContinuedBy != "web:binu" {
			w.Errorf("continued as %+v", job)
		}
		if job = w.finish(job.ID, worker); job.Progress.Done != 7 {
			w.Errorf("in the end %+v; want all rows renewed", job.Progress)
		}
		w.balanced(money.Paise(2000_00), job.ID)
	})
}

// A row whose operation was under way when the job was interrupted is told how that ended
// although nobody has continued the job.
func TestWorker_SettlesBegunRowsOfAnInterruptedJob(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(2000, "money")
		ids := w.subscribers(0, 0, 0)
		job := w.started(ids...)
		claimed, _, err := w.store.ClaimBulkJob(w.Context(), bulk.Claim{Now: w.now(), Node: "gone", Until: w.now().Add(time.Second)})
		w.must(err)
		hold := bulk.Hold{OperatorID: w.operator.ID, JobID: job.ID, Epoch: claimed.Epoch, Now: w.now(), Until: w.now().Add(time.Second)}
		running, rows, _, err := w.store.TakeBulkRows(w.Context(), hold, 2)
		w.must(err)
		// The node carries out the first of the rows it took, and is gone before it says so.
		_, err = w.processor(w.store).Process(w.Context(), operation.Request{
			OperatorID: w.operator.ID, Channel: operation.Web, Actor: running.Actor, IdempotencyKey: rows[0].IdempotencyKey, Kind: rows[0].Kind,
			Fields:  map[string]string{"plan_id": rows[0].PlanID, "subscriber_id": rows[0].SubscriberID},
			Content: []byte(`{"plan_id":"` + rows[0].PlanID + `","subscriber_id":"` + rows[0].SubscriberID + `"}`),
		})
		w.must(err)
		w.maintenanceOn()
		w.advance(time.Minute)
		w.work(w.worker("node-2", w.store), 2)
		if got, want := story(w.rows(job.ID)), "done OK, running, queued"; got != want {
			w.Errorf("in maintenance: %s; want %s", got, want)
		}
		if _, err := w.service().Cancel(w.Context(), w.operator.ID, job.ID); err != nil {
			w.Fatal(err)
		}
		w.finish(job.ID, w.worker("node-2", w.store))
		if got, want := story(w.rows(job.ID)), "done OK, cancelled, cancelled"; got != want {
			w.Errorf("stopped: %s; want %s", got, want)
		}
	})
}

func TestDesk_RefusesListsInMaintenance(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(2000, "money")
		ids := w.subscribers(0, 0)
		draft, err := w.service().Prepare(w.Context(), w.order(ids[0]))
		w.must(err)
		w.maintenanceOn()
		if _, err := w.service().Prepare(w.Context(), w.order(ids[1])); !errors.Is(err, bulk.ErrMaintenance) {
			w.Errorf("prepare: %v; want %v", err, bulk.ErrMaintenance)
		}
		if _, err := w.service().Start(w.Context(), w.operator.ID, draft.ID); !errors.Is(err, bulk.ErrMaintenance) {
			w.Errorf("start: %v; want %v", err, bulk.ErrMaintenance)
		}
		w.maintenanceOff()
		if job, err := w.service().Start(w.Context(), w.operator.ID, draft.ID); err != nil || job.State != bulk.Running {
			w.Errorf("start after maintenance: %+v, %v; want the same draft to run", job, err)
		}
	})
}
