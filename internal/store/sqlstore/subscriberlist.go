package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

// ListSubscribers reads a page of an operator's subscribers. The source decides which table is read
// first, and by which index.
func (db *Store) ListSubscribers(ctx context.Context, q report.SubscriberQuery) ([]report.Subscriber, error) {
	var stmt statement
	source := sourceOf(q)
	subscriberRow(db.dialect, &stmt, source, q)
	source.rows(&stmt, q)
	addFilters(&stmt, source, q)
	stmt.add(` ORDER BY `+source.order+` LIMIT ?`, q.Limit)
	if q.Source != report.FromReview {
		return page(ctx, db, stmt, readSubscriberRow)
	}
	rows, err := db.engine.Read(ctx).Query(stmt.text, stmt.args...)
	return Collect(rows, err, readSubscriberRow)
}

// listSource is how a store reads a report.Source.
type listSource struct {
	table string // with the alias t, or subscribers s
	term  string // the column that is the row's Term
	order string
	rows  func(stmt *statement, q report.SubscriberQuery) // adds WHERE with the range of rows
}

func sourceOf(q report.SubscriberQuery) listSource {
	switch q.Source {
	case report.FromTerms:
		return listSource{`subscriber_terms t`, `t.term`, `t.term, t.subscriber_id`, termRows}
	case report.FromNames:
		return listSource{`subscriber_terms t`, `t.term`, sorted(q, `t.term`, `t.subscriber_id`), nameRows}
	case report.FromArea, report.FromPlan:
		return listSource{`subscriber_lists t`, `t.name`, sorted(q, `t.name`, `t.subscriber_id`), listRows}
	case report.FromAreaByExpiry, report.FromPlanByExpiry:
		// Without + 0 the planner would begin with all subscribers in that order.
		return listSource{`subscriber_lists t`, `''`, sorted(q, `s.expires_at + 0`, `s.id`), sortedRows}
	case report.FromReview:
		// operator_id + 0 keeps the planner from the index by operator.
		return listSource{`operations t`, `''`, `coalesce(s.expires_at, 0), s.id`, func(stmt *statement, q report.SubscriberQuery) {
			stmt.add(` WHERE t.status = 'needs_review' AND t.operator_id + 0 = ? AND (coalesce(s.expires_at, 0), s.id) > (?, ?)`,
				q.OperatorID, q.After.Number, q.After.ID)
		}}
	case report.FromPending:
		// By s.id alone PostgreSQL would begin with the primary key.
		return listSource{`subscribers s`, `''`, `s.expires_at, s.id`, func(stmt *statement, q report.SubscriberQuery) {
			stmt.add(` WHERE s.operator_id = ? AND s.expires_at IS NULL AND s.id > ?`, q.OperatorID, q.After.ID)
		}}
	}
	return listSource{`subscribers s`, `''`, sorted(q, `s.expires_at`, `s.id`), expiryRows}
}

func readSubscriberRow(row Row) (report.Subscriber, error) {
	var s report.Subscriber
	var expires sql.NullInt64
	var price int64
	err := row.Scan(&s.Term, &s.ID, &s.Mobile, &s.Name, &s.Area, &s.Address, &s.BoxNumber, &expires, &s.PlanID, &s.PlanName, &price, &s.Open, &s.OpenTransaction)
	s.Expires, s.Price = Time(expires), money.Paise(price)
	return s, err
}

// subscriberRow selects what is shown of a subscriber s, with the plan that began last
// and the open operation.
func subscriberRow(d *Dialect, stmt *statement, source listSource, q report.SubscriberQuery) {
	from := source.table
	if from != `subscribers s` {
		from += d.JoinSubscribers
	}
	stmt.add(`SELECT ` + source.term + `, s.id, s.mobile, s.name, s.area, s.address, s.box_number, s.expires_at, coalesce(p.id, ''), coalesce(p.name, ''), coalesce(p.price_paise, 0),
		       coalesce(o.status, ''), coalesce(o.id, '') FROM ` + from)
	stmt.add(d.CurrentPlan, q.Now.UnixMilli())
}

