package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

var bulkTests = []test{
	{"a job is read back whole, by its operator only", bulkReadBack},
	{"a draft is started once, and not while another job runs", bulkStartedOnce},
	{"a draft older than another job's start is not started", bulkOutdated},
	{"a job is claimed once, when it is due", bulkClaimedOnce},
	{"rows are taken once, in order, and again after a takeover", bulkRowsTaken},
	{"a stale owner settles and releases nothing", bulkStaleOwner},
	{"an operation's outcome replaces a refusal", bulkOperationOutweighs},
	{"orphaned rows, given up but charged, are found", bulkOrphans},
	{"a job counts as open until nothing is pending", bulkOpenJobs},
	{"a job is finished when only reviews are left", bulkFinished},
	{"a cancellation stops rows that have not begun", bulkCancelled},
	{"drafts that were not started are purged", bulkPurged},
	{"a single node takes over every job", bulkTakenOver},
}

// bulkDraft stores a draft with a number of queued rows.
func (h *harness) bulkDraft(operator subscription.Operator, id string, rows int) (bulk.Job, []bulk.Row) {
	h.Helper()
	job := bulk.Job{OperatorID: operator.ID, ID: id, Actor: "web:asha", Title: "march.csv", State: bulk.Draft, CreatedAt: noon}
	var all []bulk.Row
	for n := 1; n <= rows; n++ {
		all = append(all, bulk.Row{
			Number: n, Line: n + 1, SubscriberID: fmt.Sprintf("%06d", n), Mobile: fmt.Sprintf("98%08d", n), CustomerName: "Asha", PlanID: "BASIC-1",
			Kind: operation.Renew, IdempotencyKey: fmt.Sprintf("bulk-%s-%d", id, n), Quoted: rupees("199"), ExpiryQuoted: noon.Add(time.Hour), State: bulk.RowQueued,
			NotRenewedSince: noon.Add(-time.Duration(n-1) * time.Hour),
		})
	}
	h.must(h.SaveBulkJob(h.Context(), job, all))
	return job, all
}

func (h *harness) bulkStarted(operator subscription.Operator, id string, rows int) {
	h.Helper()
	h.bulkDraft(operator, id, rows)
	if started, err := h.StartBulkJob(h.Context(), operator.ID, id, noon); err != nil || !started {
		h.Fatalf("started %v, %v", started, err)
	}
}

// bulkHold claims the job that is due at a time, for a minute.
func (h *harness) bulkHold(now time.Time) bulk.Lease {
	h.Helper()
	job, found, err := h.ClaimBulkJob(h.Context(), bulk.Claim{Now: now, Node: "node-1", Until: now.Add(time.Minute)})
	if err != nil || !found {
		h.Fatalf("claimed %v, %v", found, err)
	}
	return bulk.Lease{OperatorID: job.OperatorID, JobID: job.ID, Epoch: job.Epoch, Now: now, Until: now.Add(time.Minute)}
}

// bulkTake takes rows and returns their numbers.
func (h *harness) bulkTake(hold bulk.Lease, limit int) (numbers []int) {
	h.Helper()
	_, rows, _, err := h.TakeBulkRows(h.Context(), hold, limit)
	h.must(err)
	for _, row := range rows {
		numbers = append(numbers, row.Number)
	}
	slices.Sort(numbers)
	return numbers
}

func (h *harness) bulkSettle(hold bulk.Lease, number int, state bulk.RowState) (settled bool) {
	h.Helper()
	outcome := bulk.Outcome{Number: number, State: state, Code: fault.OK}
	switch state {
	case bulk.RowDone, bulk.RowInReview:
		outcome.OperationID, outcome.Amount = fmt.Sprintf("CX%d", number), rupees("199")
	case bulk.RowRefused:
		outcome.Code, outcome.Message = fault.InsufficientBalance, "The wallet is empty."
	}
	settled, err := h.SettleBulkRow(h.Context(), hold, outcome)
	h.must(err)
	return settled
}

func (h *harness) bulkJob(operator subscription.Operator, id string) bulk.Job {
	h.Helper()
	job, found, err := h.BulkJob(h.Context(), operator.ID, id)
	if err != nil || !found {
		h.Fatalf("job %s: %v, %v", id, found, err)
	}
	return job
}

