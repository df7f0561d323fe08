package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
)

// ListSubscribers reads a page of an operator's subscribers. The filter and the order decide
// which table is read first.
func (db *Store) ListSubscribers(ctx context.Context, q report.SubscriberQuery) ([]report.Subscriber, error) {
	var stmt statement
	switch {
	case q.Status == report.InReview:
		reviewedSubscribers(db.dialect, &stmt, q)
	case len(q.Terms) > 0:
		searchedSubscribers(db.dialect, &stmt, q)
	case q.Order == report.ByName:
		namedSubscribers(db.dialect, &stmt, q)
	default:
		expiringSubscribers(db.dialect, &stmt, q)
	}
	stmt.add(` LIMIT ?`, q.Limit)
	if q.Status != report.InReview {
		return page(ctx, db, stmt, readSubscriberRow)
	}
	rows, err := db.engine.Read(ctx).Query(stmt.text, stmt.args...)
	return Collect(rows, err, readSubscriberRow)
}

func readSubscriberRow(row Row) (report.Subscriber, error) {
	var s report.Subscriber
	var expires sql.NullInt64
	var price int64
	err := row.Scan(&s.Term, &s.ID, &s.Mobile, &s.Name, &expires, &s.PlanID, &s.PlanName, &price, &s.Open, &s.OpenTransaction)
	s.Expires, s.Price = Time(expires), money.Paise(price)
	return s, err
}

// subscriberRow selects what is shown of a subscriber s, with the plan that began last
// and the open operation.
func subscriberRow(d *Dialect, stmt *statement, term, from string, q report.SubscriberQuery) {
	stmt.add(`SELECT ` + term + `, s.id, s.mobile, s.name, s.expires_at, coalesce(p.id, ''), coalesce(p.name, ''), coalesce(p.price_paise, 0),
		       coalesce(o.status, ''), coalesce(o.id, '') FROM ` + from)
	stmt.add(d.CurrentPlan, q.Now.UnixMilli())
}

// addTerms adds the terms that the subscriber of a column must have. PostgreSQL would turn
// EXISTS into a join and begin with all subscribers that have the term; a subquery with
// LIMIT is run only for the subscribers found so far.
func addTerms(stmt *statement, who string, terms []string) {
	for _, term := range terms {
		stmt.add(`
		   AND (SELECT true FROM subscriber_terms e WHERE e.subscriber_id = `+who+` AND e.kind = 'word' AND e.term >= ? AND e.term < ? LIMIT 1)`,
			term, report.AfterPrefix(term))
	}
}

// addStatus adds the status that a subscriber s must have.
func addStatus(stmt *statement, q report.SubscriberQuery) {
	switch q.Status {
	case report.Active:
		stmt.add(` AND s.expires_at > ?`, q.Now.UnixMilli())
	case report.Expiring:
		stmt.add(` AND s.expires_at > ? AND s.expires_at <= ?`, q.Now.UnixMilli(), q.Until.UnixMilli())
	case report.Expired:
		stmt.add(` AND s.expires_at <= ?`, q.Now.UnixMilli())
	}
}

// reviewedSubscribers begins with the operations in review of all operators, which are few
// and indexed. operator_id + 0 keeps the planner from the index by operator.
func reviewedSubscribers(d *Dialect, stmt *statement, q report.SubscriberQuery) {
	subscriberRow(d, stmt, `''`, `operations r `+d.OrderedJoin+` subscribers s ON s.id = r.subscriber_id`, q)
	stmt.add(` WHERE r.status = 'needs_review' AND r.operator_id + 0 = ? AND s.operator_id + 0 = ? AND (coalesce(s.expires_at, 0), s.id) > (?, ?)`,
		q.OperatorID, q.OperatorID, q.After.Number, q.After.ID)
	addTerms(stmt, `s.id`, q.Terms)
	stmt.add(` ORDER BY coalesce(s.expires_at, 0), s.id`)
}

// searchedSubscribers begins with the terms that have the first search term as a prefix. A
// subscriber with several of them is found by the first only.
func searchedSubscribers(d *Dialect, stmt *statement, q report.SubscriberQuery) {
	subscriberRow(d, stmt, `t.term`, d.TermSubscribers, q)
	termsWithin(stmt, q)
	stmt.add(` AND s.operator_id + 0 = ?
		   AND (SELECT true FROM subscriber_terms e WHERE e.subscriber_id = t.subscriber_id AND e.kind = 'word' AND e.term >= ? AND e.term < t.term LIMIT 1) IS NULL`,
		q.OperatorID, q.Terms[0])
	addTerms(stmt, `t.subscriber_id`, q.Terms[1:])
	addStatus(stmt, q)
	stmt.add(` ORDER BY t.term, t.subscriber_id`)
}

