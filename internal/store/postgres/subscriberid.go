package postgres

import (
	"crypto/rand"
	"fmt"
	"math/big"
)

const (
	idDigits = 6
	// idGuesses is how often a free id is looked for at random before the
	// rest of the space is searched: with half of it taken, one in a million
	// needs more.
	idGuesses = 20
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

// searchFreeID finds an id when guessing did not: the first gap among those of six
// digits, or else a random one of seven, and so on. It is slow, and comes last.
func searchFreeID(from querier) (string, error) {
	for digits := idDigits; ; digits++ {
		if id, err := firstFree(from, digits); err != nil || id != "" {
			return id, err
		}
		for range idGuesses {
			id := randomDigits(digits + 1)
			var taken bool
			if err := from.queryRow(`SELECT EXISTS (SELECT 1 FROM subscribers WHERE id = $1)`, id).Scan(&taken); err != nil {
				return "", fmt.Errorf("look for a free subscriber id: %w", err)
			}
			if !taken {
				return id, nil
			}
		}
	}
}

// firstFree searches for a gap: an id whose successor is not there.
func firstFree(from querier, digits int) (string, error) {
	var id string
	err := from.queryRow(`
		SELECT coalesce(min(candidate), '') FROM (
		       SELECT lpad('0', $1, '0') COLLATE "C" AS candidate
		        UNION ALL
		       SELECT lpad((id::bigint + 1)::text, $1, '0') COLLATE "C"
		         FROM subscribers WHERE length(id) = $1 AND id ~ '^[0-9]+$' AND id <> repeat('9', $1)) AS c
		 WHERE NOT EXISTS (SELECT 1 FROM subscribers s WHERE s.id = c.candidate)`, digits).Scan(&id)
	if err != nil {
		return "", fmt.Errorf("search for a free subscriber id: %w", err)
	}
	return id, nil
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
