package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
)

// OperationTotals adds up operations, of one operator or of all.
func (db *Store) OperationTotals(ctx context.Context, operatorID int64, from, before time.Time) ([]report.OperationTotal, error) {
	var stmt statement
	stmt.add(`SELECT kind, status, count(*), sum(amount_paise)::bigint FROM operations WHERE created_at >= ? AND created_at < ?`, from.UnixMilli(), before.UnixMilli())
	if operatorID != 0 {
		stmt.add(` AND operator_id = ?`, operatorID)
	}
	stmt.add(` GROUP BY kind, status ORDER BY kind, status`)
	var totals []report.OperationTotal
	err := db.engine.Snapshot(ctx, func(at Querier) error {
		rows, err := at.Query(stmt.text, stmt.args...)
		if totals, err = Collect(rows, err, func(row Row) (report.OperationTotal, error) {
			var t report.OperationTotal
			var amount int64
			err := row.Scan(&t.Kind, &t.State, &t.Count, &amount)
			t.Amount = money.Paise(amount)
			return t, err
		}); err != nil {
			return err
		}
		return subtractReversed(at, db.dialect.OrderedJoin, totals, operatorID, from, before)
	})
	return totals, err
}

// subtractReversed takes the operations that were reversed out of the totals. They are few, and are
// not in the index that the totals are read from.
func subtractReversed(at Querier, tableOrder string, totals []report.OperationTotal, operatorID int64, from, before time.Time) error {
	var stmt statement
	stmt.add(`
		SELECT o.kind, o.amount_paise FROM reversals r `+tableOrder+` operations o ON o.id = r.operation_id
		 WHERE r.status = 'reversed' AND r.completed_at >= ? AND o.created_at + 0 >= ? AND o.created_at + 0 < ?`, from.UnixMilli(), from.UnixMilli(), before.UnixMilli())
	if operatorID != 0 {
		stmt.add(` AND r.operator_id = ?`, operatorID)
	}
	rows, err := at.Query(stmt.text, stmt.args...)
	_, err = Collect(rows, err, func(row Row) (struct{}, error) {
		var kind operation.Kind
		var amount int64
		if err := row.Scan(&kind, &amount); err != nil {
			return struct{}{}, err
		}
		for i, t := range totals {
			if t.Kind == kind && t.State == operation.Success {
				totals[i].Count, totals[i].Amount = t.Count-1, t.Amount.Sub(money.Paise(amount))
			}
		}
		return struct{}{}, nil
	})
	if err != nil {
		return fmt.Errorf("add up what was reversed: %w", err)
	}
	return nil
}

// LedgerBounds finds a range of an operator's ledger.
func (db *Store) LedgerBounds(ctx context.Context, operatorID int64, from, before time.Time) (report.Bounds, error) {
	var b report.Bounds
	err := db.engine.Snapshot(ctx, func(at Querier) (err error) {
		if b.After, b.Opening, err = lineBefore(at, operatorID, from); err != nil {
			return err
		}
		b.Last, b.Closing, err = lineBefore(at, operatorID, before)
		return err
	})
	return b, err
}

// lineBefore finds the last line of an operator's ledger that was written before a
// moment, and the balance after it. Lines are indexed by their number only, and numbers
// increase with time: so it searches for the number bit by bit, from a power of two that no
// ledger reaches. Unlike a search between the first and the last line, it finds the same
// line for the same moment however many are written later.
func lineBefore(at Querier, operatorID int64, before time.Time) (line int64, balance money.Amount, err error) {
	var paise int64
	err = at.QueryRow(`
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
func (db *Store) ListLedger(ctx context.Context, q report.LedgerQuery) ([]report.LedgerLine, error) {
	var stmt statement
	stmt.add(`
		SELECT l.line, l.kind, l.amount_paise, l.balance_after, l.description, coalesce(l.operation_id, l.reversal_of, ''), l.created_at,
		       coalesce(o.customer_name, ''), coalesce(o.mobile, '')
		  FROM ledger l LEFT JOIN operations o ON o.id = coalesce(l.operation_id, l.reversal_of)`)
	if q.TransactionID != "" {
		// There is at most one such line, and the planner must not use the other conditions
		// to find it.
		stmt.add(` WHERE l.operation_id = ? AND l.operator_id + 0 = ? AND l.line + 0 > ? AND l.line + 0 <= ?`, q.TransactionID, q.OperatorID, q.After, q.Last)
	} else {
		stmt.add(` WHERE l.operator_id = ? AND l.line > ? AND l.line <= ?`, q.OperatorID, q.After, q.Last)
	}
	if q.Side != report.Both {
		stmt.add(` AND l.kind = ?`, q.Side)
	}
	if q.Text != "" {
		stmt.add(` AND strpos(lower(l.description COLLATE "C"), ?) > 0`, q.Text)
	}
	if q.NewestFirst {
		stmt.add(` ORDER BY l.line DESC LIMIT ?`, q.Limit)
	} else {
		stmt.add(` ORDER BY l.line LIMIT ?`, q.Limit)
	}
	return page(ctx, db, stmt, func(row Row) (report.LedgerLine, error) {
		var l report.LedgerLine
		var amount, after int64
		var at sql.NullInt64
		err := row.Scan(&l.Line, &l.Side, &amount, &after, &l.Description, &l.TransactionID, &at, &l.Customer, &l.Mobile)
		l.Amount, l.BalanceAfter, l.At = money.Paise(amount), money.Paise(after), Time(at)
		return l, err
	})
}

// OpenOperations reads the operations that hold money. An index has the open operations of
// all operators, which are few.
func (db *Store) OpenOperations(ctx context.Context, operatorID int64, limit int) ([]operation.Operation, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT `+OperationColumns+` FROM operations
		 WHERE status IN ('processing', 'needs_review') AND ($1 = 0 OR operator_id + 0 = $1) ORDER BY created_at + 0, id LIMIT $2`, operatorID, limit)
	return Collect(rows, err, ReadOperation)
}

