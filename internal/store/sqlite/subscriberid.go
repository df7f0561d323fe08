package sqlite

import (
	"database/sql"
	"fmt"
)

// freeSubscriberID finds an id that no subscriber has: the preferred one, if it
// is free; else a random one of six digits while there is one, then of seven. It is
// to be asked in a snapshot.
func (db *DB) freeSubscriberID(from querier, preferred string) (string, error) {
	if preferred != "" {
		if id, err := firstFree(from, []string{preferred}); err != nil || id != "" {
			return id, err
		}
	}
	for digits := db.ids.Digits(); ; digits++ {
		if id, err := firstFree(from, db.ids.Guesses(digits)); err != nil || id != "" {
			return id, err
		}
		if id, err := db.searchFreeID(from, digits); err != nil || id != "" {
			return id, err
		}
	}
}

// firstFree is the first of some ids that no subscriber has; empty if there is none.
func firstFree(from querier, ids []string) (string, error) {
	for _, id := range ids {
		var taken bool
		err := from.queryRow(`SELECT EXISTS (SELECT 1 FROM subscribers WHERE id = ?1)`, id).Scan(&taken)
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
// until one is free; empty if there is none.
func (db *DB) searchFreeID(from querier, digits int) (string, error) {
	for stretch := range db.ids.Stretches(digits) {
		first, last := stretch.Bounds()
		var free sql.NullString
		var unsettled bool
		// To count them is much faster than to look for each.
		err := from.queryRow(`
			SELECT CASE WHEN ?2 - ?1 + 1 > (
			         SELECT count(*) FROM subscribers WHERE id BETWEEN ?4 AND ?5 AND length(id) = ?3 AND id NOT GLOB '*[^0-9]*')
			       THEN (
			         WITH RECURSIVE stretch (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM stretch WHERE n < ?2)
			         SELECT printf('%0*d', ?3, n) FROM stretch
			          WHERE NOT EXISTS (SELECT 1 FROM subscribers WHERE id = printf('%0*d', ?3, n)) LIMIT 1)
			       END,
			       EXISTS (SELECT 1 FROM operations
			         WHERE subscriber_id BETWEEN ?4 AND ?5 AND length(subscriber_id) = ?3
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
