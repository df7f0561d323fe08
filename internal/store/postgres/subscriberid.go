package postgres

import (
	"crypto/rand"
	"fmt"
	"math/big"

	"github.com/coaxhq/coax/internal/subscription"
)

const (
	idDigits = 6
	// idGuesses is how often a free id is looked for at random before a stretch
	// of ids is searched: with half of them taken, one in a million needs more.
	idGuesses = 20
	// idStretches is how many stretches are searched, each of so many ids: where
	// none has a gap, as good as all are taken. A search of everything would find
	// the very last one, and take longer with every subscriber.
	idStretches = 4
	idStretch   = 1000
)

// candidateIDs are the ids that a new subscriber may get, in this order: the
// preferred one, if there is one, and random ones of six digits.
func candidateIDs(preferred string) []string {
	var ids []string
	if preferred != "" {
		ids = append(ids, preferred)
	}
	for range idGuesses {
		ids = append(ids, randomDigits(idDigits))
	}
	return ids
}

// searchFreeID finds an id when guessing did not: in a gap among those of six
// digits, or else a random one of seven, and so on.
func searchFreeID(from querier) (string, error) {
	for digits := idDigits; ; digits++ {
		for range idStretches {
			if id, err := freeInStretch(from, randomDigits(digits)); err != nil || id != "" {
				return id, err
			}
		}
		for range idGuesses {
			id := randomDigits(digits + 1)
			if taken, err := isTaken(from, id); err != nil || !taken {
				return id, err
			}
		}
	}
}

func isTaken(from querier, id string) (taken bool, err error) {
	if err = from.queryRow(`SELECT EXISTS (SELECT 1 FROM subscribers WHERE id = $1)`, id).Scan(&taken); err != nil {
		err = fmt.Errorf("look for a free subscriber id: %w", err)
	}
	return taken, err
}

// freeInStretch searches a stretch of ids for a gap; empty if there is none.
func freeInStretch(from querier, start string) (string, error) {
	rows, err := from.query(`SELECT id FROM subscribers WHERE id >= $1 ORDER BY id LIMIT $2`, start, idStretch)
	taken, err := collect(rows, err, func(row scanner) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	})
	if err != nil {
		return "", fmt.Errorf("search for a free subscriber id: %w", err)
	}
	return subscription.FreeID(start, taken, len(taken) == idStretch), nil
}

func randomDigits(digits int) string {
	bound := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	// crypto/rand does not fail; it ends the program instead.
	n, err := rand.Int(rand.Reader, bound)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%0*d", digits, n)
}
