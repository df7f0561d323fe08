package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

// ListAccounts reads a page of the operators with their wallets.
func (db *Store) ListAccounts(ctx context.Context, q report.AccountQuery) ([]report.Account, error) {
	var stmt statement
	stmt.add(`SELECT o.id, o.name, o.status, o.api, o.rate_limit, o.commission_bps, o.low_balance_paise, o.version, o.created_at,
		       w.balance_paise, w.ledger_paise - w.balance_paise
		  FROM operators o JOIN wallets w ON w.operator_id = o.id WHERE o.id > ?`, q.After)
	if q.Status != "" {
		stmt.add(` AND o.status = ?`, q.Status)
	}
	if q.Search != "" {
		stmt.add(` AND (strpos(lower(o.name COLLATE "C"), ?) > 0 OR CAST(o.id AS TEXT) = ?)`, q.Search, q.Search)
	}
	stmt.add(` ORDER BY o.id LIMIT ?`, q.Limit)
	rows, err := db.engine.Read(ctx).Query(stmt.text, stmt.args...)
	return Collect(rows, err, readOperatorAccount)
}

func readOperatorAccount(row Row) (report.Account, error) {
	var a report.Account
	var low, balance, held int64
	var created sql.NullInt64
	err := row.Scan(&a.ID, &a.Name, &a.Status, &a.API, &a.RateLimit, &a.CommissionBPS, &low, &a.Version, &created, &balance, &held)
	a.LowBalance, a.CreatedAt = money.Paise(low), Time(created)
	a.Wallet = subscription.Wallet{OperatorID: a.ID, Balance: money.Paise(balance), Held: money.Paise(held), LowBelow: a.LowBalance}
	return a, err
}

// DueByOperator adds up the renewals that fall due, by active operator. A price is looked up once for each
// operator and plan.
func (db *Store) DueByOperator(ctx context.Context, after, until time.Time) (map[int64]money.Amount, error) {
	sums := map[int64]money.Amount{}
	rows, err := db.engine.Read(ctx).Query(`
		SELECT due.operator_id, due.subscribers * p.price_paise
		  FROM (SELECT s.operator_id, (SELECT c.plan_id FROM cycles c WHERE c.subscriber_id = s.id ORDER BY c.seq DESC LIMIT 1) AS plan_id, count(*) AS subscribers
		          FROM operators o CROSS JOIN subscribers s
		         WHERE o.status = 'active' AND s.operator_id = o.id AND s.expires_at > $1 AND s.expires_at <= $2
		         GROUP BY 1, 2) due CROSS JOIN plans p
		 WHERE p.id = due.plan_id`, after.UnixMilli(), until.UnixMilli())
	_, err = Collect(rows, err, func(row Row) (operatorID int64, err error) {
		var amount int64
		err = row.Scan(&operatorID, &amount)
		sums[operatorID] = sums[operatorID].Add(money.Paise(amount))
		return operatorID, err
	})
	return sums, err
}

// SystemTotals reads counts and sums over all operators.
func (db *Store) SystemTotals(ctx context.Context) (report.Totals, error) {
	var t report.Totals
	var balance, held int64
	var oldest sql.NullInt64
	err := db.engine.Read(ctx).QueryRow(`
		SELECT (SELECT count(*) FROM operators WHERE status <> 'deleted'),
		       (SELECT count(*) FROM operators WHERE status = 'active'),
		       (SELECT count(*) FROM subscribers),
		       (SELECT coalesce(sum(balance_paise), 0)::bigint FROM wallets),
		       (SELECT coalesce(sum(ledger_paise - balance_paise), 0)::bigint FROM wallets),
		       (SELECT count(*) FROM operations WHERE status = 'processing'),
		       (SELECT count(*) FROM operations WHERE status = 'needs_review'),
		       (SELECT count(*) FROM operations WHERE status = 'needs_review' AND needs_person = 1),
		       (SELECT min(review_since) FROM operations WHERE status = 'needs_review'),
		       (SELECT count(*) FROM exceptions WHERE closed_at IS NULL),
		       (SELECT count(*) FROM operations WHERE addon_next_at IS NOT NULL)`).
		Scan(&t.Operators, &t.ActiveOperators, &t.Subscribers, &balance, &held, &t.Processing, &t.InReview, &t.NeedPerson, &oldest,
			&t.OpenExceptions, &t.MissingAddons)
	t.Balance, t.Held, t.OldestReview = money.Paise(balance), money.Paise(held), Time(oldest)
	return t, err
}

// ReviewQueue reads the operations in review.
func (db *Store) ReviewQueue(ctx context.Context, after report.Cursor, limit int) ([]report.Review, error) {
	var queue []report.Review
	err := db.engine.Snapshot(ctx, func(from Querier) error {
		rows, err := from.Query(`
			SELECT `+OperationColumns+` FROM operations
			 WHERE status = 'needs_review' AND (review_since, id) > ($1, $2) ORDER BY review_since, id LIMIT $3`, after.Number, after.ID, limit)
		ops, err := Collect(rows, err, ReadOperation)
		if err != nil {
			return err
		}
		for _, op := range ops {
			operator, err := operatorByID(from, op.OperatorID)
			if err != nil {
				return err
			}
			queue = append(queue, report.Review{Operation: op, OperatorName: operator.Name})
		}
		return nil
	})
	return queue, err
}

