package storetest

import (
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/retention"
)

var retentionTests = []test{
	{"rows of uneventful operations are removed, oldest first", rowsRemoved},
	{"rows that may still be needed are kept", rowsKept},
	{"concurrent nodes remove each row once", rowsRemovedOnce},
	{"the oldest finished bulk renewal is removed with its rows", bulkJobRemoved},
}

// sold makes a renewal of a subscriber at a time, with an id of that time, and settles it.
func (s *fixture) soldAt(at time.Time, key, subscriberID string, to operation.State) operation.Operation {
	s.Helper()
	d := s.renewal(key, subscriberID)
	d.ID, d.CreatedAt, d.LeaseUntil, d.CycleStartsAt = operation.FirstID(at)[:20]+key, at, at.Add(25*time.Second), at
	op := s.reserve(d)
	st := settlement(op, to)
	st.At = at.Add(time.Second)
	st.Calls[0].AskedAt, st.Calls[0].What = at, "renew"
	st.Calls[0].Reply.Outcome = map[operation.State]operation.Outcome{operation.Success: operation.Confirmed, operation.Failed: operation.Rejected}[to]
	settled, did, err := s.Settle(s.Context(), st)
	s.must(err)
	if !did {
		s.Fatalf("%s was not settled", key)
	}
	return settled
}

// remove removes rows of a table until none is left, and returns how many were.
func (s *fixture) remove(what retention.What, before time.Time, limit int) (rows int) {
	s.Helper()
	for {
		removed, err := s.RemoveOperationRows(s.Context(), what, before, before.Add(100*day), limit)
		s.must(err)
		if rows += removed.Rows; !removed.More {
			return rows
		}
	}
}

// left returns how many events and provider calls an operation has.
func (s *fixture) left(op operation.Operation) [2]int {
	s.Helper()
	history, err := s.OperationHistory(s.Context(), op.ID)
	s.must(err)
	return [2]int{len(history.Events), len(history.Calls)}
}

func rowsRemoved(h *harness) {
	s := h.fixture("5000")
	s.subscriber("000001", "9800000001")
	var ops []operation.Operation
	for i := range 5 {
		to := operation.Success
		if i == 3 {
			to = operation.Failed
		}
		ops = append(ops, s.soldAt(noon.Add(time.Duration(i+1)*day), name("k", i), "000001", to))
	}
	// Before the fifth was ordered; in batches of two.
	if rows := s.remove(retention.ProviderCalls, ops[4].CreatedAt, 2); rows != 4 {
		h.Errorf("%d provider calls were removed; want 4", rows)
	}
	if rows := s.remove(retention.OperationEvents, ops[1].CreatedAt, 50); rows != 2 {
		h.Errorf("%d events were removed; want 2", rows)
	}
	for i, want := range [][2]int{{0, 0}, {2, 0}, {2, 0}, {2, 0}, {2, 1}} {
		if got := s.left(ops[i]); got != want {
			h.Errorf("operation %d has %v events and calls; want %v", i, got, want)
		}
		if op, found, err := s.OperationByKey(s.Context(), s.operator.ID, ops[i].IdempotencyKey); err != nil || !found || op.State != ops[i].State {
			h.Errorf("its key gives %v, %v, %v", op.State, found, err)
		}
	}
	history, err := s.OperationHistory(s.Context(), ops[0].ID)
	h.must(err)
	if at := ops[1].CreatedAt.Add(100 * day); !history.EventsRemoved.Equal(at) {
		h.Errorf("events removed at %v; want %v", history.EventsRemoved, at)
	}
	if history, err = s.OperationHistory(s.Context(), ops[4].ID); err != nil || !history.CallsRemoved.IsZero() || !history.EventsRemoved.IsZero() {
		h.Errorf("a young operation: %v, %v, %v", history.CallsRemoved, history.EventsRemoved, err)
	}
	if rows := s.remove(retention.ProviderCalls, ops[4].CreatedAt, 2); rows != 0 {
		h.Errorf("%d provider calls were removed a second time", rows)
	}
}

