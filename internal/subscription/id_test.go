package subscription

import (
	"slices"
	"testing"
)

func TestGuessedIDsHaveTheDigitsAskedFor(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		for _, id := range NewIDs(6).Guesses(2) {
			if len(id) != 2 || id < "00" || id > "99" {
				t.Fatalf("guessed %q; want two digits", id)
			}
			seen[id] = true
		}
	}
	// All hundred of them, in a thousand guesses, but for one run in 200.
	if len(seen) < 95 {
		t.Errorf("a thousand guesses of two digits are only %d ids", len(seen))
	}
}

func TestStretchesAreAllIDsOfALengthEachOnce(t *testing.T) {
	begins := map[int]bool{}
	for range 100 {
		var firsts []int
		for s := range NewIDs(4).Stretches(4) {
			if s.Digits != 4 || s.Last != s.First+999 {
				t.Fatalf("a stretch is %+v; want a thousand of four digits", s)
			}
			firsts = append(firsts, s.First)
		}
		begins[firsts[0]] = true
		slices.Sort(firsts)
		if want := []int{0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000}; !slices.Equal(firsts, want) {
			t.Fatalf("the stretches begin at %v; want %v", firsts, want)
		}
	}
	if len(begins) < 2 {
		t.Error("the first stretch is always the same one")
	}
	if first, last := (Stretch{Digits: 6, First: 4000, Last: 4999}).Bounds(); first != "004000" || last != "004999" {
		t.Errorf("the bounds are %s and %s; want 004000 and 004999", first, last)
	}
}

func TestWhatIsTakenForGoodIsNotLookedAtAgain(t *testing.T) {
	ids := NewIDs(4)
	all := slices.Collect(ids.Stretches(4))
	for i, s := range all {
		if got := ids.Digits(); got != 4 {
			t.Fatalf("with %d of %d stretches taken ids are looked for among those of %d digits; want 4", i, len(all), got)
		}
		ids.TakenForGood(s)
		ids.TakenForGood(s) // somebody else has seen it, too
		left := slices.Collect(ids.Stretches(4))
		if slices.Contains(left, s) || len(left) != len(all)-i-1 {
			t.Fatalf("after %+v as the %d. of %d these are left: %v", s, i+1, len(all), left)
		}
	}
	if got := ids.Digits(); got != 5 {
		t.Errorf("with all taken ids are looked for among those of %d digits; want 5", got)
	}
}

func TestALongerLengthCanBeTakenBeforeAShorterOne(t *testing.T) {
	ids := NewIDs(3)
	for s := range ids.Stretches(4) {
		ids.TakenForGood(s)
	}
	if got := ids.Digits(); got != 3 {
		t.Errorf("ids are looked for among those of %d digits; want 3", got)
	}
	for s := range ids.Stretches(3) {
		ids.TakenForGood(s)
	}
	if got := ids.Digits(); got != 5 {
		t.Errorf("ids are looked for among those of %d digits; want 5", got)
	}
}
