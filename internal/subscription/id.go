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

// IDs says which ids a store is to try for a new subscriber, and remembers which of
// them it need not try again. An id is taken for good once the activation that was
// given it has succeeded; if that fails, it is free again, and it may be the last
// one of its length.
type IDs struct {
	mu sync.Mutex
	// digits is the least that a free id can have.
	digits int
	full   map[Stretch]bool
	fulls  map[int]int // by their digits
}

// Stretch is a number of ids of the same length, one after the other.
type Stretch struct{ Digits, First, Last int }

// Bounds are the first and the last id.
func (s Stretch) Bounds() (first, last string) {
	return writtenID(s.First, s.Digits), writtenID(s.Last, s.Digits)
}

// NewIDs starts with ids of so many digits, of which it knows nothing.
func NewIDs(digits int) *IDs {
	return &IDs{digits: digits, full: map[Stretch]bool{}, fulls: map[int]int{}}
}

// Digits is the length that a free id is to be looked for first: all shorter ones
// are taken for good.
func (ids *IDs) Digits() int {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	return ids.digits
}

// Guesses are some ids of a length, at random.
func (ids *IDs) Guesses(digits int) []string {
	guesses := make([]string, idGuesses)
	for i := range guesses {
		guesses[i] = writtenID(below(count(digits)), digits)
	}
	return guesses
}

// Stretches are all ids of a length but those that are taken for good, from a
// random place on and round to it.
func (ids *IDs) Stretches(digits int) iter.Seq[Stretch] {
	return func(yield func(Stretch) bool) {
		first := below(stretches(digits))
		for n := range stretches(digits) {
			s := stretch(digits, (first+n)%stretches(digits))
			if !ids.isFull(s) && !yield(s) {
				return
			}
		}
	}
}

// TakenForGood says that no id of a stretch is free, nor held by an activation that
// may still fail, both seen in the same moment. Nobody else can free one.
func (ids *IDs) TakenForGood(s Stretch) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if ids.full[s] {
		return
	}
	ids.full[s] = true
	ids.fulls[s.Digits]++
	for ids.fulls[ids.digits] == stretches(ids.digits) {
		ids.digits++
	}
}

func (ids *IDs) isFull(s Stretch) bool {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	return ids.full[s]
}

func count(digits int) int {
	n := 1
	for range digits {
		n *= 10
	}
	return n
}

func stretches(digits int) int { return max(1, count(digits)/idStretch) }

func stretch(digits, n int) Stretch {
	size := min(idStretch, count(digits))
	return Stretch{Digits: digits, First: n * size, Last: (n+1)*size - 1}
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
