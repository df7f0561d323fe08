package bulk_test

import (
	"errors"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

func (w *world) status(status subscription.OperatorStatus) {
	w.Helper()
	_, err := w.staff.ChangeOperator(w.Context(), w.operator.ID, admin.OperatorChange{Status: &status})
	w.must(err)
}

// A job runs when its operator is suspended: nothing further begins, not even when the
// operator is active again, until its people continue it.
func TestWorker_SuspensionInterruptsAJob(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(2000, "money")
		job := w.started(w.subscribers(0, 0, 0)...)
		worker := w.worker("node-1", w.store)
		w.status(subscription.OperatorInactive)
		w.work(worker, 3)
		if job = w.job(job.ID); !job.Waits() || job.Interrupted != bulk.BySuspension || job.Progress.Queued != 3 {
			w.Fatalf("while suspended: %+v; want it interrupted with nothing begun", job)
		}
		if _, err := w.service().Continue(w.Context(), w.operator.ID, job.ID, "web:asha"); !errors.Is(err, bulk.ErrSuspended) {
			w.Errorf("continued while suspended: %v; want %v", err, bulk.ErrSuspended)
		}
		w.status(subscription.OperatorActive)
		w.work(worker, 3)
		if job = w.job(job.ID); !job.Waits() || job.Progress.Queued != 3 {
			w.Fatalf("after reactivation, before anybody continued it: %+v", job)
		}
		_, err := w.service().Continue(w.Context(), w.operator.ID, job.ID, "web:asha")
		w.must(err)
		if job = w.finish(job.ID, worker); job.Progress.Done != 3 || job.ContinuedBy != "web:asha" {
			w.Errorf("in the end %+v; want all rows renewed", job)
		}
		w.balanced(money.Paise(2000_00), job.ID)
	})
}

func TestDesk_RefusesListsOfASuspendedOperator(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(2000, "money")
		ids := w.subscribers(0, 0)
		draft, err := w.service().Prepare(w.Context(), w.order(ids[0]))
		w.must(err)
		w.status(subscription.OperatorInactive)
		if _, err := w.service().Prepare(w.Context(), w.order(ids[1])); !errors.Is(err, bulk.ErrSuspended) {
			w.Errorf("prepare: %v; want %v", err, bulk.ErrSuspended)
		}
		if _, err := w.service().Start(w.Context(), w.operator.ID, draft.ID); !errors.Is(err, bulk.ErrSuspended) {
			w.Errorf("start: %v; want %v", err, bulk.ErrSuspended)
		}
		w.status(subscription.OperatorActive)
		w.work(w.worker("node-1", w.store), 2)
		if job := w.job(draft.ID); job.State != bulk.Draft {
			w.Errorf("after reactivation: %+v; want a draft that nobody started", job)
		}
	})
}