func (h *harness) bulkRow(operator subscription.Operator, id string, number int) bulk.Row {
	h.Helper()
	rows, err := h.BulkRows(h.Context(), operator.ID, id, bulk.Page{After: number - 1, Limit: 1})
	if err != nil || len(rows) != 1 {
		h.Fatalf("row %d: %v, %v", number, rows, err)
	}
	return rows[0]
}

func bulkReadBack(h *harness) {
	operator, other := h.operator("asha"), h.operator("binu")
	draft, kept := h.bulkDraft(operator, "JOB-1", 450)
	h.reopen()
	job := h.bulkJob(operator, "JOB-1")
	want := bulk.Progress{Rows: 450, Queued: 450, Outstanding: rupees("89550"), Cheapest: rupees("199")}
	if job.Progress != want || job.Title != draft.Title || job.Actor != draft.Actor || !job.CreatedAt.Equal(noon) || job.State != bulk.Draft {
		h.Errorf("read back as %+v; want %+v with %+v", job, draft, want)
	}
	rows, err := h.BulkRows(h.Context(), operator.ID, "JOB-1", bulk.Page{After: 447, Limit: 10})
	h.must(err)
	if !slices.Equal(rows, kept[447:]) {
		h.Errorf("the last rows are %+v; want %+v", rows, kept[447:])
	}
	if refused, err := h.BulkRows(h.Context(), operator.ID, "JOB-1", bulk.Page{State: bulk.RowRefused, Limit: 10}); err != nil || len(refused) != 0 {
		h.Errorf("refused rows: %v, %v; want none", refused, err)
	}
	_, found, err := h.BulkJob(h.Context(), other.ID, "JOB-1")
	foreign, rowsErr := h.BulkRows(h.Context(), other.ID, "JOB-1", bulk.Page{Limit: 10})
	started, startErr := h.StartBulkJob(h.Context(), other.ID, "JOB-1", noon)
	cancelled, cancelErr := h.CancelBulkJob(h.Context(), other.ID, "JOB-1", noon)
	if err := errors.Join(err, rowsErr, startErr, cancelErr); err != nil || found || len(foreign) > 0 || started || cancelled {
		h.Errorf("another operator finds %v, %d rows, starts %v, cancels %v: %v", found, len(foreign), started, cancelled, err)
	}
	if listed, err := h.BulkJobs(h.Context(), operator.ID, time.Time{}, 10); err != nil || len(listed) != 0 {
		h.Errorf("drafts are listed: %v, %v", listed, err)
	}
	for _, row := range []struct {
		operator int64
		since    time.Time
		want     int
	}{{operator.ID, noon.Add(-time.Minute), 1}, {operator.ID, noon.Add(time.Minute), 0}, {other.ID, noon.Add(-time.Minute), 0}} {
		drafts, err := h.BulkDrafts(h.Context(), row.operator, row.since, 10)
		if err != nil || len(drafts) != row.want || row.want > 0 && drafts[0].Progress.Rows != len(kept) {
			h.Errorf("drafts of operator %d since %v: %+v, %v; want %d", row.operator, row.since, drafts, err, row.want)
		}
	}
	// Another operator may have a job with the same id.
	h.bulkStarted(other, "JOB-1", 1)
	if listed, err := h.BulkJobs(h.Context(), other.ID, time.Time{}, 10); err != nil || len(listed) != 1 || listed[0].Progress.Rows != 1 {
		h.Errorf("listed %+v, %v", listed, err)
	} else if earlier, err := h.BulkJobs(h.Context(), other.ID, listed[0].StartedAt, 10); err != nil || len(earlier) != 0 {
		h.Errorf("listed as started before itself: %+v, %v", earlier, err)
	}
}

