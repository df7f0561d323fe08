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

// freeSubscriberID finds an id that no subscriber has: the preferred one, if it
// is free; else a random one of six digits while there is one, then of seven.
func freeSubscriberID(from querier, preferred string) (string, error) {
	taken := func(id string) (bool, error) {
		var is bool
		err := from.queryRow(`SELECT EXISTS (SELECT 1 FROM subscribers WHERE id = $1)`, id).Scan(&is)
		if err != nil {
			return false, fmt.Errorf("look for a free subscriber id: %w", err)
		}
		return is, nil
	}
	if preferred != "" {
		if is, err := taken(preferred); err != nil || !is {
			return preferred, err
		}
	}
	for digits := idDigits; ; digits++ {
		for range idGuesses {
			id := randomDigits(digits)
			if is, err := taken(id); err != nil || !is {
				return id, err
			}
		}
		if id, err := firstFree(from, digits); err != nil || id != "" {
			return id, err
		}
	}
}

// firstFree searches for a gap: an id whose successor is not there. It is slow,
// and comes last.
func firstFree(from querier, digits int) (string, error) {
	var id string
	err := from.queryRow(`
		SELECT coalesce(min(candidate), '') FROM (
		       SELECT lpad('0', $1, '0') COLLATE "C" AS candidate
		        UNION ALL
		       SELECT lpad((id::bigint + 1)::text, $1, '0') COLLATE "C" FROM subscribers WHERE length(id) = $1 AND id ~ '^[0-9]+$' AND id <> repeat('9', $1)) AS c
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
