package subscription

import (
	"crypto/rand"
	"fmt"
	"iter"
	"math/big"
	"sync"
)

const (
	// IDDigits is the length of assigned subscriber ids until all of that length are taken.
	IDDigits = 6
	// idGuesses is how many random ids are tried before a search: with half of them taken,
	// one activation in a million needs the search.
	idGuesses = 20
	// idRangeSize is how many ids one query of the search covers.
	idRangeSize = 1000
)

// IDs finds free ids for new subscribers, and remembers the ranges that are taken for good. An id is
// taken for good when its activation has succeeded; if that fails, the id is free again.
type IDs struct {
	mu sync.Mutex
	// digits is the minimum length of a free id.
	digits int
	full   map[IDRange]bool
	fulls  map[int]int // number of full ranges, by length
}

// IDRecords looks up which ids are taken.
type IDRecords interface {
	IsTaken(id string) (bool, error)
	// FreeIn returns a free id of a range, empty if there is none, and whether any is taken by
	// an activation that may still fail. Both are read at the same moment.
	FreeIn(s IDRange) (id string, unsettled bool, err error)
}

// IDRange is a range of ids of the same length.
type IDRange struct{ Digits, First, Last int }

// Bounds returns the first and the last id.
func (s IDRange) Bounds() (first, last string) {
	return writtenID(s.First, s.Digits), writtenID(s.Last, s.Digits)
}

// NewIDs returns an IDs that begins with ids of the given length.
func NewIDs(digits int) *IDs {
	return &IDs{digits: digits, full: map[IDRange]bool{}, fulls: map[int]int{}}
}

// Digits is the shortest length that may have a free id.
func (ids *IDs) Digits() int {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	return ids.digits
}

// Candidates returns ids to try in this order: the preferred one, if any, and random ones.
func (ids *IDs) Candidates(preferred string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if preferred != "" && !yield(preferred) {
			return
		}
		guesses(ids.Digits())(yield)
	}
}

// Search finds an id if all candidates are taken: any free one of the shortest length, or else a
// random one of the next length, and so on.
func (ids *IDs) Search(records IDRecords) (string, error) {
	for digits := ids.Digits(); ; digits++ {
		if id, err := ids.searchLength(records, digits); err != nil || id != "" {
			return id, err
		}
		if id, err := FirstFree(records, guesses(digits+1)); err != nil || id != "" {
			return id, err
		}
	}
}

// FirstFree returns the first free id; empty if there is none.
func FirstFree(records IDRecords, ids iter.Seq[string]) (string, error) {
	for id := range ids {
		if taken, err := records.IsTaken(id); err != nil {
			return "", fmt.Errorf("look for a free subscriber id: %w", err)
		} else if !taken {
			return id, nil
		}
	}
	return "", nil
}

// searchLength searches all ids of a length that are not known to be taken for good, beginning at a
// random range.
func (ids *IDs) searchLength(records IDRecords, digits int) (string, error) {
	all := rangeCount(digits)
	begin := below(all)
	for n := range all {
		s := idRange(digits, (begin+n)%all)
		if ids.isFull(s) {
			continue
		}
		id, unsettled, err := records.FreeIn(s)
		if err != nil {
			return "", fmt.Errorf("search for a free subscriber id: %w", err)
		}
		if id != "" {
			return id, nil
		}
		// Only a failed activation frees an id.
		if !unsettled {
			ids.takenForGood(s)
		}
	}
	return "", nil
}

func (ids *IDs) takenForGood(s IDRange) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if ids.full[s] {
		return // recorded by another search
	}
	ids.full[s] = true
	ids.fulls[s.Digits]++
	for ids.fulls[ids.digits] == rangeCount(ids.digits) {
		ids.digits++
	}
}

func (ids *IDs) isFull(s IDRange) bool {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	return ids.full[s]
}

func guesses(digits int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for range idGuesses {
			if !yield(writtenID(below(count(digits)), digits)) {
				return
			}
		}
	}
}

func count(digits int) int {
	n := 1
	for range digits {
		n *= 10
	}
	return n
}

func rangeCount(digits int) int { return max(1, count(digits)/idRangeSize) }

func idRange(digits, n int) IDRange {
	size := min(idRangeSize, count(digits))
	return IDRange{Digits: digits, First: n * size, Last: (n+1)*size - 1}
}

func writtenID(n, digits int) string { return fmt.Sprintf("%0*d", digits, n) }

func below(bound int) int {
	// crypto/rand does not fail; it ends the program instead.
	n, err := rand.Int(rand.Reader, big.NewInt(int64(bound)))
	if err != nil {
		panic(err)
	}
	return int(n.Int64())
}
