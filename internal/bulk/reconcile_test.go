package bulk_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

// stalledStore simulates a node that stalls before it reads the first snapshot. When it
// resumes it charges the row, and crashes before it settles it.
type stalledStore struct {
	testStore
	stalled, resume chan struct{}
	once            *sync.Once
}

func newStalledStore(store testStore) stalledStore {
	return stalledStore{testStore: store, stalled: make(chan struct{}), resume: make(chan struct{}), once: &sync.Once{}}
}

func (s stalledStore) Snapshot(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	s.once.Do(func() { close(s.stalled) })
	<-s.resume
	return s.testStore.Snapshot(ctx, q)
}

func (s stalledStore) SettleBulkRow(context.Context, bulk.Lease, bulk.Outcome) (bool, error) {
	return false, errCrashed
}

func (s stalledStore) ReleaseBulkJob(context.Context, bulk.Lease, bulk.Release) error {
	return errCrashed
}

// chargedAfterRefusal runs one row of a job on two nodes: the first stalls past its lease,
// the second is refused for lack of money, and then, after a top-up, the first resumes and
// charges the row.
func (env *testEnv) chargedAfterRefusal(scenario int) (job bulk.Job, successor *bulk.Worker) {
	env.Helper()
	job = env.started(env.subscribers(scenario)...)
	store := newStalledStore(env.store)
	var group sync.WaitGroup
	first := env.worker("stalled", store)
	group.Go(func() { _, _ = first.RunOnce(env.Context()) })
	<-store.stalled
	env.advance(time.Minute)
	successor = env.worker("successor", env.store)
	if _, err := successor.RunOnce(env.Context()); err != nil {
		env.Fatal(err)
	}
	env.topUp(1000, "before the stalled node resumes")
	close(store.resume)
	group.Wait()
	return job, successor
}

// storedRow reads a row from the store, because the service reconciles what it shows.
func (env *testEnv) storedRow(job bulk.Job, number int) bulk.Row {
	env.Helper()
	rows, err := env.store.BulkRows(env.Context(), env.operator.ID, job.ID, bulk.Page{After: number - 1, Limit: 1})
	env.must(err)
	return rows[0]
}

func TestReconcile_RefusedRowWithChargeIsDone(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		job, _ := env.chargedAfterRefusal(0)
		if row := env.storedRow(job, 1); row.State != bulk.RowRefused || row.Code != fault.InsufficientBalance {
			t.Fatalf("the row is %s %s; want it refused by the second node", row.State, row.Code)
		}
		if effects := env.simulator.Effects(); len(effects) != 1 {
			t.Fatalf("%d effects; want the stalled node's", len(effects))
		}
		job = env.job(job.ID)
		if want := (bulk.Progress{Rows: 1, Done: 1, Charged: money.Paise(199_00)}); job.Progress != want {
			t.Errorf("progress %+v; want %+v", job.Progress, want)
		}
		if row := env.storedRow(job, 1); row.State != bulk.RowDone || row.OperationID == "" || row.Amount != money.Paise(199_00) {
			t.Errorf("the row is stored as %+v; want it reconciled", row)
		}
		env.checkBooks(money.Paise(1000_00), job.ID)
	})
}

// A row whose operation has an unknown outcome is followed up like any other.
func TestReconcile_RefusedRowInReviewIsFollowed(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		job, successor := env.chargedAfterRefusal(2) // carried out, but the reply is too late
		if job := env.job(job.ID); job.Progress.InReview != 1 || job.DueAt.IsZero() {
			t.Errorf("%+v; want one in review, and the job due", job)
		}
		if job := env.finish(job.ID, successor); job.Progress.Done != 1 {
			t.Errorf("in the end %s; want it done", summary(env.rows(job.ID)))
		}
		env.checkBooks(money.Paise(1000_00), job.ID)
	})
}

// The worker that ends a job reconciles its rows, whether or not anybody looks at the job.
func TestReconcile_AtTheEndOfAJob(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		var settled []bulk.RowState
		job := env.started(env.subscribers(0, 0)...)
		store := newStalledStore(env.store)
		var group sync.WaitGroup
		first := env.worker("stalled", store)
		group.Go(func() { _, _ = first.RunOnce(t.Context()) })
		<-store.stalled
		env.advance(time.Minute)
		env.must(refuseFirst(env, job))
		env.topUp(1000, "before the stalled node resumes")
		close(store.resume)
		group.Wait()
		env.advance(time.Minute)
		successor := bulk.NewWorker(env.store, env.processor(env.store), bulk.WorkerConfig{
			Now: env.now, Node: "successor", Timeout: timeout, Problem: func(err error) { t.Error(err) },
			Settled: func(state bulk.RowState) { settled = append(settled, state) },
		})
		if _, err := successor.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		for number := 1; number <= 2; number++ {
			if row := env.storedRow(job, number); row.State != bulk.RowDone {
				t.Errorf("row %d is %s %s; want it done", number, row.State, row.Code)
			}
		}
		if len(settled) != 2 || settled[0] != bulk.RowDone || settled[1] != bulk.RowDone {
			t.Errorf("settled %v; want two rows done", settled)
		}
		env.checkBooks(money.Paise(1000_00), job.ID)
	})
}

// refuseFirst takes a job's rows over, refuses the first one, and leaves the others.
func refuseFirst(env *testEnv, job bulk.Job) error {
	now := env.now()
	claimed, _, err := env.store.ClaimBulkJob(env.Context(), bulk.Claim{Now: now, Node: "second", Until: now.Add(time.Minute)})
	if err != nil {
		return err
	}
	lease := bulk.Lease{OperatorID: job.OperatorID, JobID: job.ID, Epoch: claimed.Epoch, Now: now, Until: now.Add(time.Minute)}
	if _, _, _, err := env.store.TakeBulkRows(env.Context(), lease, 1); err != nil {
		return err
	}
	_, err = env.store.SettleBulkRow(env.Context(), lease, bulk.Outcome{Number: 1, State: bulk.RowRefused, Code: fault.InsufficientBalance})
	return err
}
