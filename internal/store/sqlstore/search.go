package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

// OperatorsWithTerm finds the operators who have a subscriber with a term, by one look into
// an index for each operator.
func (db *Store) OperatorsWithTerm(ctx context.Context, term string, limit int) ([]int64, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT each_operator.id FROM operators each_operator
		 WHERE (SELECT true FROM subscriber_terms t WHERE t.operator_id = each_operator.id AND t.kind = 'word' AND t.term >= $1 AND t.term < $2 LIMIT 1)
		 ORDER BY each_operator.id LIMIT $3`, term, report.AfterPrefix(term), limit)
	return Collect(rows, err, func(row Row) (id int64, err error) { return id, row.Scan(&id) })
}

// OperationsNamed reads the operations with an id or an idempotency key. Over all operators,
// a key is looked up once for each, by the index that keeps it unique.
func (db *Store) OperationsNamed(ctx context.Context, operatorID int64, id, key string, limit int) ([]operation.Operation, error) {
	rows, err := db.engine.Read(ctx).Query(`SELECT `+OperationColumns+` FROM operations WHERE id = $1 AND ($2 = 0 OR operator_id + 0 = $2)`, id, operatorID)
	found, err := Collect(rows, err, ReadOperation)
	if err != nil {
		return nil, err
	}
	if operatorID != 0 {
		rows, err = db.engine.Read(ctx).Query(`SELECT `+OperationColumns+` FROM operations WHERE operator_id = $1 AND idempotency_key = $2`, operatorID, key)
	} else {
		rows, err = db.engine.Read(ctx).Query(`
			SELECT `+OperationColumns+` FROM operations
			 WHERE id IN (SELECT (SELECT o.id FROM operations o WHERE o.operator_id = each_operator.id AND o.idempotency_key = $1) FROM operators each_operator)
			 LIMIT $2`, key, limit)
	}
	byKey, err := Collect(rows, err, ReadOperation)
	for _, op := range byKey {
		if len(found) == 0 || op.ID != found[0].ID {
			found = append(found, op)
		}
	}
	return found, err
}

// linesAfterReceipt is how many ledger lines are looked through from an indexed receipt, which is
// one of 64. Between two of them are a few top-ups and corrections, and purchases of the next
// financial year.
const linesAfterReceipt = `1000`

// OperationsWithReceipt reads the operation of an operator with a receipt number, or those of all
// operators if it is zero. Receipts that were given late, after an upgrade from 0.1.0, may be
// further away from the indexed one, and are not found then.
func (db *Store) OperationsWithReceipt(ctx context.Context, operatorID int64, n subscription.ReceiptNumber, limit int) ([]operation.Operation, error) {
	from, before := n.Dates()
	args := []any{n.Number - (n.Number-1)%64, n.Number, from.UnixMilli(), before.UnixMilli(), limit}
	near := `FROM operators each_operator CROSS JOIN ledger a WHERE a.operator_id = each_operator.id`
	if operatorID != 0 {
		near, args = `FROM ledger a WHERE a.operator_id = $6`, append(args, operatorID)
	}
	rows, err := db.engine.Read(ctx).Query(`
		SELECT `+OperationColumns+` FROM operations
		 WHERE id IN (SELECT (SELECT l.operation_id FROM ledger l
		                       WHERE l.operator_id = a.operator_id AND l.line >= a.line AND l.line < a.line + `+linesAfterReceipt+`
		                         AND l.receipt = $2 AND l.created_at >= $3 AND l.created_at < $4 LIMIT 1)
		                `+near+` AND a.receipt = $1 AND a.receipt % 64 = 1 AND a.created_at >= $3 AND a.created_at < $4)
		 LIMIT $5`, args...)
	return Collect(rows, err, ReadOperation)
}

// OperationsReversedBy reads the operation that a reversal is of, of an operator or of any if it is
// zero.
func (db *Store) OperationsReversedBy(ctx context.Context, operatorID int64, reference string) ([]operation.Operation, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT `+OperationColumns+` FROM operations
		 WHERE id = (SELECT r.operation_id FROM reversals r WHERE r.reference = $1) AND ($2 = 0 OR operator_id + 0 = $2)`, reference, operatorID)
	return Collect(rows, err, ReadOperation)
}

// AnnouncementsNamed reads the announcements of an operator, or of all if it is zero, with a code
// or a normalised reference, their own or that of their bank line. The latest come first.
func (db *Store) AnnouncementsNamed(ctx context.Context, operatorID int64, code, reference string, limit int) ([]admin.Announcement, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT id FROM payment_announcements WHERE code = $1 AND ($3 = 0 OR operator_id + 0 = $3)
		 UNION ALL
		SELECT id FROM payment_announcements WHERE reference_key = $2 AND ($3 = 0 OR operator_id + 0 = $3)
		 UNION ALL
		SELECT id FROM payment_announcements WHERE bank_key = $2 AND bank_key IS NOT NULL AND ($3 = 0 OR operator_id + 0 = $3)`,
		code, reference, operatorID)
	ids, err := Collect(rows, err, func(row Row) (id int64, err error) { return id, row.Scan(&id) })
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(b, a) })
	ids = slices.Compact(ids)
	byID, err := db.announcementsByID(ctx, ids[:min(len(ids), limit)])
	var found []admin.Announcement
	for _, id := range ids {
		if a, there := byID[id]; there {
			found = append(found, a)
		}
	}
	return found, err
}

// CreditsNamed reads the top-ups of an operator, or of all if it is zero, with a normalised reference.
func (db *Store) CreditsNamed(ctx context.Context, operatorID int64, reference string, limit int) ([]admin.Credit, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT e.operator_id, e.amount_paise, coalesce(e.reference, ''), e.created_at
		  FROM credited_references r
		  JOIN wallet_entries e ON e.operator_id = r.operator_id AND e.seq = r.seq
		 WHERE r.way = 'topup' AND r.normalised = $1 AND ($2 = 0 OR r.operator_id = $2)
		 ORDER BY r.copy LIMIT $3`, reference, operatorID, limit)
	return Collect(rows, err, func(row Row) (c admin.Credit, err error) {
		var paise int64
		var at sql.NullInt64
		err = row.Scan(&c.OperatorID, &paise, &c.Reference, &at)
		c.Amount, c.At = money.Paise(paise), Time(at)
		return c, err
	})
}
