package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/receipt"
	"github.com/coaxhq/coax/internal/subscription"
)

// numberedAtOnce is how many ledger lines of an operator one call of NumberReceipts reads,
// operatorsAtOnce of how many operators.
const (
	numberedAtOnce  = 500
	operatorsAtOnce = 20
)

// Receipt reads the receipt of a purchase.
func (db *Store) Receipt(ctx context.Context, operatorID int64, transactionID string) (receipt.Receipt, bool, error) {
	return receiptOf(db.engine.Lookup(ctx), operatorID, transactionID)
}

// The columns of a receipt, and the tables beside its operation o that they are in.
const (
	receiptColumns = `o.id, o.operator_id, p.name, p.address, p.gstin, o.customer_name, o.mobile, o.subscriber_id, o.plan_name, o.amount_paise,
		       o.completed_at, o.cycle_starts_at, o.expiry_planned, o.reversed_at, l.receipt, i.printed_at`
	receiptTables = `
		  JOIN operators p ON p.id = o.operator_id
		  LEFT JOIN ledger l ON l.operation_id = o.id
		  LEFT JOIN receipt_prints i ON i.operation_id = o.id`
)

// readReceipt reads the receiptColumns of a row, and the columns before them.
func readReceipt(row Row, before ...any) (r receipt.Receipt, err error) {
	var paise int64
	var settled, starts, ends, reversed, number, printed sql.NullInt64
	err = row.Scan(append(before, &r.TransactionID, &r.OperatorID, &r.Operator, &r.Address, &r.GSTIN, &r.Customer, &r.Mobile, &r.SubscriberID, &r.Plan, &paise,
		&settled, &starts, &ends, &reversed, &number, &printed)...)
	r.Amount, r.SettledAt, r.From, r.Until, r.ReversedAt, r.PrintedAt = money.Paise(paise), Time(settled), Time(starts), Time(ends), Time(reversed), Time(printed)
	r.Number = subscription.ReceiptNumber{Year: subscription.FinancialYear(r.SettledAt), Number: number.Int64}
	return r, err
}

func receiptOf(from RowQuerier, operatorID int64, transactionID string) (r receipt.Receipt, found bool, err error) {
	r, err = readReceipt(from.QueryRow(`
		SELECT `+receiptColumns+` FROM operations o`+receiptTables+`
		 WHERE o.id = $1 AND o.status = 'success' AND (o.operator_id = $2 OR $2 = 0)`, transactionID, operatorID))
	if errors.Is(err, sql.ErrNoRows) {
		return receipt.Receipt{}, false, nil
	}
	if err != nil {
		return receipt.Receipt{}, false, fmt.Errorf("read the receipt of %s: %w", transactionID, err)
	}
	return r, true, nil
}