func rowsKept(h *harness) {
	s := h.fixture("50000")
	for _, id := range []string{"000001", "000002", "000003", "000004", "000005"} {
		s.subscriber(id, "980000000"+id[5:])
	}
	first := noon.Add(day)
	open := s.soldAt(first, "open", "000001", operation.NeedsReview)
	exception := s.soldAt(first.Add(time.Minute), "exception", "000002", operation.Failed)
	h.must(s.CloseLateCheck(h.Context(), operation.LateCheck{OperationID: exception.ID, Node: "node-1", Exception: &operation.Exception{
		OperationID: exception.ID, Kind: operation.LateSuccess, Detail: "carried out after all", At: noon,
	}}))
	reviewed := s.soldAt(first.Add(2*time.Minute), "reviewed", "000003", operation.NeedsReview)
	st := settlement(reviewed, operation.Success)
	st.At, st.Calls, st.Actor = reviewed.CreatedAt.Add(time.Minute), nil, "test:asha"
	_, err := s.SettleReview(h.Context(), staffAction("review settle"), st)
	h.must(err)
	late := s.soldAt(first.Add(3*time.Minute), "late", "000004", operation.NeedsReview)
	st = settlement(late, operation.Success)
	st.At, st.Calls[0].Reply.Outcome = late.CreatedAt.Add(8*day), operation.Confirmed
	_, _, err = s.Settle(h.Context(), st)
	h.must(err)
	last := s.soldAt(first.Add(4*time.Minute), "plain", "000005", operation.Success)
	s.remove(retention.ProviderCalls, first.Add(day), 50)
	s.remove(retention.OperationEvents, first.Add(day), 50)
	for _, op := range []operation.Operation{open, exception, reviewed, late} {
		if got := s.left(op); got[0] < 2 || got[1] < 1 {
			h.Errorf("%s has %v events and calls", op.IdempotencyKey, got)
		}
	}
	if got := s.left(last); got != [2]int{} {
		h.Errorf("an uneventful operation has %v events and calls; want none", got)
	}
}

func rowsRemovedOnce(h *harness) {
	s := h.fixture("20000")
	s.subscriber("000001", "9800000001")
	for i := range 30 {
		s.soldAt(noon.Add(time.Duration(i+1)*day), name("k", i), "000001", operation.Success)
	}
	rows := make([]int, 4)
	concurrently(len(rows), func(i int) { rows[i] = s.remove(retention.ProviderCalls, noon.Add(100*day), 3) })
	sum := 0
	for _, n := range rows {
		sum += n
	}
	if sum != 30 {
		h.Errorf("%v provider calls were removed; want 30 in all", rows)
	}
}

func bulkJobRemoved(h *harness) {
	operator := h.operator("asha")
	for _, id := range []string{"one", "two"} {
		h.bulkStarted(operator, id, 2)
		hold := h.bulkHold(noon)
		for _, number := range h.bulkTake(hold, 10) {
			h.bulkSettle(hold, number, bulk.RowRefused)
		}
		h.must(h.ReleaseBulkJob(h.Context(), hold, bulk.Release{}))
	}
	remove := func(before time.Time) retention.Removed {
		h.Helper()
		removed, err := h.RemoveBulkJob(h.Context(), before, before.Add(30*day))
		h.must(err)
		return removed
	}
	if got := remove(noon); got.Rows != 0 || got.More {
		h.Errorf("%+v were removed before they were old", got)
	}
	for range 2 {
		if got := remove(noon.Add(time.Hour)); got.Rows != 3 || !got.More {
			h.Errorf("%+v; want a job and its two rows", got)
		}
	}
	if got := remove(noon.Add(time.Hour)); got.Rows != 0 || got.More {
		h.Errorf("%+v; want nothing left", got)
	}
	if jobs, err := h.BulkJobs(h.Context(), operator.ID, time.Time{}, 10); err != nil || len(jobs) != 0 {
		h.Errorf("%v, %v; want no jobs", jobs, err)
	}
}
