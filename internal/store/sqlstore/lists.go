package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
)

// within adds the bounds of a query to a statement. The columns are literals of this
// file.
func (s *statement) within(q admin.ListQuery, operator, at string) {
	if q.OperatorID != 0 {
		s.add(` AND `+operator+` = ?`, q.OperatorID)
	}
	if !q.From.IsZero() {
		s.add(` AND `+at+` >= ?`, q.From.UnixMilli())
	}
	if !q.To.IsZero() {
		s.add(` AND `+at+` < ?`, q.To.UnixMilli())
	}
}

// ordered adds the order and the limit of a query.
func (s *statement) ordered(q admin.ListQuery, by string) {
	s.add(` ORDER BY ` + by)
	if q.Limit > 0 {
		s.add(` LIMIT ?`, q.Limit)
	}
}

// checkOperator refuses a query for an operator that does not exist.
func (db *Store) checkOperator(ctx context.Context, operatorID int64) error {
	if operatorID == 0 {
		return nil
	}
	_, err := operatorByID(db.engine.Read(ctx), operatorID)
	return err
}

// LedgerPage reads a page of an operator's ledger, oldest first.
func (db *Store) LedgerPage(ctx context.Context, q admin.ListQuery) ([]admin.LedgerEntry, error) {
	if _, err := operatorByID(db.engine.Read(ctx), q.OperatorID); err != nil {
		return nil, err
	}
	var stmt statement
	stmt.add(`SELECT `+ledgerEntryColumns+` FROM ledger WHERE line > ?`, q.After.Number)
	stmt.within(q, `operator_id`, `created_at`)
	stmt.ordered(q, `line`)
	rows, err := db.engine.Read(ctx).Query(stmt.text, stmt.args...)
	return Collect(rows, err, readLedgerEntry)
}

const ledgerEntryColumns = `id, line, kind, amount_paise, balance_after, description, coalesce(operation_id, reversal_of), created_at`

func readLedgerEntry(row Row) (e admin.LedgerEntry, err error) {
	var kind string
	var amount, after int64
	var operationID sql.NullString
	var created sql.NullInt64
	err = row.Scan(&e.ID, &e.Line, &kind, &amount, &after, &e.Description, &operationID, &created)
	e.Credit, e.Amount, e.BalanceAfter = kind == "credit", money.Paise(amount), money.Paise(after)
	e.TransactionID, e.CreatedAt = operationID.String, Time(created)
	return e, err
}

// CommissionPage reads a page of commissions, in the order in which their operations began, with those
// that reversals took back, in the order in which these were requested.
func (db *Store) CommissionPage(ctx context.Context, q admin.ListQuery) ([]admin.CommissionEntry, error) {
	if err := db.checkOperator(ctx, q.OperatorID); err != nil {
		return nil, err
	}
	var entries []admin.CommissionEntry
	err := db.engine.Snapshot(ctx, func(from Querier) error {
		entries = nil
		var earned, reversed statement
		earned.add(`
			SELECT c.operation_id, '', c.operator_id, c.amount_paise, c.rate_bps, c.created_at, o.created_at
			  FROM operations o `+db.dialect.OrderedJoin+` commissions c ON c.operation_id = o.id
			 WHERE (o.created_at, o.id) > (?, ?)`, q.After.At.UnixMilli(), q.After.ID)
		earned.within(q, `o.operator_id`, `c.created_at`)
		earned.ordered(q, `o.created_at, o.id`)
		reversed.add(`
			SELECT r.operation_id, r.reference, r.operator_id, -r.commission_paise, c.rate_bps, r.completed_at, r.requested_at
			  FROM reversals r JOIN commissions c ON c.operation_id = r.operation_id
			 WHERE r.status = 'reversed' AND (r.requested_at, r.reference) > (?, ?)`, q.After.At.UnixMilli(), q.After.ID)
		reversed.within(q, `r.operator_id`, `r.completed_at`)
		reversed.ordered(q, `r.requested_at, r.reference`)
		for _, stmt := range []statement{earned, reversed} {
			rows, err := from.Query(stmt.text, stmt.args...)
			found, err := Collect(rows, err, readCommissionEntry)
			if err != nil {
				return err
			}
			entries = append(entries, found...)
		}
		return nil
	})
	slices.SortFunc(entries, func(a, b admin.CommissionEntry) int {
		return cmp.Or(a.BegunAt.Compare(b.BegunAt), cmp.Compare(a.Cursor().ID, b.Cursor().ID))
	})
	if q.Limit > 0 {
		entries = entries[:min(len(entries), q.Limit)]
	}
	return entries, err
}

func readCommissionEntry(row Row) (c admin.CommissionEntry, err error) {
	var amount int64
	var at, begun sql.NullInt64
	err = row.Scan(&c.TransactionID, &c.Reversal, &c.OperatorID, &amount, &c.RateBPS, &at, &begun)
	c.Amount, c.CreatedAt, c.BegunAt = money.Paise(amount), Time(at), Time(begun)
	return c, err
}

// AuditPage reads a page of the audit log, oldest first.
func (db *Store) AuditPage(ctx context.Context, q admin.ListQuery) ([]admin.AuditEntry, error) {
	if err := db.checkOperator(ctx, q.OperatorID); err != nil {
		return nil, err
	}
	var stmt statement
	stmt.add(`SELECT `+auditColumns+` FROM staff_acts WHERE id > ?`, q.After.Number)
	stmt.within(q, `operator_id`, `at`)
	stmt.ordered(q, `id`)
	rows, err := db.engine.Read(ctx).Query(stmt.text, stmt.args...)
	return Collect(rows, err, readAuditEntry)
}

// SubscriberPage reads a page of subscribers, by id.
func (db *Store) SubscriberPage(ctx context.Context, q admin.ListQuery) ([]admin.SubscriberEntry, error) {
	if err := db.checkOperator(ctx, q.OperatorID); err != nil {
		return nil, err
	}
	var stmt statement
	stmt.add(`
		SELECT s.id, s.operator_id, s.mobile, s.name, s.expires_at, s.created_at,
		       coalesce((SELECT c.plan_id FROM cycles c WHERE c.subscriber_id = s.id AND c.starts_at <= ?
		                  ORDER BY c.starts_at DESC, c.seq DESC LIMIT 1), '')
		  FROM subscribers s WHERE s.id > ?`, q.Now.UnixMilli(), q.After.ID)
	stmt.within(q, `s.operator_id`, `s.created_at`)
	stmt.ordered(q, `s.id`)
	rows, err := db.engine.Read(ctx).Query(stmt.text, stmt.args...)
	return Collect(rows, err, func(row Row) (admin.SubscriberEntry, error) {
		var s admin.SubscriberEntry
		var expires, created sql.NullInt64
		err := row.Scan(&s.ID, &s.OperatorID, &s.Mobile, &s.Name, &expires, &created, &s.PlanID)
		s.Expires, s.CreatedAt = Time(expires), Time(created)
		return s, err
	})
}