// PageOperations reads a page of an operator's operations. Those of one subscriber are few,
// and are found by an index on the subscriber. Those that are open are few for all operators
// together, and are found by a partial index, which needs the state as a literal. Those that were
// reversed are few for an operator, and are found by their reversals.
func (db *Store) PageOperations(ctx context.Context, q report.OperationQuery) ([]operation.Operation, error) {
	var stmt statement
	stmt.add(`SELECT ` + OperationColumns + ` FROM operations`)
	state, order := string(q.State), ` ORDER BY created_at DESC, id DESC LIMIT ?`
	reversed := q.State == operation.State(operation.Reversed)
	switch {
	case q.Subscriber != "":
		stmt.add(` WHERE subscriber_id = ? AND operator_id + 0 = ?`, q.Subscriber, q.OperatorID)
	case q.State == operation.NeedsReview:
		stmt.add(` WHERE status = 'needs_review' AND operator_id + 0 = ?`, q.OperatorID)
		state, order = "", ` ORDER BY created_at + 0 DESC, id DESC LIMIT ?`
	case q.State == operation.Processing:
		stmt.add(` WHERE status = 'processing' AND operator_id + 0 = ?`, q.OperatorID)
		state, order = "", ` ORDER BY created_at + 0 DESC, id DESC LIMIT ?`
	case reversed:
		stmt.add(` WHERE id IN (SELECT operation_id FROM reversals WHERE status = 'reversed' AND operator_id = ?)`, q.OperatorID)
		order = ` ORDER BY created_at + 0 DESC, id DESC LIMIT ?`
	default:
		stmt.addOperator(q)
	}
	switch {
	case q.State == operation.Success:
		stmt.add(` AND reversed_at IS NULL`)
	case reversed:
		state = ""
		stmt.add(` AND reversed_at IS NOT NULL`)
	}
	for _, wanted := range []struct{ column, value string }{
		{`status = ?`, state}, {`kind = ?`, string(q.Kind)}, {`channel = ?`, string(q.Channel)}, {`plan_id = ?`, q.PlanID},
		{`provider_transaction_id = ?`, q.ProviderTransaction},
	} {
		if wanted.value != "" {
			stmt.add(` AND `+wanted.column, wanted.value)
		}
	}
	stmt.addRange(q)
	stmt.add(order, q.Limit)
	if q.Subscriber == "" && !q.State.Open() && !reversed {
		return page(ctx, db, stmt, ReadOperation)
	}
	rows, err := db.engine.Read(ctx).Query(stmt.text, stmt.args...)
	return Collect(rows, err, ReadOperation)
}

// addOperator selects an operator's operations, or those of all.
func (s *statement) addOperator(q report.OperationQuery) {
	if q.AllOperators {
		s.add(` WHERE created_at >= ?`, 0)
	} else {
		s.add(` WHERE operator_id = ?`, q.OperatorID)
	}
}

// addRange adds the times and the cursors between which a page reads.
func (s *statement) addRange(q report.OperationQuery) {
	moment, both := `created_at`, `(created_at, id)`
	if q.State.Open() || q.Subscriber != "" {
		moment, both = `created_at + 0`, `(created_at + 0, id)` // another condition finds the rows
	}
	switch {
	case q.Last != (report.Cursor{}):
		s.add(` AND `+both+` >= (?, ?)`, q.Last.Number, q.Last.ID)
	case !q.From.IsZero():
		s.add(` AND `+moment+` >= ?`, q.From.UnixMilli())
	}
	switch {
	case q.After != (report.Cursor{}):
		s.add(` AND `+both+` < (?, ?)`, q.After.Number, q.After.ID)
	case !q.Before.IsZero():
		s.add(` AND `+moment+` < ?`, q.Before.UnixMilli())
	}
}

// OperationAtOffset finds the operation at an offset, by an index alone.
func (db *Store) OperationAtOffset(ctx context.Context, q report.OperationQuery, many int) (last report.Cursor, found bool, err error) {
	var stmt statement
	stmt.add(`SELECT created_at, id FROM operations`)
	stmt.addOperator(q)
	stmt.addRange(report.OperationQuery{From: q.From, Before: q.Before, After: q.After})
	stmt.add(` ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET ?`, many)
	cursors, err := page(ctx, db, stmt, func(row Row) (report.Cursor, error) {
		var p report.Cursor
		err := row.Scan(&p.Number, &p.ID)
		return p, err
	})
	if err != nil || len(cursors) == 0 {
		return last, false, err
	}
	return cursors[0], true, nil
}
