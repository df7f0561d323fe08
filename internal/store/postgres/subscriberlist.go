package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
)

var _ report.Store = (*DB)(nil)

// wording is a statement that is put together from literals of this package, with
// the arguments that it names.
type wording struct {
	text string
	args []any
}

// says adds to the text. Where it says ?, the next of the arguments stands.
func (w *wording) says(text string, args ...any) {
	for _, arg := range args {
		before, after, _ := strings.Cut(text, "?")
		w.args = append(w.args, arg)
		w.text += before + fmt.Sprintf("$%d", len(w.args))
		text = after
	}
	w.text += text
}

// ListSubscribers reads a page of an operator's subscribers. What is listed in which
// order decides where the reading begins.
func (db *DB) ListSubscribers(ctx context.Context, q report.SubscriberQuery) ([]report.Subscriber, error) {
	var ask wording
	switch {
	case q.Status == report.InReview:
		reviewedSubscribers(&ask, q)
	case len(q.Terms) > 0:
		searchedSubscribers(&ask, q)
	case q.Order == report.ByName:
		namedSubscribers(&ask, q)
	default:
		expiringSubscribers(&ask, q)
	}
	ask.says(` LIMIT ?`, q.Limit)
	if q.Status != report.InReview {
		return paged(ctx, db, ask, readSubscriberRow)
	}
	rows, err := db.read(ctx).query(ask.text, ask.args...)
	return collect(rows, err, readSubscriberRow)
}

// paged reads a page in the order of an index, and stops when it is full. The planner,
// who knows neither how many rows fit on a page nor how many there are behind it,
// would rather collect all of them and sort.
func paged[Row any](ctx context.Context, db *DB, ask wording, read func(scanner) (Row, error)) (page []Row, err error) {
	err = db.snapshot(ctx, func(from querier) error {
		var sorts, bitmaps string
		if err := from.queryRow(`SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)`).Scan(&sorts, &bitmaps); err != nil {
			return fmt.Errorf("read a page in order: %w", err)
		}
		rows, err := from.query(ask.text, ask.args...)
		page, err = collect(rows, err, read)
		return err
	})
	return page, err
}

func readSubscriberRow(row scanner) (report.Subscriber, error) {
	var s report.Subscriber
	var expires sql.NullInt64
	var price int64
	err := row.Scan(&s.Term, &s.ID, &s.Mobile, &s.Name, &expires, &s.PlanID, &s.PlanName, &price, &s.Open, &s.OpenTransaction)
	s.Expires, s.Price = moment(expires), money.Paise(price)
	return s, err
}

// subscriberRow is what is shown of a subscriber s, with the plan that began last and
// the operation that is open: the first of them, because the planner would otherwise
// read all that are open, of everybody.
func subscriberRow(ask *wording, term, from string, q report.SubscriberQuery) {
	ask.says(`SELECT ` + term + `, s.id, s.mobile, s.name, s.expires_at, coalesce(p.id, ''), coalesce(p.name, ''), coalesce(p.price_paise, 0),
		       coalesce(o.status, ''), coalesce(o.id, '') FROM ` + from)
	ask.says(`
		  LEFT JOIN plans p ON p.id = (
		       SELECT (array_agg(c.plan_id ORDER BY c.starts_at DESC, c.seq DESC))[1] FROM cycles c WHERE c.subscriber_id = s.id AND c.starts_at <= ?)
		  LEFT JOIN LATERAL (
		       SELECT n.id, n.status FROM operations n WHERE n.subscriber_id = s.id AND n.status IN ('processing', 'needs_review') LIMIT 1) o ON true`, q.Now.UnixMilli())
}

// termsAsk are the terms that a subscriber must have who goes by that column. Asked
// for one of them, and not whether there is any, the planner looks at whoever was found
// already, and does not begin with all who have the term.
func termsAsk(ask *wording, who string, terms []string) {
	for _, term := range terms {
		ask.says(`
		   AND (SELECT true FROM subscriber_terms e WHERE e.subscriber_id = `+who+` AND e.kind = 'word' AND e.term >= ? AND e.term < ? LIMIT 1)`,
			term, report.AfterPrefix(term))
	}
}

// byTerm are the subscribers s of terms t, in the order of these. The offset keeps the
// planner from beginning with all subscribers there are.
const byTerm = `subscriber_terms t CROSS JOIN LATERAL (
		       SELECT b.id, b.operator_id, b.mobile, b.name, b.expires_at FROM subscribers b WHERE b.id = t.subscriber_id OFFSET 0) s`

// standingAsks is how a subscriber s must stand.
func standingAsks(ask *wording, q report.SubscriberQuery) {
	switch q.Status {
	case report.Active:
		ask.says(` AND s.expires_at > ?`, q.Now.UnixMilli())
	case report.Expiring:
		ask.says(` AND s.expires_at > ? AND s.expires_at <= ?`, q.Now.UnixMilli(), q.Until.UnixMilli())
	case report.Expired:
		ask.says(` AND s.expires_at <= ?`, q.Now.UnixMilli())
	}
}