func bulkStartedOnce(h *harness) {
	operator := h.operator("asha")
	h.bulkDraft(operator, "JOB-1", 2)
	var starts atomic.Int32
	concurrently(8, func(int) {
		started, err := h.StartBulkJob(h.Context(), operator.ID, "JOB-1", noon)
		if err != nil {
			h.Errorf("start: %v", err)
		}
		if started {
			starts.Add(1)
		}
	})
	if starts.Load() != 1 {
		h.Errorf("started %d times; want once", starts.Load())
	}
	var running, refused atomic.Int32
	for i := range 8 {
		h.bulkDraft(h.operator(name("other", i)), "JOB-1", 1)
		h.bulkDraft(operator, name("JOB", i+2), 1)
	}
	concurrently(8, func(i int) {
		started, err := h.StartBulkJob(h.Context(), operator.ID, name("JOB", i+2), noon)
		if errors.Is(err, bulk.ErrAnotherRuns) {
			refused.Add(1)
		} else if started {
			running.Add(1)
		}
	})
	if running.Load() != 0 || refused.Load() != 8 {
		h.Errorf("beside the first, %d run and %d are refused", running.Load(), refused.Load())
	}
}

func bulkOutdated(h *harness) {
	operator := h.operator("asha")
	h.bulkDraft(operator, "OLD", 1)
	h.bulkDraft(operator, "NEW", 1)
	if started, err := h.StartBulkJob(h.Context(), operator.ID, "NEW", noon.Add(time.Second)); err != nil || !started {
		h.Fatalf("started %v, %v", started, err)
	}
	hold := h.bulkHold(noon.Add(time.Second))
	h.bulkTake(hold, 4)
	h.bulkSettle(hold, 1, bulk.RowDone)
	h.must(h.ReleaseBulkJob(h.Context(), hold, bulk.Release{Again: noon, Review: noon}))
	if _, err := h.StartBulkJob(h.Context(), operator.ID, "OLD", noon.Add(time.Minute)); !errors.Is(err, bulk.ErrOutdated) {
		h.Errorf("the draft from before: %v; want it to be outdated", err)
	}
}

func bulkClaimedOnce(h *harness) {
	operator := h.operator("asha")
	h.bulkStarted(operator, "JOB-1", 3)
	if due, err := h.BulkJobsDue(h.Context(), noon.Add(-time.Millisecond)); err != nil || due {
		h.Errorf("due before it was started: %v, %v", due, err)
	}
	if due, err := h.BulkJobsDue(h.Context(), noon); err != nil || !due {
		h.Errorf("due: %v, %v; want it to be", due, err)
	}
	var claimed atomic.Int32
	concurrently(8, func(int) {
		job, found, err := h.ClaimBulkJob(h.Context(), bulk.Claim{Now: noon, Node: "node-1", Until: noon.Add(time.Minute)})
		if err != nil {
			h.Errorf("claim: %v", err)
		}
		if found {
			claimed.Add(1)
			if job.Epoch != 1 || job.Node != "node-1" || !job.DueAt.Equal(noon.Add(time.Minute)) {
				h.Errorf("claimed as %+v", job)
			}
		}
	})
	if claimed.Load() != 1 {
		h.Errorf("claimed %d times; want once", claimed.Load())
	}
	if second := h.bulkHold(noon.Add(time.Minute)); second.Epoch != 2 {
		h.Errorf("claimed when the lease had ended with epoch %d; want 2", second.Epoch)
	}
}

func bulkRowsTaken(h *harness) {
	operator := h.operator("asha")
	h.bulkStarted(operator, "JOB-1", 5)
	hold := h.bulkHold(noon)
	if first, second := h.bulkTake(hold, 2), h.bulkTake(hold, 2); !slices.Equal(first, []int{1, 2}) || !slices.Equal(second, []int{3, 4}) {
		h.Errorf("taken %v and %v; want 1 2 and 3 4", first, second)
	}
	h.bulkSettle(hold, 2, bulk.RowDone)
	later := noon.Add(time.Minute)
	next := h.bulkHold(later)
	if taken := h.bulkTake(next, 3); !slices.Equal(taken, []int{1, 3, 4}) {
		h.Errorf("left behind are %v; want 1 3 4", taken)
	}
	if taken := h.bulkTake(next, 3); !slices.Equal(taken, []int{5}) {
		h.Errorf("then %v; want 5", taken)
	}
	if row := h.bulkRow(operator, "JOB-1", 1); row.State != bulk.RowRunning || !row.BegunAt.Equal(noon) {
		h.Errorf("row 1 began at %s, is %s; want it to have begun at first", row.BegunAt, row.State)
	}
	progress := h.bulkJob(operator, "JOB-1").Progress
	if want := (bulk.Progress{Rows: 5, Running: 4, Done: 1, Outstanding: rupees("796"), Charged: rupees("199")}); progress != want {
		h.Errorf("progress %+v; want %+v", progress, want)
	}
}