// PrintReceipt records the first print of a receipt, and reads it as it was before.
func (db *Store) PrintReceipt(ctx context.Context, operatorID int64, transactionID, by string, now time.Time) (r receipt.Receipt, found bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		if r, found, err = receiptOf(tx, operatorID, transactionID); err != nil || !found || !r.PrintedAt.IsZero() {
			return err
		}
		printed, err := tx.Exec(`
			INSERT INTO receipt_prints (operation_id, operator_id, printed_at, printed_by) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
			transactionID, r.OperatorID, now.UnixMilli(), by)
		if err != nil {
			return fmt.Errorf("record the print: %w", err)
		}
		if printed == 0 {
			r.PrintedAt = now // somebody else prints it at this moment
		}
		return nil
	})
	return r, found, err
}

// JobReceipts reads receipts of a bulk renewal.
func (db *Store) JobReceipts(ctx context.Context, part receipt.JobPart) ([]receipt.JobReceipt, error) {
	return jobReceipts(db.engine.Read(ctx), db.dialect, part)
}

// jobPurchases are the purchases of a bulk renewal that succeeded, in the order of its rows. The rows
// are read first, and each operation by its id.
func jobPurchases(d *Dialect) string {
	return ` FROM bulk_rows b ` + d.OrderedJoin + ` operations o ON o.id = b.operation_id`
}

const whichJobPurchases = `
		 WHERE b.operator_id = $1 AND b.job_id = $2 AND b.number > $3 AND o.status = 'success' AND o.operator_id + 0 = $1
		 ORDER BY b.number LIMIT $4`

func jobReceipts(from Querier, d *Dialect, part receipt.JobPart) ([]receipt.JobReceipt, error) {
	rows, err := from.Query(`SELECT b.number, `+receiptColumns+jobPurchases(d)+receiptTables+whichJobPurchases,
		part.OperatorID, part.JobID, part.After, part.Limit)
	found, err := Collect(rows, err, func(row Row) (r receipt.JobReceipt, err error) {
		r.Receipt, err = readReceipt(row, &r.Row)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the receipts of bulk renewal %s: %w", part.JobID, err)
	}
	return found, nil
}

// PrintJobReceipts records the first prints among receipts of a bulk renewal, and reads them as they
// were before.
func (db *Store) PrintJobReceipts(ctx context.Context, part receipt.JobPart, by string, now time.Time) (receipts []receipt.JobReceipt, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		// What this statement adds is a first print; what somebody else has added meanwhile is not.
		rows, err := tx.Query(`
			INSERT INTO receipt_prints (operation_id, operator_id, printed_at, printed_by)
			SELECT o.id, o.operator_id, $5::bigint, $6::text`+jobPurchases(tx.Dialect())+whichJobPurchases+`
			ON CONFLICT DO NOTHING RETURNING operation_id`,
			part.OperatorID, part.JobID, part.After, part.Limit, now.UnixMilli(), by)
		added, err := Collect(rows, err, func(row Row) (id string, err error) { return id, row.Scan(&id) })
		if err != nil {
			return fmt.Errorf("record the prints of bulk renewal %s: %w", part.JobID, err)
		}
		if receipts, err = jobReceipts(tx, tx.Dialect(), part); err != nil {
			return err
		}
		for i := range receipts {
			if slices.Contains(added, receipts[i].TransactionID) {
				receipts[i].PrintedAt = time.Time{}
			}
		}
		return nil
	})
	return receipts, err
}

// NumberReceipts numbers ledger lines that a binary without receipt numbers has written.
func (db *Store) NumberReceipts(ctx context.Context) (numbered int, more bool, err error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT operator_id FROM wallets WHERE operator_id > $1 AND receipt_lines < ledger_lines ORDER BY operator_id LIMIT $2`, 0, operatorsAtOnce)
	operators, err := Collect(rows, err, func(row Row) (id int64, err error) { return id, row.Scan(&id) })
	if err != nil {
		return 0, false, fmt.Errorf("look for purchases without a receipt number: %w", err)
	}
	for _, id := range operators {
		var these int
		err := db.engine.Write(ctx, func(tx Tx) (err error) {
			these, err = numberReceiptsOf(tx, id)
			return err
		})
		if err != nil {
			return numbered, false, fmt.Errorf("number the receipts of operator %d: %w", id, err)
		}
		numbered += these
	}
	return numbered, len(operators) > 0, nil
}

// numberReceiptsOf numbers the purchases in the next ledger lines. The wallet is locked, as by a
// settlement, so that nobody else gives numbers or writes lines.
func numberReceiptsOf(tx Tx, operatorID int64) (numbered int, err error) {
	var lines, checked, year, last int64
	var pastText string
	err = tx.QueryRow(`
		SELECT ledger_lines, receipt_lines, receipt_year, receipts, receipts_past FROM wallets WHERE operator_id = $1 FOR NO KEY UPDATE`, operatorID).
		Scan(&lines, &checked, &year, &last, &pastText)
	if err != nil {
		return 0, fmt.Errorf("lock the wallet: %w", err)
	}
	until := min(lines, checked+numberedAtOnce)
	given := map[string]int64{}
	if err := json.Unmarshal([]byte(pastText), &given); err != nil {
		return 0, fmt.Errorf("parse the receipts of past years: %w", err)
	}
	if year != 0 {
		given[strconv.FormatInt(year, 10)] = last
	}
	rows, err := tx.Query(`
		SELECT id, created_at FROM ledger
		 WHERE operator_id = $1 AND line > $2 AND line <= $3 AND operation_id IS NOT NULL AND receipt IS NULL ORDER BY line`, operatorID, checked, until)
	type line struct {
		id int64
		at time.Time
	}
	missing, err := Collect(rows, err, func(row Row) (l line, err error) {
		var at sql.NullInt64
		err = row.Scan(&l.id, &at)
		l.at = Time(at)
		return l, err
	})
	if err != nil {
		return 0, fmt.Errorf("read the ledger lines: %w", err)
	}
	for _, l := range missing {
		in := int64(subscription.FinancialYear(l.at))
		name := strconv.FormatInt(in, 10)
		given[name]++
		year = max(year, in)
		if _, err := tx.Exec(`UPDATE ledger SET receipt = $2 WHERE id = $1`, l.id, given[name]); err != nil {
			return 0, fmt.Errorf("number ledger line %d: %w", l.id, err)
		}
	}
	last = given[strconv.FormatInt(year, 10)]
	delete(given, strconv.FormatInt(year, 10))
	past, err := json.Marshal(given)
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(`
		UPDATE wallets SET receipt_lines = $2, receipt_year = $3, receipts = $4, receipts_past = $5 WHERE operator_id = $1`,
		operatorID, until, year, last, string(past))
	if err != nil {
		return 0, fmt.Errorf("move the counter: %w", err)
	}
	return len(missing), nil
}
