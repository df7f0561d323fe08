package operation

import "testing"

// The contract's table of transitions, row by row.
func TestOnlyTheContractsTransitionsExist(t *testing.T) {
	allowed := map[[2]State]bool{
		{Processing, Success}:     true,
		{Processing, Failed}:      true,
		{Processing, NeedsReview}: true,
		{NeedsReview, Success}:    true,
		{NeedsReview, Failed}:     true,
	}
	states := []State{Processing, Success, Failed, NeedsReview}
	for _, from := range states {
		for _, to := range states {
			if got, want := from.CanBecome(to), allowed[[2]State{from, to}]; got != want {
				t.Errorf("%s → %s: %v; want %v", from, to, got, want)
			}
		}
	}
}

func TestMoneyIsHeldWhileAnOperationIsOpen(t *testing.T) {
	for state, want := range map[State]bool{Processing: true, NeedsReview: true, Success: false, Failed: false} {
		if got := state.Open(); got != want {
			t.Errorf("%s open: %v; want %v", state, got, want)
		}
	}
}