func bulkStaleOwner(h *harness) {
	operator := h.operator("asha")
	h.bulkStarted(operator, "JOB-1", 2)
	lost := h.bulkHold(noon)
	h.bulkTake(lost, 2)
	next := h.bulkHold(noon.Add(time.Minute))
	if _, rows, held, err := h.TakeBulkRows(h.Context(), lost, 2); err != nil || held || len(rows) > 0 {
		h.Errorf("who lost the job takes %d rows: %v, %v", len(rows), held, err)
	}
	if h.bulkSettle(lost, 1, bulk.RowRefused) {
		h.Error("a stale owner settled a row")
	}
	h.must(h.ReleaseBulkJob(h.Context(), lost, bulk.Release{Again: noon.Add(time.Hour), Review: noon}))
	job, row := h.bulkJob(operator, "JOB-1"), h.bulkRow(operator, "JOB-1", 1)
	if row.State != bulk.RowRunning || !job.DueAt.Equal(next.Until) {
		h.Errorf("row %s, due %s; want nothing changed", row.State, job.DueAt)
	}
}

func bulkOperationOutweighs(h *harness) {
	operator := h.operator("asha")
	h.bulkStarted(operator, "JOB-1", 1)
	lost := h.bulkHold(noon)
	h.bulkTake(lost, 1)
	next := h.bulkHold(noon.Add(time.Minute))
	h.bulkTake(next, 1)
	h.bulkSettle(next, 1, bulk.RowRefused)
	h.must(h.ReleaseBulkJob(h.Context(), next, bulk.Release{Again: noon, Review: noon}))
	// The stale owner's request succeeded after all: the row has an operation.
	if !h.bulkSettle(lost, 1, bulk.RowInReview) {
		h.Error("an operation did not settle the row")
	}
	job, row := h.bulkJob(operator, "JOB-1"), h.bulkRow(operator, "JOB-1", 1)
	if row.State != bulk.RowInReview || row.OperationID != "CX1" || job.DueAt.IsZero() {
		h.Errorf("row %+v, due %s; want it in review, and followed", row, job.DueAt)
	}
	h.bulkSettle(h.bulkHold(noon.Add(time.Hour)), 1, bulk.RowDone)
	h.bulkSettle(lost, 1, bulk.RowRefused)
	if row := h.bulkRow(operator, "JOB-1", 1); row.State != bulk.RowDone {
		h.Errorf("row %s; want done to stay done", row.State)
	}
}

func bulkFinished(h *harness) {
	operator := h.operator("asha")
	h.bulkStarted(operator, "JOB-1", 3)
	hold := h.bulkHold(noon)
	h.bulkTake(hold, 2)
	h.bulkSettle(hold, 1, bulk.RowDone)
	h.bulkSettle(hold, 2, bulk.RowInReview)
	again := noon.Add(5 * time.Second)
	h.must(h.ReleaseBulkJob(h.Context(), hold, bulk.Release{Again: again, Why: "The provider is out.", Review: noon.Add(time.Hour)}))
	if job := h.bulkJob(operator, "JOB-1"); job.State != bulk.Running || job.PauseReason != "The provider is out." || !job.DueAt.Equal(again) {
		h.Errorf("paused as %+v", job)
	}
	hold = h.bulkHold(again)
	h.bulkTake(hold, 2)
	if job := h.bulkJob(operator, "JOB-1"); job.PauseReason != "" {
		h.Errorf("it runs, and still waits because %q", job.PauseReason)
	}
	h.bulkSettle(hold, 3, bulk.RowRefused)
	review := noon.Add(time.Minute)
	h.must(h.ReleaseBulkJob(h.Context(), hold, bulk.Release{Again: again, Review: review}))
	if job := h.bulkJob(operator, "JOB-1"); job.State != bulk.Finished || !job.EndedAt.Equal(again) || !job.DueAt.Equal(review) {
		h.Errorf("with one in review: %+v", job)
	}
	hold = h.bulkHold(review)
	h.bulkSettle(hold, 2, bulk.RowDone)
	h.must(h.ReleaseBulkJob(h.Context(), hold, bulk.Release{Again: again, Review: review}))
	job := h.bulkJob(operator, "JOB-1")
	if want := (bulk.Progress{Rows: 3, Done: 2, Refused: 1, Charged: rupees("398")}); job.State != bulk.Finished || !job.EndedAt.Equal(again) || !job.DueAt.IsZero() || job.Progress != want {
		h.Errorf("in the end: %+v", job)
	}
}

