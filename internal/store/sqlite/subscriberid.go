package sqlite

import (
	"database/sql"

	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// freeSubscriberID finds an unused id. from must be a snapshot.
func (db *DB) freeSubscriberID(from sqlstore.Querier, preferred string) (string, error) {
	if id, err := subscription.FirstFree(idRecords{from}, db.ids.Candidates(preferred)); err != nil || id != "" {
		return id, err
	}
	return db.ids.Search(idRecords{from})
}

// idRecords reads which subscriber ids are taken.
type idRecords struct{ sqlstore.Querier }

func (r idRecords) IsTaken(id string) (taken bool, err error) {
	err = r.QueryRow(`SELECT EXISTS (SELECT 1 FROM subscribers WHERE id = ?1)`, id).Scan(&taken)
	return taken, err
}

// FreeIn counts before it searches, which is much faster if none is free.
func (r idRecords) FreeIn(s subscription.IDRange) (id string, unsettled bool, err error) {
	first, last := s.Bounds()
	var free sql.NullString
	err = r.QueryRow(`
		SELECT CASE WHEN ?2 - ?1 + 1 > (
		         SELECT count(*) FROM subscribers WHERE id BETWEEN ?4 AND ?5 AND length(id) = ?3 AND id NOT GLOB '*[^0-9]*')
		       THEN (
		         WITH RECURSIVE numbers (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
		         SELECT printf('%0*d', ?3, n) FROM numbers
		          WHERE NOT EXISTS (SELECT 1 FROM subscribers WHERE id = printf('%0*d', ?3, n)) LIMIT 1)
		       END,
		       EXISTS (SELECT 1 FROM operations
		         WHERE subscriber_id BETWEEN ?4 AND ?5 AND length(subscriber_id) = ?3
		           AND status IN ('processing', 'needs_review') AND kind = 'activate')`,
		s.First, s.Last, s.Digits, first, last).Scan(&free, &unsettled)
	return free.String, unsettled, err
}
