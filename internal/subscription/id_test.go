package subscription

import (
	"errors"
	"slices"
	"testing"
)

// book has every id but those of five digits and a few others.
type book struct {
	free, unsettled map[string]bool
	looked          []IDRange
	broken          error
}

func (b *book) isFree(id string) bool { return len(id) == 5 || b.free[id] }

func (b *book) IsTaken(id string) (bool, error) { return !b.isFree(id), b.broken }

func (b *book) FreeIn(s IDRange) (free string, unsettled bool, err error) {
	b.looked = append(b.looked, s)
	for n := s.First; n <= s.Last; n++ {
		if id := writtenID(n, s.Digits); b.isFree(id) {
			free = id
		} else if b.unsettled[id] {
			unsettled = true
		}
	}
	return free, unsettled, b.broken
}

func TestIDs_CandidatesPreferredThenRandom(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		candidates := slices.Collect(NewIDs(2).Candidates("ASHA"))
		if candidates[0] != "ASHA" {
			t.Fatalf("the first is %q; want the preferred one", candidates[0])
		}
		for _, id := range candidates[1:] {
			if len(id) != 2 || id < "00" || id > "99" {
				t.Fatalf("guessed %q; want two digits", id)
			}
			seen[id] = true
		}
	}
	// A thousand guesses miss one in a hundred ids in one run of two hundred.
	if len(seen) < 95 {
		t.Errorf("a thousand guesses of two digits are only %d ids", len(seen))
	}
	if got := len(slices.Collect(NewIDs(2).Candidates(""))); got != idGuesses {
		t.Errorf("%d candidates where none is preferred; want %d", got, idGuesses)
	}
}

func TestIDs_SearchFindsFreeID(t *testing.T) {
	begins := map[IDRange]bool{}
	for _, last := range []string{"0000", "0999", "1000", "4711", "9999"} {
		for range 10 {
			b := &book{free: map[string]bool{last: true}}
			if id, err := NewIDs(4).Search(b); err != nil || id != last {
				t.Fatalf("found %q, %v; want %s", id, err, last)
			}
			begins[b.looked[0]] = true
		}
	}
	if len(begins) < 2 {
		t.Error("every search begins at the same place")
	}
}

func TestIDs_FullRangesAreSkipped(t *testing.T) {
	ids, b := NewIDs(4), &book{}
	for search, want := range []int{10, 0} {
		b.looked = nil
		var id string
		var err error
		if search == 0 {
			id, err = ids.Search(b)
		} else {
			id, err = FirstFree(b, ids.Candidates(""))
		}
		if err != nil || len(id) != 5 || len(b.looked) != want {
			t.Fatalf("found %q, %v, after a look at %v; want five digits after %d looks", id, err, b.looked, want)
		}
	}
	if got := ids.Digits(); got != 5 {
		t.Errorf("ids are looked for first among those of %d digits; want 5", got)
	}
}

func TestIDs_UnsettledRangesAreSearchedAgain(t *testing.T) {
	ids, b := NewIDs(4), &book{free: map[string]bool{}, unsettled: map[string]bool{"4711": true}}
	for _, want := range []int{10, 1, 1} {
		b.looked = nil
		if id, err := ids.Search(b); err != nil || len(id) != 5 || len(b.looked) != want {
			t.Fatalf("found %q, %v, after a look at %v; want five digits after %d looks", id, err, b.looked, want)
		}
	}
	b.free["4711"] = true
	if id, err := ids.Search(b); err != nil || id != "4711" {
		t.Errorf("found %q, %v; want 4711, which is free again", id, err)
	}
	delete(b.free, "4711")
	delete(b.unsettled, "4711")
	if id, err := ids.Search(b); err != nil || len(id) != 5 || ids.Digits() != 5 {
		t.Errorf("found %q, %v, and looks first among ids of %d digits; want five", id, err, ids.Digits())
	}
}

func TestIDs_LongerLengthFullFirst(t *testing.T) {
	ids, b := NewIDs(3), &book{free: map[string]bool{}, unsettled: map[string]bool{"471": true}}
	if id, err := ids.Search(b); err != nil || len(id) != 5 || ids.Digits() != 3 {
		t.Fatalf("found %q, %v, and looks first among ids of %d digits; want five, and three", id, err, ids.Digits())
	}
	delete(b.unsettled, "471")
	if id, err := ids.Search(b); err != nil || len(id) != 5 || ids.Digits() != 5 {
		t.Errorf("found %q, %v, and looks first among ids of %d digits; want five", id, err, ids.Digits())
	}
}

func TestIDs_RecordErrors(t *testing.T) {
	broken := errors.New("the disk is gone")
	ids, b := NewIDs(4), &book{broken: broken}
	if id, err := ids.Search(b); !errors.Is(err, broken) || id != "" {
		t.Errorf("found %q, %v; want %v", id, err, broken)
	}
	if id, err := FirstFree(b, ids.Candidates("4711")); !errors.Is(err, broken) || id != "" {
		t.Errorf("found %q, %v; want %v", id, err, broken)
	}
	if ids.isFull(b.looked[0]) {
		t.Error("what could not be read is remembered as taken")
	}
}