func namedSubscribers(d *Dialect, stmt *statement, q report.SubscriberQuery) {
	subscriberRow(d, stmt, `t.term`, d.TermSubscribers, q)
	termsWithin(stmt, q)
	stmt.add(` AND s.operator_id + 0 = ?`, q.OperatorID)
	addStatus(stmt, q)
	stmt.add(` ORDER BY t.term, t.subscriber_id`)
}

// TermAtOffset finds the term at an offset, by an index alone.
func (db *Store) TermAtOffset(ctx context.Context, q report.SubscriberQuery, many int) (last report.Cursor, found bool, err error) {
	var stmt statement
	stmt.add(`SELECT t.term, t.subscriber_id FROM subscriber_terms t`)
	termsWithin(&stmt, q)
	stmt.add(` ORDER BY t.term, t.subscriber_id LIMIT 1 OFFSET ?`, many)
	cursors, err := page(ctx, db, stmt, func(row Row) (report.Cursor, error) {
		var p report.Cursor
		err := row.Scan(&p.Text, &p.ID)
		return p, err
	})
	if err != nil || len(cursors) == 0 {
		return last, false, err
	}
	return cursors[0], true, nil
}

// termsWithin selects the terms t of a page: those that begin with the search text, or the
// names.
func termsWithin(stmt *statement, q report.SubscriberQuery) {
	if len(q.Terms) > 0 {
		prefix := q.Terms[0]
		if q.After.Text < prefix {
			q.After = report.Cursor{Text: prefix}
		}
		stmt.add(` WHERE t.operator_id = ? AND t.kind = 'word' AND (t.term, t.subscriber_id) > (?, ?) AND t.term < ?`,
			q.OperatorID, q.After.Text, q.After.ID, report.AfterPrefix(prefix))
	} else {
		stmt.add(` WHERE t.operator_id = ? AND t.kind = 'name' AND (t.term, t.subscriber_id) > (?, ?)`, q.OperatorID, q.After.Text, q.After.ID)
	}
	if q.Last != (report.Cursor{}) {
		stmt.add(` AND (t.term, t.subscriber_id) <= (?, ?)`, q.Last.Text, q.Last.ID)
	}
}

func expiringSubscribers(d *Dialect, stmt *statement, q report.SubscriberQuery) {
	subscriberRow(d, stmt, `''`, `subscribers s`, q)
	// The bound is a cursor, too: a subscriber who expires now has expired.
	bound := report.Cursor{Number: q.Now.UnixMilli(), ID: report.AfterPrefix("")}
	from := q.After
	if q.Status == report.Expired {
		if from == (report.Cursor{}) || from.Number > bound.Number {
			from = bound
		}
		stmt.add(` WHERE s.operator_id = ? AND (s.expires_at, s.id) < (?, ?) ORDER BY s.expires_at DESC, s.id DESC`, q.OperatorID, from.Number, from.ID)
		return
	}
	if q.Status != report.AnyStatus && from.Number <= bound.Number {
		from = bound
	}
	stmt.add(` WHERE s.operator_id = ? AND (s.expires_at, s.id) > (?, ?)`, q.OperatorID, from.Number, from.ID)
	if q.Status == report.Expiring {
		stmt.add(` AND s.expires_at <= ?`, q.Until.UnixMilli())
	}
	stmt.add(` ORDER BY s.expires_at, s.id`)
}

// CountSubscribers counts an operator's subscribers, each once: the ranges of expiries do not
// overlap.
func (db *Store) CountSubscribers(ctx context.Context, operatorID int64, now time.Time) (report.SubscriberCounts, error) {
	var pending, expired, in3, in7, in15, later int
	at := func(days int) int64 { return now.Add(time.Duration(days) * 24 * time.Hour).UnixMilli() }
	err := db.engine.Read(ctx).QueryRow(`
		SELECT (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at IS NULL),
		       (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at <= $2),
		       (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at > $2 AND expires_at <= $3),
		       (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at > $3 AND expires_at <= $4),
		       (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at > $4 AND expires_at <= $5),
		       (SELECT count(*) FROM subscribers WHERE operator_id = $1 AND expires_at > $5)`,
		operatorID, at(0), at(3), at(7), at(15)).Scan(&pending, &expired, &in3, &in7, &in15, &later)
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
