package storetest

import (
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
)

// bulkOrphans has five rows: one refused and one cancelled that were charged all the
// same, one refused that was not, one done, and one that never began.
func bulkOrphans(h *harness) {
	s := h.fixture("10000")
	other := *s
	other.operator = h.operator("other")
	s.topUp(other.operator, "1000")
	h.bulkStarted(s.operator, "JOB-1", 5)
	hold := h.bulkHold(noon)
	h.bulkTake(hold, 4)
	for number, state := range []bulk.RowState{bulk.RowRefused, bulk.RowRefused, bulk.RowDone, bulk.RowCancelled} {
		h.bulkSettle(hold, number+1, state)
	}
	if _, err := h.CancelBulkJob(h.Context(), s.operator.ID, "JOB-1", noon); err != nil {
		h.Fatal(err)
	}
	orphans := func(want ...int) {
		h.Helper()
		rows, err := h.OrphanedBulkRows(h.Context(), s.operator.ID, "JOB-1", 10)
		h.must(err)
		var found []int
		for _, row := range rows {
			found = append(found, row.Number)
		}
		if !slices.Equal(found, want) {
			h.Errorf("orphaned rows are %v; want %v", found, want)
		}
	}
	orphans()
	s.reserve(s.activation("bulk-JOB-1-1", "9811111111", "100001"))
	s.reserve(s.activation("bulk-JOB-1-4", "9811111114", "100004"))
	s.reserve(s.activation("bulk-JOB-1-5", "9811111115", "100005"))
	// Another operator's equal key is another key.
	foreign := other.activation("bulk-JOB-1-2", "9811111112", "100002")
	foreign.ID = "CX-foreign"
	other.reserve(foreign)
	orphans(1, 4)
	if rows, err := h.OrphanedBulkRows(h.Context(), s.operator.ID, "JOB-1", 1); err != nil || len(rows) != 1 {
		h.Errorf("%d rows, %v; want no more than were asked for", len(rows), err)
	}
	if rows, err := h.OrphanedBulkRows(h.Context(), other.operator.ID, "JOB-1", 10); err != nil || len(rows) != 0 {
		h.Errorf("another operator finds %d rows, %v", len(rows), err)
	}
	h.bulkSettle(hold, 1, bulk.RowDone)
	orphans(4)
}

func bulkOpenJobs(h *harness) {
	asha, binu := h.operator("asha"), h.operator("binu")
	open := func(what string, want int) {
		h.Helper()
		if got, err := h.OpenBulkJobs(h.Context()); err != nil || got != want {
			h.Errorf("%s: %d jobs are open, %v; want %d", what, got, err, want)
		}
	}
	h.bulkDraft(asha, "DRAFT", 1)
	open("with a draft", 0)
	h.bulkStarted(asha, "JOB-1", 1)
	h.bulkStarted(binu, "JOB-1", 1)
	open("of two operators", 2)
	hold := h.bulkHold(noon)
	h.bulkTake(hold, 1)
	h.bulkSettle(hold, 1, bulk.RowInReview)
	review := noon.Add(time.Minute)
	h.must(h.ReleaseBulkJob(h.Context(), hold, bulk.Release{Again: noon, Review: review}))
	open("with one in review", 2)
	for _, at := range []time.Time{noon, review} { // the other one, and then the review
		next := h.bulkHold(at)
		h.bulkTake(next, 1)
		h.bulkSettle(next, 1, bulk.RowDone)
		h.must(h.ReleaseBulkJob(h.Context(), next, bulk.Release{Again: at, Review: at}))
	}
	open("in the end", 0)
}