// reviewedSubscribers begins with what is in review, of all operators: that is never
// much, and an index has it. The sum keeps the planner from the index of operators.
func reviewedSubscribers(ask *wording, q report.SubscriberQuery) {
	subscriberRow(ask, `''`, `operations r JOIN subscribers s ON s.id = r.subscriber_id`, q)
	ask.says(` WHERE r.status = 'needs_review' AND r.operator_id + 0 = ? AND s.operator_id + 0 = ? AND (coalesce(s.expires_at, 0), s.id) > (?, ?)`,
		q.OperatorID, q.OperatorID, q.After.Number, q.After.ID)
	termsAsk(ask, `s.id`, q.Terms)
	ask.says(` ORDER BY coalesce(s.expires_at, 0), s.id`)
}

// searchedSubscribers begins with the terms that begin with the first one. Who has
// several of these is found by the first of them only.
func searchedSubscribers(ask *wording, q report.SubscriberQuery) {
	subscriberRow(ask, `t.term`, byTerm, q)
	termsWithin(ask, q)
	ask.says(` AND s.operator_id + 0 = ?
		   AND (SELECT true FROM subscriber_terms e WHERE e.subscriber_id = t.subscriber_id AND e.kind = 'word' AND e.term >= ? AND e.term < t.term LIMIT 1) IS NULL`,
		q.OperatorID, q.Terms[0])
	termsAsk(ask, `t.subscriber_id`, q.Terms[1:])
	standingAsks(ask, q)
	ask.says(` ORDER BY t.term, t.subscriber_id`)
}

func namedSubscribers(ask *wording, q report.SubscriberQuery) {
	subscriberRow(ask, `t.term`, byTerm, q)
	termsWithin(ask, q)
	ask.says(` AND s.operator_id + 0 = ?`, q.OperatorID)
	standingAsks(ask, q)
	ask.says(` ORDER BY t.term, t.subscriber_id`)
}

// TermAtOffset finds the term with so many before it, in an index alone.
func (db *DB) TermAtOffset(ctx context.Context, q report.SubscriberQuery, many int) (last report.Cursor, found bool, err error) {
	var ask wording
	ask.says(`SELECT t.term, t.subscriber_id FROM subscriber_terms t`)
	termsWithin(&ask, q)
	ask.says(` ORDER BY t.term, t.subscriber_id LIMIT 1 OFFSET ?`, many)
	places, err := paged(ctx, db, ask, func(row scanner) (report.Cursor, error) {
		var p report.Cursor
		err := row.Scan(&p.Text, &p.ID)
		return p, err
	})
	if err != nil || len(places) == 0 {
		return last, false, err
	}
	return places[0], true, nil
}

// termsWithin are the terms t that a page looks at: those that begin with what is
// looked for, or the names.
func termsWithin(ask *wording, q report.SubscriberQuery) {
	if len(q.Terms) > 0 {
		prefix := q.Terms[0]
		if q.After.Text < prefix {
			q.After = report.Cursor{Text: prefix}
		}
		ask.says(` WHERE t.operator_id = ? AND t.kind = 'word' AND (t.term, t.subscriber_id) > (?, ?) AND t.term < ?`,
			q.OperatorID, q.After.Text, q.After.ID, report.AfterPrefix(prefix))
	} else {
		ask.says(` WHERE t.operator_id = ? AND t.kind = 'name' AND (t.term, t.subscriber_id) > (?, ?)`, q.OperatorID, q.After.Text, q.After.ID)
	}
	if q.Last != (report.Cursor{}) {
		ask.says(` AND (t.term, t.subscriber_id) <= (?, ?)`, q.Last.Text, q.Last.ID)
	}
}

func expiringSubscribers(ask *wording, q report.SubscriberQuery) {
	subscriberRow(ask, `''`, `subscribers s`, q)
	// The border is a place too: everybody who expires now has expired.
	border := report.Cursor{Number: q.Now.UnixMilli(), ID: report.AfterPrefix("")}
	from := q.After
	if q.Status == report.Expired {
		if from == (report.Cursor{}) || from.Number > border.Number {
			from = border
		}
		ask.says(` WHERE s.operator_id = ? AND (s.expires_at, s.id) < (?, ?) ORDER BY s.expires_at DESC, s.id DESC`, q.OperatorID, from.Number, from.ID)
		return
	}
	if q.Status != report.AnyStatus && from.Number <= border.Number {
		from = border
	}
	ask.says(` WHERE s.operator_id = ? AND (s.expires_at, s.id) > (?, ?)`, q.OperatorID, from.Number, from.ID)
	if q.Status == report.Expiring {
		ask.says(` AND s.expires_at <= ?`, q.Until.UnixMilli())
	}
	ask.says(` ORDER BY s.expires_at, s.id`)
}

// CountSubscribers counts an operator's subscribers, each once: the stretches of
// their expiries do not overlap.
func (db *DB) CountSubscribers(ctx context.Context, operatorID int64, now time.Time) (report.SubscriberCounts, error) {
	var pending, expired, in3, in7, in15, later int
	at := func(days int) int64 { return now.Add(time.Duration(days) * 24 * time.Hour).UnixMilli() }
	err := db.read(ctx).queryRow(`
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
func (db *DB) SubscriberTimeline(ctx context.Context, operatorID int64, subscriberID string) ([]operation.Operation, error) {
	rows, err := db.read(ctx).query(`
		SELECT `+operationColumns+` FROM operations
		 WHERE subscriber_id = $1 AND operator_id + 0 = $2 ORDER BY created_at DESC, id DESC`, subscriberID, operatorID)
	return collect(rows, err, readOperation)
}
