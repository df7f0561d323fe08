package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// AssignsEveryID requires that a store assigns the shortest free ids: the very last one
// of a length, then a longer one, and the last one again when it is released. The store
// is told to begin with three digits, of which there are few enough to use up.
func AssignsEveryID(t *testing.T, store Store, assignIDsOf func(digits int) *subscription.IDs) {
	t.Helper()
	s := (&harness{TB: t, Store: store}).fixture("1000000")
	const last = "471"
	var rows []admin.ImportRow
	for n := range 1_000 {
		if id := fmt.Sprintf("%03d", n); id != last {
			rows = append(rows, s.importRow(n+2, id, fmt.Sprintf("97%08d", n)))
		}
	}
	// In index order, longer ids and ids that are not numbers lie between them.
	for n, id := range []string{"4710", "47109", "47A"} {
		rows = append(rows, s.importRow(1_002+n, id, fmt.Sprintf("9700001%03d", n)))
	}
	for batch := range slices.Chunk(rows, 100) {
		_, err := s.ImportSubscribers(s.Context(), staffAction("subscriber import"), batch)
		s.must(err)
	}
	ids := assignIDsOf(3)

	sold := 0
	query := operation.SnapshotQuery{OperatorID: s.operator.ID, Kind: operation.Activate, PlanID: s.plan.ID, Mobile: "9800000000"}
	activate := func(when, want string) operation.Operation {
		t.Helper()
		id := s.snapshot(query).FreeID
		if id != want && (want != "" || len(id) != 4) {
			t.Fatalf("%s: an activation gets %q; want %q, or any of four digits if that is empty", when, id, want)
		}
		sold++
		return s.reserve(s.activation(name("key", sold), fmt.Sprintf("98%08d", sold), id))
	}
	given := activate("with one of three digits left", last)
	s.settle(activate("with that one reserved", ""), operation.Success)
	s.settle(given, operation.NeedsReview)
	s.settle(activate("with that one in review", ""), operation.Success)
	if got := ids.Digits(); got != 3 {
		t.Errorf("with one in review the store begins with ids of %d digits; want 3", got)
	}
	s.settle(given, operation.Failed)
	given = activate("when the activation that had it has failed", last)
	s.settle(given, operation.Success)
	for range 3 {
		s.settle(activate("with all of three digits taken", ""), operation.Success)
	}
	if got := ids.Digits(); got != 4 {
		t.Errorf("with all of three digits taken for good the store begins with ids of %d; want 4", got)
	}
}