// addFilters adds what a subscriber s must have that the source does not have.
func addFilters(stmt *statement, source listSource, q report.SubscriberQuery) {
	terms := q.Terms
	if q.Source == report.FromTerms {
		terms = terms[1:]
	}
	if source.table != `subscribers s` {
		stmt.add(` AND s.operator_id + 0 = ?`, q.OperatorID)
	}
	addTerms(stmt, `s.id`, terms)
	addStatus(stmt, q)
	if q.Area != "" && q.Source != report.FromArea {
		stmt.add(` AND lower(s.area COLLATE "C") = ?`, q.Area)
	}
	if q.Plan != "" {
		// With p.id = ? the planner could begin with all who have had the plan.
		stmt.add(` AND coalesce(p.id, '') = ?`, q.Plan)
	}
}

// addTerms adds the terms that a subscriber must have, whose id is in a column. PostgreSQL would turn
// EXISTS into a join and begin with all subscribers that have the term; a subquery with
// LIMIT is run only for the subscribers found so far.
func addTerms(stmt *statement, idColumn string, terms []string) {
	for _, term := range terms {
		stmt.add(` AND (`)
		hasTerm(stmt, idColumn, term)
		if backwards, is := report.LastDigits(term); is {
			stmt.add(` OR `)
			hasTerm(stmt, idColumn, backwards)
		}
		stmt.add(`)`)
	}
}

func hasTerm(stmt *statement, idColumn, prefix string) {
	stmt.add(`(SELECT true FROM subscriber_terms e WHERE e.subscriber_id = `+idColumn+` AND e.kind = 'word' AND e.term >= ? AND e.term < ? LIMIT 1) IS NOT NULL`,
		prefix, report.AfterPrefix(prefix))
}

// addStatus adds the status that a subscriber s must have.
func addStatus(stmt *statement, q report.SubscriberQuery) {
	if q.Source == report.FromExpiry {
		return // it has the range
	}
	switch q.Status {
	case report.Active:
		stmt.add(` AND s.expires_at > ?`, q.Now.UnixMilli())
	case report.Expiring:
		stmt.add(` AND s.expires_at > ? AND s.expires_at <= ?`, q.Now.UnixMilli(), q.Until.UnixMilli())
	case report.Expired:
		stmt.add(` AND s.expires_at <= ?`, q.Now.UnixMilli())
	case report.FallingDue:
		stmt.add(` AND s.expires_at > ? AND s.expires_at <= ?`, q.From.UnixMilli(), q.Until.UnixMilli())
	}
}

// termRows begins with the terms that have the value as a prefix. A subscriber with several of them
// is found by the first only, and by digits at the end only if none begins with them.
func termRows(stmt *statement, q report.SubscriberQuery) {
	termRange(stmt, q)
	stmt.add(`
		   AND (SELECT true FROM subscriber_terms e WHERE e.subscriber_id = t.subscriber_id AND e.kind = 'word' AND e.term >= ? AND e.term < t.term LIMIT 1) IS NULL`, q.Value)
	if q.Value != q.Terms[0] {
		stmt.add(`
		   AND (SELECT true FROM subscriber_terms e WHERE e.subscriber_id = t.subscriber_id AND e.kind = 'word' AND e.term >= ? AND e.term < ? LIMIT 1) IS NULL`,
			q.Terms[0], report.AfterPrefix(q.Terms[0]))
	}
}

func termRange(stmt *statement, q report.SubscriberQuery) {
	if q.After.Text < q.Value {
		q.After = report.Cursor{Text: q.Value}
	}
	stmt.add(` WHERE t.operator_id = ? AND t.kind = 'word' AND (t.term, t.subscriber_id) > (?, ?) AND t.term < ?`,
		q.OperatorID, q.After.Text, q.After.ID, report.AfterPrefix(q.Value))
	q.Descending = false // terms are in their own order
	untilLast(stmt, `t.term`, q)
}

func nameRows(stmt *statement, q report.SubscriberQuery) {
	stmt.add(` WHERE t.operator_id = ? AND t.kind = 'name'`, q.OperatorID)
	afterName(stmt, `t.term`, q)
	untilLast(stmt, `t.term`, q)
}

// afterName begins after the query's cursor.
func afterName(stmt *statement, column string, q report.SubscriberQuery) {
	if q.Descending && q.After == (report.Cursor{}) {
		return
	}
	stmt.add(` AND (`+column+`, t.subscriber_id) `+follows(q)+` (?, ?)`, q.After.Text, q.After.ID)
}

