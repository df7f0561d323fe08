package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

// DueByDay adds up what falls due. Days are counted by the milliseconds of India's
// clock. Prices are looked up for the plans of a day, and not for everybody who has one.
func (db *DB) DueByDay(ctx context.Context, operatorID int64, after, until time.Time) ([]report.Due, error) {
	rows, err := db.read(ctx).query(`
		SELECT due.day, sum(due.subscribers)::bigint, sum(due.subscribers * p.price_paise)::bigint
		  FROM (SELECT (s.expires_at + $4) / 86400000 AS day,
		               (SELECT c.plan_id FROM cycles c WHERE c.subscriber_id = s.id ORDER BY c.seq DESC LIMIT 1) AS plan_id, count(*) AS subscribers
		          FROM subscribers s
		         WHERE s.operator_id = $1 AND s.expires_at > $2 AND s.expires_at <= $3
		         GROUP BY 1, 2) due
		  JOIN plans p ON p.id = due.plan_id
		 GROUP BY due.day ORDER BY due.day`, operatorID, after.UnixMilli(), until.UnixMilli(), indianOffset)
	return collect(rows, err, func(row scanner) (report.Due, error) {
		var due report.Due
		var days, amount int64
		err := row.Scan(&days, &due.Subscribers, &amount)
		due.Day, due.Amount = time.UnixMilli(days*86_400_000-indianOffset).In(subscription.IST), money.Paise(amount)
		return due, err
	})
}

// indianOffset is by how many milliseconds India's clock is ahead.
var indianOffset = func() int64 {
	_, seconds := time.UnixMilli(0).In(subscription.IST).Zone()
	return int64(seconds) * 1000
}()

// TradeBetween adds up operations, of one operator or of all.
func (db *DB) TradeBetween(ctx context.Context, operatorID int64, from, before time.Time) ([]report.Trade, error) {
	var ask wording
	ask.says(`SELECT kind, status, count(*), sum(amount_paise)::bigint FROM operations WHERE created_at >= ? AND created_at < ?`, from.UnixMilli(), before.UnixMilli())
	if operatorID != 0 {
		ask.says(` AND operator_id = ?`, operatorID)
	}
	ask.says(` GROUP BY kind, status ORDER BY kind, status`)
	rows, err := db.read(ctx).query(ask.text, ask.args...)
	return collect(rows, err, func(row scanner) (report.Trade, error) {
		var t report.Trade
		var amount int64
		err := row.Scan(&t.Kind, &t.State, &t.Count, &amount)
		t.Amount = money.Paise(amount)
		return t, err
	})
}

// LedgerBounds finds a stretch of an operator's ledger.
func (db *DB) LedgerBounds(ctx context.Context, operatorID int64, from, before time.Time) (report.Bounds, error) {
	var b report.Bounds
	err := db.snapshot(ctx, func(at querier) (err error) {
		if b.After, b.Opening, err = lineBefore(at, operatorID, from); err != nil {
			return err
		}
		b.Last, b.Closing, err = lineBefore(at, operatorID, before)
		return err
	})
	return b, err
}

// lineBefore finds the last line of an operator's ledger that was written before a
// moment, and the balance after it. Lines are found by their number only, and come in
// the order of time: so the number is tried bit by bit, from the highest that a
// ledger will ever have. Tried that way, the same moment leads to the same line
// however many are written later.
func lineBefore(at querier, operatorID int64, before time.Time) (line int64, balance money.Amount, err error) {
	var paise int64
	err = at.queryRow(`
		WITH RECURSIVE tried (line, step) AS (
		     SELECT 0::bigint, 1099511627776::bigint
		      UNION ALL
		     SELECT t.line + CASE WHEN l.line IS NULL THEN 0 ELSE t.step END, t.step / 2
		       FROM tried t LEFT JOIN ledger l ON l.operator_id = $1 AND l.line = t.line + t.step AND l.created_at < $2
		      WHERE t.step > 0)
		SELECT t.line, coalesce(l.balance_after, 0)
		  FROM tried t LEFT JOIN ledger l ON l.operator_id = $1 AND l.line = t.line
		 WHERE t.step = 0`, operatorID, before.UnixMilli()).Scan(&line, &paise)
	if err != nil {
		return 0, balance, fmt.Errorf("find a line of the ledger: %w", err)
	}
	return line, money.Paise(paise), nil
}

