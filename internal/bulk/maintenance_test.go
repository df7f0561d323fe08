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

// stoppedStore switches maintenance on before the n-th reservation.
type stoppedStore struct {
	books
	at   int64
	seen *atomic.Int64
	once *sync.Once
	stop func()
}

func (s stoppedStore) Reserve(ctx context.Context, draft operation.Draft) (operation.Operation, error) {
	if s.seen.Add(1) >= s.at {
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
		worker := w.worker("node-1", stoppedStore{w.store, 3, new(atomic.Int64), new(sync.Once), w.maintenanceOn})
		w.work(worker, 5)
		job = w.job(job.ID)
		renewed := job.Progress.Done
		if !job.Waits() || job.Interrupted != bulk.ByMaintenance || renewed == 0 || renewed > 4 {
			t.Fatalf("in maintenance: %+v; want it interrupted with some of the first rows renewed", job)
		}
		if _, err := w.desk().Continue(t.Context(), w.operator.ID, job.ID, "web:asha"); !errors.Is(err, bulk.ErrMaintenance) {
			t.Errorf("continued in maintenance: %v; want %v", err, bulk.ErrMaintenance)
		}
		w.maintenanceOff()
		w.work(worker, 5)
		if job = w.job(job.ID); !job.Waits() || job.Progress.Done != renewed {
			t.Fatalf("after maintenance, before anybody continued it: %+v", job)
		}
		if waiting, err := w.desk().Interrupted(t.Context(), w.operator.ID); err != nil || waiting != 1 {
			t.Errorf("%d jobs wait, %v; want 1", waiting, err)
		}
		job, err := w.desk().Continue(t.Context(), w.operator.ID, job.ID, "web:binu")
		w.must(err)
		if job.Waits() || job.ContinuedBy != "web:binu" {
			t.Errorf("continued as %+v", job)
		}
		if job = w.finish(job.ID, worker); job.Progress.Done != 7 {
			t.Errorf("in the end %+v; want all rows renewed", job.Progress)
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
		claimed, _, err := w.store.ClaimBulkJob(t.Context(), bulk.Claim{Now: w.now(), Node: "gone", Until: w.now().Add(time.Second)})
		w.must(err)
		hold := bulk.Hold{OperatorID: w.operator.ID, JobID: job.ID, Epoch: claimed.Epoch, Now: w.now(), Until: w.now().Add(time.Second)}
		running, rows, _, err := w.store.TakeBulkRows(t.Context(), hold, 2)
		w.must(err)
		// The node carries out the first of the rows it took, and is gone before it says so.
		_, err = w.processor(w.store).Process(t.Context(), operation.Request{
			OperatorID: w.operator.ID, Channel: operation.Web, Actor: running.Actor, IdempotencyKey: rows[0].IdempotencyKey, Kind: rows[0].Kind,
			Fields:  map[string]string{"plan_id": rows[0].PlanID, "subscriber_id": rows[0].SubscriberID},
			Content: []byte(`{"plan_id":"` + rows[0].PlanID + `","subscriber_id":"` + rows[0].SubscriberID + `"}`),
		})
		w.must(err)
		w.maintenanceOn()
		w.advance(time.Minute)
		w.work(w.worker("node-2", w.store), 2)
		if got, want := story(w.rows(job.ID)), "done OK, running, queued"; got != want {
			t.Errorf("in maintenance: %s; want %s", got, want)
		}
		if _, err := w.desk().Cancel(t.Context(), w.operator.ID, job.ID); err != nil {
			t.Fatal(err)
		}
		w.finish(job.ID, w.worker("node-2", w.store))
		if got, want := story(w.rows(job.ID)), "done OK, cancelled, cancelled"; got != want {
			t.Errorf("stopped: %s; want %s", got, want)
		}
	})
}

func TestDesk_RefusesListsInMaintenance(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(2000, "money")
		ids := w.subscribers(0, 0)
		draft, err := w.desk().Prepare(t.Context(), w.order(ids[0]))
		w.must(err)
		w.maintenanceOn()
		if _, err := w.desk().Prepare(t.Context(), w.order(ids[1])); !errors.Is(err, bulk.ErrMaintenance) {
			t.Errorf("prepare: %v; want %v", err, bulk.ErrMaintenance)
		}
		if _, err := w.desk().Start(t.Context(), w.operator.ID, draft.ID); !errors.Is(err, bulk.ErrMaintenance) {
			t.Errorf("start: %v; want %v", err, bulk.ErrMaintenance)
		}
		w.maintenanceOff()
		if job, err := w.desk().Start(t.Context(), w.operator.ID, draft.ID); err != nil || job.State != bulk.Running {
			t.Errorf("start after maintenance: %+v, %v; want the same draft to run", job, err)
		}
	})
}