// follows is how the rows of a query compare with its cursor.
func follows(q report.SubscriberQuery) string {
	if q.Descending {
		return `<`
	}
	return `>`
}

// sorted is the order by some columns, in the query's direction.
func sorted(q report.SubscriberQuery, columns ...string) string {
	if q.Descending {
		return strings.Join(columns, ` DESC, `) + ` DESC`
	}
	return strings.Join(columns, `, `)
}

// listOf is the list that a source reads.
var listOf = map[report.Source]string{
	report.FromArea: "area", report.FromAreaByExpiry: "area", report.FromPlan: "plan", report.FromPlanByExpiry: "plan",
}

func listRows(stmt *statement, q report.SubscriberQuery) {
	stmt.add(` WHERE t.operator_id = ? AND t.list = ? AND t.value = ?`, q.OperatorID, listOf[q.Source], q.Value)
	afterName(stmt, `t.name`, q)
	untilLast(stmt, `t.name`, q)
}

func untilLast(stmt *statement, column string, q report.SubscriberQuery) {
	if q.Last == (report.Cursor{}) {
		return
	}
	sign := `<=`
	if q.Descending {
		sign = `>=`
	}
	stmt.add(` AND (`+column+`, t.subscriber_id) `+sign+` (?, ?)`, q.Last.Text, q.Last.ID)
}

// sortedRows reads all of a list; the statement sorts it. The status has the bounds of the expiry.
func sortedRows(stmt *statement, q report.SubscriberQuery) {
	stmt.add(` WHERE t.operator_id = ? AND t.list = ? AND t.value = ?`, q.OperatorID, listOf[q.Source], q.Value)
	if q.After != (report.Cursor{}) {
		stmt.add(` AND (s.expires_at, s.id) `+follows(q)+` (?, ?)`, q.After.Number, q.After.ID)
	}
	if q.Status == report.AnyStatus {
		stmt.add(` AND s.expires_at IS NOT NULL`) // those follow from another source
	}
}

// expiryBounds are what a status leaves of all expiries: after from, and until the other, inclusive.
func expiryBounds(q report.SubscriberQuery) (from, until report.Cursor) {
	at := func(t time.Time) report.Cursor {
		return report.Cursor{Number: t.UnixMilli(), ID: report.AfterPrefix("")}
	}
	until = report.Cursor{Number: math.MaxInt64}
	switch q.Status {
	case report.Active:
		from = at(q.Now)
	case report.Expiring:
		from, until = at(q.Now), at(q.Until)
	case report.Expired:
		until = at(q.Now)
	case report.FallingDue:
		from, until = at(q.From), at(q.Until)
	}
	return from, until
}

func compareExpiry(a, b report.Cursor) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.ID, b.ID))
}

// expiryRows reads a range of the index by expiry. The cursor replaces the bound where it is within.
func expiryRows(stmt *statement, q report.SubscriberQuery) {
	from, until := expiryBounds(q)
	last := `<=`
	switch {
	case q.After == (report.Cursor{}):
	case !q.Descending && compareExpiry(q.After, from) > 0:
		from = q.After
	case q.Descending && compareExpiry(q.After, until) < 0:
		until, last = q.After, `<`
	}
	stmt.add(` WHERE s.operator_id = ? AND (s.expires_at, s.id) > (?, ?) AND (s.expires_at, s.id) `+last+` (?, ?)`,
		q.OperatorID, from.Number, from.ID, until.Number, until.ID)
	switch {
	case q.Last == (report.Cursor{}):
	case q.Descending:
		stmt.add(` AND (s.expires_at, s.id) >= (?, ?)`, q.Last.Number, q.Last.ID)
	default:
		stmt.add(` AND (s.expires_at, s.id) <= (?, ?)`, q.Last.Number, q.Last.ID)
	}
}

