package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// GivesOutEveryID demands of a store that ids have as few digits as there are ids
// of: the very last one is given out, then a longer one, and again the last one when
// whoever had it lets go of it. Of four digits, which the store is told to begin
// with, there are few enough to use them up.
func GivesOutEveryID(t *testing.T, store Store, assignIDsOf func(digits int) *subscription.IDs) {
	t.Helper()
	s := (&house{TB: t, Store: store}).shop("1000000")
	const last = "4711"
	var rows []admin.ImportRow
	for n := range 10_000 {
		if id := fmt.Sprintf("%04d", n); id != last {
			rows = append(rows, s.importRow(n+2, id, fmt.Sprintf("97%08d", n)))
		}
	}
	// In the order of an index longer ones lie between them, and such as are no
	// number.
	for n, id := range []string{"47110", "471109", "47A1"} {
		rows = append(rows, s.importRow(10_002+n, id, fmt.Sprintf("9700010%03d", n)))
	}
	for batch := range slices.Chunk(rows, 500) {
		_, err := s.ImportSubscribers(s.Context(), act("subscriber import"), batch)
		s.must(err)
	}
	ids := assignIDsOf(4)

	sold := 0
	question := operation.Question{OperatorID: s.operator.ID, Kind: operation.Activate, PlanID: s.plan.ID, Mobile: "9800000000"}
	activate := func(when, want string) operation.Operation {
		t.Helper()
		id := s.facts(question).FreeID
		if id != want && (want != "" || len(id) != 5) {
			t.Fatalf("%s: an activation gets %q; want %q, or any of five digits if that is empty", when, id, want)
		}
		sold++
		return s.reserve(s.activation(name("key", sold), fmt.Sprintf("98%08d", sold), id))
	}
	given := activate("with one of four digits left", last)
	s.settle(activate("with that one reserved", ""), operation.Success)
	s.settle(given, operation.NeedsReview)
	s.settle(activate("with that one in doubt", ""), operation.Success)
	if got := ids.Digits(); got != 4 {
		t.Errorf("with one in doubt the store begins with ids of %d digits; want 4", got)
	}
	s.settle(given, operation.Failed)
	given = activate("when the activation that had it has failed", last)
	s.settle(given, operation.Success)
	for range 3 {
		s.settle(activate("with all of four digits taken", ""), operation.Success)
	}
	if got := ids.Digits(); got != 5 {
		t.Errorf("with all of four digits taken for good the store begins with ids of %d; want 5", got)
	}
}
