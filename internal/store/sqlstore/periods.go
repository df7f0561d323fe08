package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
)

// ClosePeriod closes a month for one operator, or for all that have not closed it yet.
//
// The sums are read beforehand, in a transaction of their own: a month that is over and has
// no open operations and reversals does not change, and the chain of staff actions is not locked
// meanwhile.
func (db *Store) ClosePeriod(ctx context.Context, action admin.StaffAction, month admin.Month, operatorID int64) ([]admin.ClosedPeriod, error) {
	var periods, closed []admin.ClosedPeriod
	err := db.engine.Snapshot(ctx, func(from Querier) (err error) {
		periods, err = periodsToClose(from, action, month, operatorID)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = db.engine.Write(ctx, func(tx Tx) error {
		closed = nil
		for _, p := range periods {
			added, err := tx.Exec(`
				INSERT INTO commission_periods (operator_id, month, operations, amount_paise, closed_by, closed_at)
				VALUES ($1, $2, $3, $4, $5, $6)
				    ON CONFLICT DO NOTHING`,
				p.OperatorID, month.String(), p.Operations, p.Amount.Paise(), p.ClosedBy, p.ClosedAt.UnixMilli())
			if err != nil {
				return fmt.Errorf("close %s of operator %d: %w", month, p.OperatorID, err)
			}
			if added == 0 {
				continue // closed by another person meanwhile
			}
			closed = append(closed, p)
		}
		for _, p := range closed {
			if err := logAction(tx, action, p.OperatorID, admin.PeriodSubject(p), nil, admin.PeriodState(p)); err != nil {
				return err
			}
		}
		if len(closed) == 0 {
			return admin.RefuseClosed(month, operatorID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return closed, nil
}

// periodsToClose adds up each operator's commissions of a month, without the operators whose
// account was opened later.
func periodsToClose(from Querier, action admin.StaffAction, month admin.Month, operatorID int64) ([]admin.ClosedPeriod, error) {
	if operatorID != 0 {
		if _, err := operatorByID(from, operatorID); err != nil {
			return nil, err
		}
	}
	begins, ends := month.Begins().UnixMilli(), month.Ends().UnixMilli()
	rows, err := from.Query(`
		SELECT id FROM operations
		 WHERE status IN ('processing', 'needs_review') AND created_at < $1 AND ($2::bigint = 0 OR operator_id = $2)
		 ORDER BY created_at, id`, ends, operatorID)
	open, err := Collect(rows, err, func(row Row) (id string, err error) { return id, row.Scan(&id) })
	if err != nil {
		return nil, fmt.Errorf("look for open operations: %w", err)
	}
	if len(open) > 0 {
		return nil, admin.RefuseOpenOperations(month, open)
	}
	rows, err = from.Query(`
		SELECT reference FROM reversals WHERE completed_at IS NULL AND requested_at < $1 AND ($2::bigint = 0 OR operator_id = $2)
		 ORDER BY requested_at, reference`, ends, operatorID)
	references, err := Collect(rows, err, func(row Row) (reference string, err error) { return reference, row.Scan(&reference) })
	if err != nil {
		return nil, fmt.Errorf("look for open reversals: %w", err)
	}
	if len(references) > 0 {
		return nil, admin.RefuseOpenReversals(month, references)
	}
	// A reversal counts in the month in which it is carried out.
	rows, err = from.Query(`
		SELECT o.id, coalesce(c.operations, 0), coalesce(r.reversals, 0), coalesce(c.amount_paise, 0) - coalesce(r.amount_paise, 0)
		  FROM operators o
		  LEFT JOIN (SELECT operator_id, count(*) AS reversals, sum(commission_paise)::bigint AS amount_paise FROM reversals
		              WHERE status = 'reversed' AND completed_at >= $1 AND completed_at < $2 AND ($3::bigint = 0 OR operator_id = $3) GROUP BY operator_id) r ON r.operator_id = o.id
		  LEFT JOIN (SELECT operator_id, count(*) AS operations, sum(amount_paise)::bigint AS amount_paise FROM commissions
		              WHERE created_at >= $1 AND created_at < $2 AND ($3::bigint = 0 OR operator_id = $3) GROUP BY operator_id) c ON c.operator_id = o.id
		 WHERE o.created_at < $2 AND ($3::bigint = 0 OR o.id = $3)
		   AND NOT EXISTS (SELECT 1 FROM commission_periods p WHERE p.operator_id = o.id AND p.month = $4)
		 ORDER BY o.id`, begins, ends, operatorID, month.String())
	return Collect(rows, err, func(row Row) (admin.ClosedPeriod, error) {
		p := admin.ClosedPeriod{Month: month, ClosedBy: action.Actor, ClosedAt: action.At}
		var amount int64
		err := row.Scan(&p.OperatorID, &p.Operations, &p.Reversals, &amount)
		p.Amount = money.Paise(amount)
		return p, err
	})
}

// ClosedPeriods reads what was closed, the latest month first.
func (db *Store) ClosedPeriods(ctx context.Context, operatorID int64) (periods []admin.ClosedPeriod, err error) {
	err = db.engine.Snapshot(ctx, func(from Querier) error {
		if periods, err = closedPeriods(from, operatorID); err != nil {
			return err
		}
		reversed, err := reversalsByMonth(from, operatorID)
		for i, p := range periods {
			periods[i].Reversals = reversed[monthOf{p.OperatorID, p.Month}]
		}
		return err
	})
	return periods, err
}

type monthOf struct {
	operatorID int64
	month      admin.Month
}

// reversalsByMonth counts what was reversed. A closed month has no column for it: it does not change
// any more, and reversals are few.
func reversalsByMonth(from Querier, operatorID int64) (map[monthOf]int64, error) {
	type reversal struct {
		operatorID int64
		at         sql.NullInt64
	}
	rows, err := from.Query(`SELECT operator_id, completed_at FROM reversals WHERE status = 'reversed' AND ($1::bigint = 0 OR operator_id = $1)`, operatorID)
	all, err := Collect(rows, err, func(row Row) (r reversal, err error) { return r, row.Scan(&r.operatorID, &r.at) })
	if err != nil {
		return nil, fmt.Errorf("count the reversals: %w", err)
	}
	count := map[monthOf]int64{}
	for _, r := range all {
		count[monthOf{r.operatorID, admin.MonthOf(Time(r.at))}]++
	}
	return count, nil
}

func closedPeriods(from Querier, operatorID int64) ([]admin.ClosedPeriod, error) {
	rows, err := from.Query(`
		SELECT operator_id, month, operations, amount_paise, closed_by, closed_at
		  FROM commission_periods WHERE $1::bigint = 0 OR operator_id = $1 ORDER BY month DESC, operator_id`, operatorID)
	return Collect(rows, err, func(row Row) (admin.ClosedPeriod, error) {
		var p admin.ClosedPeriod
		var month string
		var amount int64
		var at sql.NullInt64
		if err := row.Scan(&p.OperatorID, &month, &p.Operations, &amount, &p.ClosedBy, &at); err != nil {
			return p, err
		}
		var err error
		p.Month, err = admin.ParseMonth(month)
		p.Amount, p.ClosedAt = money.Paise(amount), Time(at)
		return p, err
	})
}
