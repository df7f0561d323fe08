package postgres

import (
	"database/sql"

	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// idRecords reads which subscriber ids are taken.
type idRecords struct{ sqlstore.Querier }

func (r idRecords) IsTaken(id string) (taken bool, err error) {
	err = r.QueryRow(`SELECT EXISTS (SELECT 1 FROM subscribers WHERE id = $1)`, id).Scan(&taken)
	return taken, err
}

// FreeIn is one statement, and so one snapshot. It counts before it searches, which is
// much faster if none is free. The subquery with its LIMIT keeps the server from joining
// the ids of the range with all subscribers.
func (r idRecords) FreeIn(s subscription.IDRange) (id string, unsettled bool, err error) {
	first, last := s.Bounds()
	var free sql.NullString
	err = r.QueryRow(`
		SELECT CASE WHEN $2::bigint - $1::bigint + 1 > (
		         SELECT count(*) FROM subscribers WHERE id BETWEEN $4 AND $5 AND length(id) = $3::int AND id ~ '^[0-9]+$')
		       THEN (
		         SELECT c.id FROM (SELECT lpad(n::text, $3::int, '0') COLLATE "C" AS id FROM generate_series($1::bigint, $2::bigint) AS n) AS c
		          WHERE (SELECT 1 FROM subscribers s WHERE s.id = c.id LIMIT 1) IS NULL LIMIT 1)
		       END,
		       EXISTS (SELECT 1 FROM operations
		         WHERE subscriber_id BETWEEN $4 AND $5 AND length(subscriber_id) = $3::int
		           AND status IN ('processing', 'needs_review') AND kind = 'activate')`,
		s.First, s.Last, s.Digits, first, last).Scan(&free, &unsettled)
	return free.String, unsettled, err
}