func bulkCancelled(h *harness) {
	operator := h.operator("asha")
	h.bulkDraft(operator, "DRAFT", 2)
	if cancelled, err := h.CancelBulkJob(h.Context(), operator.ID, "DRAFT", noon); err != nil || !cancelled {
		h.Errorf("a draft: %v, %v", cancelled, err)
	}
	if job := h.bulkJob(operator, "DRAFT"); job.State != bulk.Finished || job.Progress.Cancelled != 2 || !job.EndedAt.Equal(noon) {
		h.Errorf("a draft is cancelled as %+v", job)
	}
	h.bulkStarted(operator, "JOB-1", 3)
	hold := h.bulkHold(noon)
	h.bulkTake(hold, 1)
	for i, want := range []bool{true, false} {
		if cancelled, err := h.CancelBulkJob(h.Context(), operator.ID, "JOB-1", noon.Add(time.Second)); err != nil || cancelled != want {
			h.Errorf("time %d: %v, %v; want %v", i+1, cancelled, err, want)
		}
	}
	job, rows, held, err := h.TakeBulkRows(h.Context(), hold, 2)
	if err != nil || !held || len(rows) > 0 || job.CancelledAt.IsZero() {
		h.Errorf("after it was cancelled: %d rows, held %v, %+v, %v", len(rows), held, job, err)
	}
	h.bulkSettle(hold, 1, bulk.RowDone)
	h.must(h.ReleaseBulkJob(h.Context(), hold, bulk.Release{Again: noon, Review: noon}))
	job = h.bulkJob(operator, "JOB-1")
	if job.State != bulk.Finished || job.Progress.Done != 1 || job.Progress.Cancelled != 2 {
		h.Errorf("in the end: %+v; want what had begun to be done", job)
	}
	if cancelled, err := h.CancelBulkJob(h.Context(), operator.ID, "JOB-1", noon.Add(time.Hour)); err != nil || cancelled {
		h.Errorf("one that is over: %v, %v", cancelled, err)
	}
}

func bulkPurged(h *harness) {
	operator := h.operator("asha")
	h.bulkDraft(operator, "DRAFT", 3)
	h.bulkStarted(operator, "JOB-1", 1)
	for i, row := range []struct {
		before time.Time
		want   int
	}{{noon, 0}, {noon.Add(time.Millisecond), 1}, {noon.Add(time.Hour), 0}} {
		if purged, err := h.PurgeBulkDrafts(h.Context(), row.before, 5); err != nil || purged != row.want {
			h.Errorf("time %d: %d, %v; want %d", i+1, purged, err, row.want)
		}
	}
	_, found, err := h.BulkJob(h.Context(), operator.ID, "DRAFT")
	rows, rowsErr := h.BulkRows(h.Context(), operator.ID, "DRAFT", bulk.Page{Limit: 5})
	if err := errors.Join(err, rowsErr); err != nil || found || len(rows) > 0 {
		h.Errorf("of the draft there is %v and %d rows: %v", found, len(rows), err)
	}
	h.bulkJob(operator, "JOB-1")
}

func bulkTakenOver(h *harness) {
	operator := h.operator("asha")
	h.bulkStarted(operator, "JOB-1", 1)
	h.bulkHold(noon)
	h.reopen()
	if due, err := h.BulkJobsDue(h.Context(), noon); err != nil || due {
		h.Errorf("while the lease runs: due %v, %v", due, err)
	}
	h.must(h.TakeOverBulkJobs(h.Context(), noon))
	if next := h.bulkHold(noon); next.Epoch != 2 {
		h.Errorf("taken over with epoch %d; want 2", next.Epoch)
	}
}
