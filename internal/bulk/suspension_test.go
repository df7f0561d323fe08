package bulk_test

import (
	"errors"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

func (env *testEnv) status(status subscription.OperatorStatus) {
	env.Helper()
	_, err := env.staff.ChangeOperator(env.Context(), env.operator.ID, admin.OperatorChange{Status: &status})
	env.must(err)
}

// When an operator is suspended, no further row of its job begins, also not after
// reactivation until the job is continued.
func TestWorker_SuspensionInterruptsJob(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(2000, "money")
		job := env.started(env.subscribers(0, 0, 0)...)
		worker := env.worker("node-1", env.store)
		env.status(subscription.OperatorInactive)
		env.work(worker, 3)
		if job = env.job(job.ID); !job.Waits() || job.Interrupted != bulk.BySuspension || job.Progress.Queued != 3 {
			env.Fatalf("while suspended: %+v; want it interrupted with nothing begun", job)
		}
		if _, err := env.service().Continue(env.Context(), env.operator.ID, job.ID, "web:asha"); !errors.Is(err, bulk.ErrSuspended) {
			env.Errorf("continued while suspended: %v; want %v", err, bulk.ErrSuspended)
		}
		env.status(subscription.OperatorActive)
		env.work(worker, 3)
		if job = env.job(job.ID); !job.Waits() || job.Progress.Queued != 3 {
			env.Fatalf("after reactivation, before it was continued: %+v", job)
		}
		_, err := env.service().Continue(env.Context(), env.operator.ID, job.ID, "web:asha")
		env.must(err)
		if job = env.finish(job.ID, worker); job.Progress.Done != 3 || job.ContinuedBy != "web:asha" {
			env.Errorf("in the end %+v; want all rows renewed", job)
		}
		env.checkBooks(money.Paise(2000_00), job.ID)
	})
}

func TestService_RefusesSuspendedOperator(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(2000, "money")
		ids := env.subscribers(0, 0)
		draft, err := env.service().Prepare(env.Context(), env.order(ids[0]))
		env.must(err)
		env.status(subscription.OperatorInactive)
		if _, err := env.service().Prepare(env.Context(), env.order(ids[1])); !errors.Is(err, bulk.ErrSuspended) {
			env.Errorf("prepare: %v; want %v", err, bulk.ErrSuspended)
		}
		if _, err := env.service().Start(env.Context(), env.operator.ID, draft.ID); !errors.Is(err, bulk.ErrSuspended) {
			env.Errorf("start: %v; want %v", err, bulk.ErrSuspended)
		}
		env.status(subscription.OperatorActive)
		env.work(env.worker("node-1", env.store), 2)
		if job := env.job(draft.ID); job.State != bulk.Draft {
			env.Errorf("after reactivation: %+v; want an unstarted draft", job)
		}
	})
}
