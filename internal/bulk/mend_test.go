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

// sleeper is a store whose node falls asleep when it is about to look at the first
// customer. When it is woken it has the row charged, and dies before it can say so.
type sleeper struct {
	books
	asleep, wake chan struct{}
	once         *sync.Once
}

func asleep(store books) sleeper {
	return sleeper{books: store, asleep: make(chan struct{}), wake: make(chan struct{}), once: &sync.Once{}}
}

func (s sleeper) Snapshot(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	s.once.Do(func() { close(s.asleep) })
	<-s.wake
	return s.books.Snapshot(ctx, q)
}

func (s sleeper) SettleBulkRow(context.Context, bulk.Hold, bulk.Outcome) (bool, error) {
	return false, errDead
}

func (s sleeper) ReleaseBulkJob(context.Context, bulk.Hold, bulk.Release) error { return errDead }

// charged runs one row of a job in two pairs of hands: the first ones sleep past their
// lease, the second ones are refused for want of money, and then the first ones find
// some, and charge the row.
func (w *world) charged(scenario int) (job bulk.Job, heir *bulk.Worker) {
	w.Helper()
	job = w.started(w.subscribers(scenario)...)
	store := asleep(w.store)
	var group sync.WaitGroup
	first := w.worker("sleeper", store)
	group.Go(func() { _, _ = first.RunOnce(w.Context()) })
	<-store.asleep
	w.advance(time.Minute)
	heir = w.worker("heir", w.store)
	if _, err := heir.RunOnce(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.topUp(1000, "in time for the sleeper")
	close(store.wake)
	group.Wait()
	return job, heir
}

// kept reads a row past the service, which mends what it shows.
func (w *world) kept(job bulk.Job, number int) bulk.Row {
	w.Helper()
	rows, err := w.store.BulkRows(w.Context(), w.operator.ID, job.ID, bulk.Page{After: number - 1, Limit: 1})
	w.must(err)
	return rows[0]
}

func TestARowThatWasRefusedAndChargedAfterAllIsShownAsCharged(t *testing.T) {
	onBothStores(t, func(w *world) {
		job, _ := w.charged(0)
		if row := w.kept(job, 1); row.State != bulk.RowRefused || row.Code != fault.InsufficientBalance {
			t.Fatalf("the row is %s %s; want it refused by who took over", row.State, row.Code)
		}
		if effects := w.simulator.Effects(); len(effects) != 1 {
			t.Fatalf("%d effects; want the sleeper to have had it carried out", len(effects))
		}
		job = w.job(job.ID)
		if want := (bulk.Progress{Rows: 1, Done: 1, Charged: money.Paise(199_00)}); job.Progress != want {
			t.Errorf("progress %+v; want %+v", job.Progress, want)
		}
		if row := w.kept(job, 1); row.State != bulk.RowDone || row.OperationID == "" || row.Amount != money.Paise(199_00) {
			t.Errorf("the row is kept as %+v; want it mended", row)
		}
		w.balanced(money.Paise(1000_00), job.ID)
	})
}

// A row whose operation is in doubt is followed like any other.
func TestARowThatWasRefusedAndIsInReviewAfterAllIsFollowed(t *testing.T) {
	onBothStores(t, func(w *world) {
		job, heir := w.charged(2) // carried out, but too late to be heard of
		if job := w.job(job.ID); job.Progress.InReview != 1 || job.DueAt.IsZero() {
			t.Errorf("%+v; want one in review, and somebody to follow it", job)
		}
		if job := w.finish(job.ID, heir); job.Progress.Done != 1 {
			t.Errorf("in the end %s; want it done", story(w.rows(job.ID)))
		}
		w.balanced(money.Paise(1000_00), job.ID)
	})
}

// Nobody has to look at a job for its rows to be right: who ends it sees to that.
func TestWhoEndsAJobMendsItsRows(t *testing.T) {
	onBothStores(t, func(w *world) {
		var told []bulk.RowState
		job := w.started(w.subscribers(0, 0)...)
		store := asleep(w.store)
		var group sync.WaitGroup
		first := w.worker("sleeper", store)
		group.Go(func() { _, _ = first.RunOnce(t.Context()) })
		<-store.asleep
		w.advance(time.Minute)
		w.must(refuseFirst(w, job))
		w.topUp(1000, "in time for the sleeper")
		close(store.wake)
		group.Wait()
		w.advance(time.Minute)
		heir := bulk.NewWorker(w.store, w.processor(w.store), bulk.WorkerConfig{
			Now: w.now, Node: "heir", Timeout: timeout, Problem: func(err error) { t.Error(err) },
			Settled: func(state bulk.RowState) { told = append(told, state) },
		})
		if _, err := heir.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		for number := 1; number <= 2; number++ {
			if row := w.kept(job, number); row.State != bulk.RowDone {
				t.Errorf("row %d is %s %s; want it done", number, row.State, row.Code)
			}
		}
		if len(told) != 2 || told[0] != bulk.RowDone || told[1] != bulk.RowDone {
			t.Errorf("told of %v; want of two rows that are done", told)
		}
		w.balanced(money.Paise(1000_00), job.ID)
	})
}

// refuseFirst takes a job's rows over, refuses the first one, and leaves the others.
func refuseFirst(w *world, job bulk.Job) error {
	now := w.now()
	claimed, _, err := w.store.ClaimBulkJob(w.Context(), bulk.Claim{Now: now, Node: "second", Until: now.Add(time.Minute)})
	if err != nil {
		return err
	}
	hold := bulk.Hold{OperatorID: job.OperatorID, JobID: job.ID, Epoch: claimed.Epoch, Now: now, Until: now.Add(time.Minute)}
	if _, _, _, err := w.store.TakeBulkRows(w.Context(), hold, 1); err != nil {
		return err
	}
	_, err = w.store.SettleBulkRow(w.Context(), hold, bulk.Outcome{Number: 1, State: bulk.RowRefused, Code: fault.InsufficientBalance})
	return err
}
