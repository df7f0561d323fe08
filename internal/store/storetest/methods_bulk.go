package storetest

import (
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// startedJob is a bulk renewal that is started; draftJob is one that is not.
const startedJob, draftJob = "WALK-JOB", "WALK-DRAFT"

func (w *methodCaller) bulkDrafts() {
	for _, id := range []string{startedJob, draftJob} {
		job := bulk.Job{OperatorID: w.filled.OperatorID, ID: id, Actor: "web:asha", Title: "walk", State: bulk.Draft, CreatedAt: w.filled.Now}
		var rows []bulk.Row
		for n := 1; n <= 6; n++ {
			rows = append(rows, bulk.Row{
				Number: n, SubscriberID: w.filled.Subscribers[n], PlanID: w.plan.ID, Kind: operation.Renew,
				IdempotencyKey: fmt.Sprintf("bulk-%s-%d", id, n), Quoted: w.plan.Price, State: bulk.RowQueued,
			})
		}
		w.must(w.SaveBulkJob(w.Context(), job, rows))
	}
}

func (w *methodCaller) bulkStart() {
	started, err := w.StartBulkJob(w.Context(), w.filled.OperatorID, startedJob, w.filled.Now)
	if err != nil || !started {
		w.Fatalf("started %v, %v", started, err)
	}
}

// bulkInterruptions interrupts the job, and its operator continues it.
func (w *methodCaller) bulkInterruptions() {
	interrupted, err := w.InterruptIdleBulkJobs(w.Context(), w.filled.Now.Add(time.Hour), w.filled.Now)
	w.must(err)
	waiting, err := w.InterruptedBulkJobs(w.Context())
	w.must(err)
	continued, err := w.ContinueBulkJob(w.Context(), w.filled.OperatorID, startedJob, "web:asha", w.filled.Now)
	if err != nil || !continued || interrupted == 0 || len(waiting) != interrupted {
		w.Fatalf("%d interrupted, %d wait, continued %v, %v", interrupted, len(waiting), continued, err)
	}
}

// bulkSuspension suspends the operator, which interrupts its job, and activates it
// again.
func (w *methodCaller) bulkSuspension() {
	for _, status := range []subscription.OperatorStatus{subscription.OperatorInactive, subscription.OperatorActive} {
		w.must(first(w.ChangeOperator(w.Context(), staffAction("lco set"), w.filled.OperatorID, admin.OperatorChange{Status: &status})))
		suspended, err := w.InterruptSuspendedBulkJobs(w.Context(), w.filled.OperatorID, w.filled.Now)
		if err != nil || suspended != (status == subscription.OperatorInactive) {
			w.Fatalf("%s: suspended %v, %v", status, suspended, err)
		}
	}
	continued, err := w.ContinueBulkJob(w.Context(), w.filled.OperatorID, startedJob, "web:asha", w.filled.Now)
	if err != nil || !continued {
		w.Fatalf("continued %v, %v", continued, err)
	}
}

// bulkWork works on one row; every other row ends in review.
func (w *methodCaller) bulkWork() {
	now := w.filled.Now
	job, found, err := w.ClaimBulkJob(w.Context(), bulk.Claim{Now: now, Node: "node-1", Until: now})
	if err != nil || !found {
		w.Fatalf("claimed %v, %v", found, err)
	}
	hold := bulk.Lease{OperatorID: job.OperatorID, JobID: job.ID, Epoch: job.Epoch, Now: now, Until: now}
	_, rows, held, err := w.TakeBulkRows(w.Context(), hold, 1)
	if err != nil || !held {
		w.Fatalf("taken %d, %v, %v", len(rows), held, err)
	}
	for _, row := range rows {
		outcome := bulk.Outcome{Number: row.Number, State: bulk.RowDone, OperationID: row.IdempotencyKey, Amount: row.Quoted}
		if row.Number%2 == 0 {
			outcome.State = bulk.RowInReview
		}
		w.must(first(w.SettleBulkRow(w.Context(), hold, outcome)))
	}
	w.must(w.ReleaseBulkJob(w.Context(), hold, bulk.Release{Again: now, Review: now}))
}

func (w *methodCaller) bulkRows() {
	for _, state := range []bulk.RowState{"", bulk.RowInReview} {
		w.must(first(w.BulkRows(w.Context(), w.filled.OperatorID, startedJob, bulk.Page{State: state, Limit: 10})))
	}
}

// bulkRemoval removes a job that was cancelled before it began.
func (w *methodCaller) bulkRemoval() {
	job := bulk.Job{OperatorID: w.filled.OperatorID, ID: "WALK-OLD", Actor: "web:asha", State: bulk.Draft, CreatedAt: w.filled.Now}
	w.must(w.SaveBulkJob(w.Context(), job, []bulk.Row{{
		Number: 1, SubscriberID: w.filled.Subscribers[1], PlanID: w.plan.ID, Kind: operation.Renew, IdempotencyKey: "bulk-old", State: bulk.RowQueued,
	}}))
	w.must(first(w.CancelBulkJob(w.Context(), w.filled.OperatorID, job.ID, w.filled.Now)))
	removed, err := w.RemoveBulkJob(w.Context(), w.filled.Now.Add(time.Hour), w.filled.Now.Add(time.Hour))
	if err != nil || removed.Rows == 0 {
		w.Fatalf("removed %+v, %v", removed, err)
	}
}