// SubscriberAtOffset finds a row of a source at an offset, by an index alone.
func (db *Store) SubscriberAtOffset(ctx context.Context, q report.SubscriberQuery, many int) (last report.Cursor, scanned int, more bool, err error) {
	source := sourceOf(q)
	rows := source.rows
	if q.Source == report.FromTerms {
		rows = termRange
	}
	number, text, id := `0`, source.term, `t.subscriber_id`
	if q.Source == report.FromExpiry {
		number, text, id = `s.expires_at`, `''`, `s.id`
	}
	var stmt, count statement
	stmt.add(`SELECT ` + number + `, ` + text + `, ` + id + ` FROM ` + source.table)
	rows(&stmt, q)
	stmt.add(` ORDER BY `+source.order+` LIMIT 1 OFFSET ?`, many)
	cursors, err := page(ctx, db, stmt, func(row Row) (report.Cursor, error) {
		var p report.Cursor
		err := row.Scan(&p.Number, &p.Text, &p.ID)
		return p, err
	})
	if err != nil {
		return last, 0, false, err
	}
	if len(cursors) > 0 {
		return cursors[0], many, true, nil
	}
	count.add(`SELECT count(*) FROM ` + source.table)
	rows(&count, q)
	counts, err := page(ctx, db, count, func(row Row) (n int, err error) { return n, row.Scan(&n) })
	if err != nil || len(counts) == 0 {
		return last, 0, false, err
	}
	return last, counts[0], false, nil
}

// SubscriberAreas lists an operator's areas, each by one search of the index for the next one.
func (db *Store) SubscriberAreas(ctx context.Context, operatorID int64, limit int) ([]string, error) {
	rows, err := db.engine.Read(ctx).Query(`
		WITH RECURSIVE areas (value) AS (
		     SELECT (SELECT value FROM subscriber_lists WHERE operator_id = $1 AND list = 'area' ORDER BY value LIMIT 1)
		      UNION ALL
		     SELECT (SELECT l.value FROM subscriber_lists l WHERE l.operator_id = $1 AND l.list = 'area' AND l.value > areas.value ORDER BY l.value LIMIT 1)
		       FROM areas WHERE areas.value IS NOT NULL)
		SELECT (SELECT s.area FROM subscribers s WHERE s.id = (
		        SELECT l.subscriber_id FROM subscriber_lists l
		         WHERE l.operator_id = $1 AND l.list = 'area' AND l.value = areas.value ORDER BY l.name, l.subscriber_id LIMIT 1))
		  FROM areas WHERE areas.value IS NOT NULL LIMIT $2`, operatorID, limit)
	return Collect(rows, err, func(row Row) (area string, err error) { return area, row.Scan(&area) })
}

// PlanNames lists all plans by name.
func (db *Store) PlanNames(ctx context.Context) ([]report.PlanName, error) {
	rows, err := db.engine.Read(ctx).Query(`SELECT id, name, price_paise FROM plans ORDER BY lower(name COLLATE "C"), id COLLATE "C"`)
	return Collect(rows, err, func(row Row) (p report.PlanName, err error) {
		var price int64
		err = row.Scan(&p.ID, &p.Name, &price)
		p.Price = money.Paise(price)
		return p, err
	})
}

// CountSubscribers counts an operator's subscribers, each once: the ranges of expiries do not
// overlap.
func (db *Store) CountSubscribers(ctx context.Context, operatorID int64, now time.Time) (report.SubscriberCounts, error) {
	var pending, expired, in3, in7, in15, later int
	at := func(days int) int64 { return subscription.LastWithin(days, now).UnixMilli() }
	err := db.engine.Read(ctx).QueryRow(`
		SELECT (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at IS NULL),
		       (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at <= $2),
		       (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at > $2 AND expires_at <= $3),
		       (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at > $3 AND expires_at <= $4),
		       (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at > $4 AND expires_at <= $5),
		       (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at > $5)`,
		operatorID, now.UnixMilli(), at(3), at(7), at(15)).Scan(&pending, &expired, &in3, &in7, &in15, &later)
	return report.SubscriberCounts{
		All: pending + expired + in3 + in7 + in15 + later, Active: in3 + in7 + in15 + later, Expired: expired,
		In3: in3, In7: in3 + in7, In15: in3 + in7 + in15,
	}, err
}

// SubscriberTimeline reads all operations on one of an operator's subscribers.
func (db *Store) SubscriberTimeline(ctx context.Context, operatorID int64, subscriberID string) ([]operation.Operation, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT `+OperationColumns+` FROM operations
		 WHERE subscriber_id = $1 AND operator_id + 0 = $2 ORDER BY created_at DESC, id DESC`, subscriberID, operatorID)
	return Collect(rows, err, ReadOperation)
}
