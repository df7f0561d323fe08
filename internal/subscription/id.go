package subscription

import (
	"crypto/rand"
	"fmt"
	"iter"
	"math/big"
	"sync"
)

const (
	// IDDigits is how many digits an assigned subscriber id has while they last.
	IDDigits = 6
	// idGuesses is how often an id is guessed before all of that length are looked
	// through: with half of them taken, one in a million needs more.
	idGuesses = 20
	// idStretch is how many ids are looked at together.
	idStretch = 1000
)

// IDs finds ids for new subscribers, and remembers which it need not look at again.
// An id is taken for good once the activation that was given it has succeeded; if
// that fails, it is free again, and it may be the last one of its length.
type IDs struct {
	mu sync.Mutex
	// digits is the least that a free id can have.
	digits int
	full   map[IDRange]bool
	fulls  map[int]int // by their digits
}

// IDRecords are who has which id.
type IDRecords interface {
	IsTaken(id string) (bool, error)
	// FreeIn is an id of a stretch that nobody has, empty if there is none, and
	// whether any is held by an activation that may still fail, both seen in the
	// same moment.
	FreeIn(s IDRange) (id string, unsettled bool, err error)
}

// IDRange is a number of ids of the same length, one after the other.
type IDRange struct{ Digits, First, Last int }

// Bounds are the first and the last id.
func (s IDRange) Bounds() (first, last string) {
	return writtenID(s.First, s.Digits), writtenID(s.Last, s.Digits)
}

// NewIDs begins with ids of so many digits, of which it knows nothing.
func NewIDs(digits int) *IDs {
	return &IDs{digits: digits, full: map[IDRange]bool{}, fulls: map[int]int{}}
}

// Digits is the length that a free id is looked for first: all shorter ones are
// taken for good.
func (ids *IDs) Digits() int {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	return ids.digits
}

// Candidates are the ids that a new subscriber may get, in this order: the preferred
// one, if there is one, and random ones of six digits while they last.
func (ids *IDs) Candidates(preferred string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if preferred != "" && !yield(preferred) {
			return
		}
		guesses(ids.Digits())(yield)
	}
}

// Search is an id for when all candidates are taken: any of six digits that is
// free, or else a random one of seven, and so on.
func (ids *IDs) Search(records IDRecords) (string, error) {
	for digits := ids.Digits(); ; digits++ {
		if id, err := ids.search(records, digits); err != nil || id != "" {
			return id, err
		}
		if id, err := FirstFree(records, guesses(digits+1)); err != nil || id != "" {
			return id, err
		}
	}
}

// FirstFree is the first of some ids that nobody has; empty if there is none.
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

// search looks at every id of a length that is not known to be taken for good, from
// a random place on and round to it, until one is free.
func (ids *IDs) search(records IDRecords, digits int) (string, error) {
	all := stretches(digits)
	begin := below(all)
	for n := range all {
		s := stretch(digits, (begin+n)%all)
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
		// Nobody can free an id but an activation that fails.
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
		return // somebody else has seen it, too
	}
	ids.full[s] = true
	ids.fulls[s.Digits]++
	for ids.fulls[ids.digits] == stretches(ids.digits) {
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

func stretches(digits int) int { return max(1, count(digits)/idStretch) }

func stretch(digits, n int) IDRange {
	size := min(idStretch, count(digits))
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