// earned selects the commissions of a period: a range of ledger lines around it, filtered by
// time. A reversal takes its operation out of the sums of the period in which it was carried out, by the
// sign that bySign gives, and is counted apart.
const (
	earned = `
	  FROM ledger l
	  JOIN commissions c ON c.operation_id = coalesce(l.operation_id, l.reversal_of)
	  JOIN operations o ON o.id = c.operation_id
	 WHERE l.operator_id = $1 AND l.line > $2 AND l.line <= $3 AND l.created_at >= $4 AND l.created_at < $5`
	bySign = `CASE WHEN l.reversal_of IS NULL THEN 1 ELSE -1 END * `
)

// CommissionSums adds up an operator's commissions of a period by plan.
func (db *Store) CommissionSums(ctx context.Context, operatorID int64, from, before time.Time) ([]report.CommissionSum, error) {
	around, err := db.LedgerBounds(ctx, operatorID, from.Add(-report.LedgerDisorder), before.Add(report.LedgerDisorder))
	if err != nil {
		return nil, err
	}
	rows, err := db.engine.Read(ctx).Query(`
		SELECT o.plan_id, `+db.dialect.LatestPlanName+`, max(l.line), count(l.operation_id), count(l.reversal_of), sum(`+bySign+`o.amount_paise)::bigint, sum(`+bySign+`c.amount_paise)::bigint`+earned+`
		 GROUP BY o.plan_id ORDER BY o.plan_id`, operatorID, around.After, around.Last, from.UnixMilli(), before.UnixMilli())
	return Collect(rows, err, func(row Row) (report.CommissionSum, error) {
		s := report.CommissionSum{OperatorID: operatorID}
		var last, sales, commission int64
		err := row.Scan(&s.PlanID, &s.PlanName, &last, &s.Count, &s.Reversals, &sales, &commission)
		s.Sales, s.Commission = money.Paise(sales), money.Paise(commission)
		return s, err
	})
}

// ListCommissions reads a page of commissions.
func (db *Store) ListCommissions(ctx context.Context, q report.CommissionQuery) ([]report.CommissionLine, error) {
	around, err := db.LedgerBounds(ctx, q.OperatorID, q.From.Add(-report.LedgerDisorder), q.Before.Add(report.LedgerDisorder))
	if err != nil {
		return nil, err
	}
	rows, err := db.engine.Read(ctx).Query(`
		SELECT l.line, o.id, o.subscriber_id, o.plan_id, o.plan_name, `+bySign+`o.amount_paise, `+bySign+`c.amount_paise, c.rate_bps, l.created_at`+earned+`
		 ORDER BY l.line LIMIT $6`, q.OperatorID, max(q.After, around.After), around.Last, q.From.UnixMilli(), q.Before.UnixMilli(), q.Limit)
	return Collect(rows, err, func(row Row) (report.CommissionLine, error) {
		l := report.CommissionLine{OperatorID: q.OperatorID}
		var sale, commission int64
		var at sql.NullInt64
		err := row.Scan(&l.Line, &l.TransactionID, &l.SubscriberID, &l.PlanID, &l.PlanName, &sale, &commission, &l.RateBPS, &at)
		l.Sale, l.Commission, l.At = money.Paise(sale), money.Paise(commission), Time(at)
		return l, err
	})
}

// planGap is longer than the time between a cycle and an advance renewal that follows it:
// until then the plan of the earlier one stays active.
const planGap = 48 * time.Hour

// CountPlanSubscribers counts the subscribers whose active plan it is: the plan of the cycle
// that began last, while the subscription has not expired.
func (db *Store) CountPlanSubscribers(ctx context.Context, planID string, now time.Time) (count int, err error) {
	err = db.engine.Read(ctx).QueryRow(`
		SELECT count(*) FROM cycles c JOIN subscribers s ON s.id = c.subscriber_id
		 WHERE c.plan_id = $1 AND c.ends_at > $3 AND c.starts_at <= $2 AND s.expires_at > $2
		   AND NOT EXISTS (SELECT 1 FROM cycles n
		                    WHERE n.subscriber_id = c.subscriber_id AND n.seq <> c.seq AND n.starts_at <= $2
		                      AND (n.starts_at > c.starts_at OR (n.starts_at = c.starts_at AND n.seq > c.seq)))`,
		planID, now.UnixMilli(), now.Add(-planGap).UnixMilli()).Scan(&count)
	if err != nil {
		return 0, fmt.Errorf("count the subscribers of plan %s: %w", planID, err)
	}
	return count, nil
}