// ListLedger reads a page of an operator's ledger.
func (db *DB) ListLedger(ctx context.Context, q report.LedgerQuery) ([]report.LedgerLine, error) {
	var ask wording
	ask.says(`SELECT line, kind, amount_paise, balance_after, description, coalesce(operation_id, ''), created_at FROM ledger`)
	if q.TransactionID != "" {
		// There is one such line at most, and the other conditions must not be what it
		// is looked for by.
		ask.says(` WHERE operation_id = ? AND operator_id + 0 = ? AND line + 0 > ? AND line + 0 <= ?`, q.TransactionID, q.OperatorID, q.After, q.Last)
	} else {
		ask.says(` WHERE operator_id = ? AND line > ? AND line <= ?`, q.OperatorID, q.After, q.Last)
	}
	if q.Side != report.Both {
		ask.says(` AND kind = ?`, q.Side)
	}
	if q.Text != "" {
		ask.says(` AND position(? IN lower(description COLLATE "C")) > 0`, q.Text)
	}
	if q.NewestFirst {
		ask.says(` ORDER BY line DESC LIMIT ?`, q.Limit)
	} else {
		ask.says(` ORDER BY line LIMIT ?`, q.Limit)
	}
	return paged(ctx, db, ask, func(row scanner) (report.LedgerLine, error) {
		var l report.LedgerLine
		var amount, after int64
		var at sql.NullInt64
		err := row.Scan(&l.Line, &l.Side, &amount, &after, &l.Description, &l.TransactionID, &at)
		l.Amount, l.BalanceAfter, l.At = money.Paise(amount), money.Paise(after), moment(at)
		return l, err
	})
}

// OpenOperations reads what holds money. An index has all that is open, of all
// operators, which is never much.
func (db *DB) OpenOperations(ctx context.Context, operatorID int64, most int) ([]operation.Operation, error) {
	rows, err := db.read(ctx).query(`
		SELECT `+operationColumns+` FROM operations
		 WHERE status IN ('processing', 'needs_review') AND ($1 = 0 OR operator_id + 0 = $1) ORDER BY created_at, id LIMIT $2`, operatorID, most)
	return collect(rows, err, readOperation)
}

// PageOperations reads a page of an operator's operations. Those of one subscriber
// are few, and found by the subscriber; so are those that are open, of all operators,
// for which there is an index that knows a state by its name only.
func (db *DB) PageOperations(ctx context.Context, q report.OperationQuery) ([]operation.Operation, error) {
	var ask wording
	ask.says(`SELECT ` + operationColumns + ` FROM operations`)
	state, order := string(q.State), ` ORDER BY created_at DESC, id DESC LIMIT ?`
	switch {
	case q.Subscriber != "":
		ask.says(` WHERE subscriber_id = ? AND operator_id + 0 = ?`, q.Subscriber, q.OperatorID)
	case q.State == operation.NeedsReview:
		ask.says(` WHERE status = 'needs_review' AND operator_id + 0 = ?`, q.OperatorID)
		state, order = "", ` ORDER BY created_at + 0 DESC, id DESC LIMIT ?`
	case q.State == operation.Processing:
		ask.says(` WHERE status = 'processing' AND operator_id + 0 = ?`, q.OperatorID)
		state, order = "", ` ORDER BY created_at + 0 DESC, id DESC LIMIT ?`
	default:
		ask.says(` WHERE operator_id = ?`, q.OperatorID)
	}
	for _, wanted := range []struct{ column, value string }{
		{`status = ?`, state}, {`kind = ?`, string(q.Kind)}, {`channel = ?`, string(q.Channel)}, {`plan_id = ?`, q.PlanID},
	} {
		if wanted.value != "" {
			ask.says(` AND `+wanted.column, wanted.value)
		}
	}
	ask.stretch(q)
	ask.says(order, q.Limit)
	if q.Subscriber == "" && !q.State.Open() {
		return paged(ctx, db, ask, readOperation)
	}
	rows, err := db.read(ctx).query(ask.text, ask.args...)
	return collect(rows, err, readOperation)
}

// stretch is between which moments, and behind which operation, a page looks.
func (w *wording) stretch(q report.OperationQuery) {
	moment, both := `created_at`, `(created_at, id)`
	if q.State.Open() || q.Subscriber != "" {
		moment, both = `created_at + 0`, `(created_at + 0, id)` // it has been found by something else
	}
	switch {
	case q.Last != (report.Cursor{}):
		w.says(` AND `+both+` >= (?, ?)`, q.Last.Number, q.Last.ID)
	case !q.From.IsZero():
		w.says(` AND `+moment+` >= ?`, q.From.UnixMilli())
	}
	switch {
	case q.After != (report.Cursor{}):
		w.says(` AND `+both+` < (?, ?)`, q.After.Number, q.After.ID)
	case !q.Before.IsZero():
		w.says(` AND `+moment+` < ?`, q.Before.UnixMilli())
	}
}

// PassOperations finds the operation with so many before it, in an index alone.
func (db *DB) PassOperations(ctx context.Context, q report.OperationQuery, many int) (last report.Cursor, found bool, err error) {
	var ask wording
	ask.says(`SELECT created_at, id FROM operations WHERE operator_id = ?`, q.OperatorID)
	ask.stretch(report.OperationQuery{From: q.From, Before: q.Before, After: q.After})
	ask.says(` ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET ?`, many)
	places, err := paged(ctx, db, ask, func(row scanner) (report.Cursor, error) {
		var p report.Cursor
		err := row.Scan(&p.Number, &p.ID)
		return p, err
	})
	if err != nil || len(places) == 0 {
		return last, false, err
	}
	return places[0], true, nil
}
