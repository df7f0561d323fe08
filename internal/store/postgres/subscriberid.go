package postgres

import (
	"database/sql"
	"fmt"
)

// candidateIDs are the ids that a new subscriber may get, in this order: the
// preferred one, if there is one, and random ones of six digits while they last.
func (db *DB) candidateIDs(preferred string) []string {
	guesses := db.ids.Guesses(db.ids.Digits())
	if preferred == "" {
		return guesses
	}
	return append([]string{preferred}, guesses...)
}

// unguessedID finds an id when guessing one of six digits did not: any that is free
// among those, or else a random one of seven, and so on.
func (db *DB) unguessedID(from querier) (string, error) {
	for digits := db.ids.Digits(); ; digits++ {
		if id, err := db.searchFreeID(from, digits); err != nil || id != "" {
			return id, err
		}
		if id, err := firstFree(from, db.ids.Guesses(digits+1)); err != nil || id != "" {
			return id, err
		}
	}
}

// firstFree is the first of some ids that no subscriber has; empty if there is none.
func firstFree(from querier, ids []string) (string, error) {
	for _, id := range ids {
		var taken bool
		err := from.queryRow(`SELECT EXISTS (SELECT 1 FROM subscribers WHERE id = $1)`, id).Scan(&taken)
		if err != nil {
			return "", fmt.Errorf("look for a free subscriber id: %w", err)
		}
		if !taken {
			return id, nil
		}
	}
	return "", nil
}

// searchFreeID looks at every id of a length that is not known to be taken for good,
// until one is free; empty if there is none. A statement sees one moment: none free
// and none unsettled have to be true at the same time.
func (db *DB) searchFreeID(from querier, digits int) (string, error) {
	for stretch := range db.ids.Stretches(digits) {
		first, last := stretch.Bounds()
		var free sql.NullString
		var unsettled bool
		// To count them is much faster than to look for each. The subquery with its
		// LIMIT keeps the server from reading all subscribers to compare them with a
		// thousand.
		err := from.queryRow(`
			SELECT CASE WHEN $2::bigint - $1::bigint + 1 > (
			         SELECT count(*) FROM subscribers WHERE id BETWEEN $4 AND $5 AND length(id) = $3::int AND id ~ '^[0-9]+$')
			       THEN (
			         SELECT c.id FROM (SELECT lpad(n::text, $3::int, '0') COLLATE "C" AS id FROM generate_series($1::bigint, $2::bigint) AS n) AS c
			          WHERE (SELECT 1 FROM subscribers s WHERE s.id = c.id LIMIT 1) IS NULL LIMIT 1)
			       END,
			       EXISTS (SELECT 1 FROM operations
			         WHERE subscriber_id BETWEEN $4 AND $5 AND length(subscriber_id) = $3::int
			           AND status IN ('processing', 'needs_review') AND kind = 'activate')`,
			stretch.First, stretch.Last, digits, first, last).Scan(&free, &unsettled)
		if err != nil {
			return "", fmt.Errorf("search for a free subscriber id: %w", err)
		}
		if free.Valid {
			return free.String, nil
		}
		if !unsettled {
			db.ids.TakenForGood(stretch)
		}
	}
	return "", nil
}
