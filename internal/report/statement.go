package report

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Bounds are a range of an operator's ledger lines. Lines are numbered without a gap, in
// the order of time (except for concurrent settlements), so that a period is a range of
// lines; its opening balance is the closing balance of the one before.
type Bounds struct {
	// After is the last line before the range, and Last the last one in it.
	After, Last      int64
	Opening, Closing money.Amount
}

// Side is a side of the ledger.
type Side string

// Both is the zero value.
const (
	Both   Side = ""
	Credit Side = "credit"
	Debit  Side = "debit"
)

// LedgerLine is a line of an operator's ledger. BalanceAfter is the ledger's running sum,
// which does not include holds.
type LedgerLine struct {
	Line          int64
	Side          Side
	Amount        money.Amount
	BalanceAfter  money.Amount
	Description   string
	TransactionID string // of what was paid for or reversed; empty for what staff moved
	// Customer and Mobile are those of the transaction; empty if there is none.
	Customer, Mobile string
	At               time.Time
}

// StatementFilter selects the lines of a statement.
type StatementFilter struct {
	// From and Until are Indian days, both inclusive.
	From, Until time.Time
	Side        Side
	// Text is part of the description, ignoring case.
	Text          string
	TransactionID string
	NewestFirst   bool
	After         string
	Limit         int
	// NoScanLimit: the page is filled however many lines have to be scanned for it.
	NoScanLimit bool
}

// LedgerQuery is StatementFilter for a store, within a range of lines.
type LedgerQuery struct {
	OperatorID    int64
	After, Last   int64 // the range: After is exclusive, Last inclusive
	Side          Side
	Text          string // in lower case as far as ASCII goes
	TransactionID string
	NewestFirst   bool
	Limit         int
}

// Statement is a page of an operator's ledger.
type Statement struct {
	From, Until time.Time
	Bounds
	// Wallet has the present balance and holds.
	Wallet subscription.Wallet
	Rows   []LedgerLine
	Next   string
	// Truncated: the page ends because of ScanLimit, and not because it is full.
	Truncated bool
}

// Net is the change of the balance.
func (s Statement) Net() money.Amount { return s.Closing.Sub(s.Opening) }

// Statement reads a page of an operator's ledger.
func (svc *Service) Statement(ctx context.Context, operatorID int64, f StatementFilter) (Statement, error) {
	s := Statement{From: Day(f.From), Until: Day(f.Until)}
	after, err := ParseCursor(f.After)
	if err != nil {
		return s, err
	}
	if s.Wallet, err = svc.store.Wallet(ctx, operatorID); err != nil {
		return s, err
	}
	if s.Bounds, err = svc.store.LedgerBounds(ctx, operatorID, s.From, s.Until.Add(day)); err != nil {
		return s, fmt.Errorf("find the statement of operator %d: %w", operatorID, err)
	}
	limit := pageSize(f.Limit)
	q := LedgerQuery{
		OperatorID: operatorID, After: s.After, Last: s.Last, Side: f.Side, Text: lowerASCII(f.Text), TransactionID: f.TransactionID,
		NewestFirst: f.NewestFirst, Limit: limit + 1,
	}
	switch {
	case after.Number == 0:
	case f.NewestFirst:
		q.Last = min(q.Last, after.Number-1)
	default:
		q.After = max(q.After, after.Number)
	}
	var further Cursor
	if !f.NoScanLimit && (q.Side != Both || q.Text != "") {
		further = q.limitScan(int64(svc.scanLimit))
	}
	rows, err := svc.store.ListLedger(ctx, q)
	if err != nil {
		return s, fmt.Errorf("read the ledger of operator %d: %w", operatorID, err)
	}
	s.Rows, s.Next = page(rows, limit, func(l LedgerLine) Cursor { return Cursor{Number: l.Line} })
	if s.Next == "" && further != (Cursor{}) {
		s.Next, s.Truncated = further.String(), true
	}
	return s, nil
}

// limitScan shortens the range to a number of lines, and returns the cursor where the next
// page continues; zero if the range is not longer. A query by transaction is not limited:
// an index finds its line.
func (q *LedgerQuery) limitScan(lines int64) (further Cursor) {
	switch {
	case q.TransactionID != "" || q.Last-q.After <= lines:
		return Cursor{}
	case q.NewestFirst:
		q.After = q.Last - lines
		return Cursor{Number: q.After + 1}
	}
	q.Last = q.After + lines
	return Cursor{Number: q.Last}
}

// EachLine calls begin with the statement, and then each for all its lines. They are read
// in pages, so that a slow client does not keep a query open.
func (svc *Service) EachLine(ctx context.Context, operatorID int64, f StatementFilter, begin func(Statement) error, each func(LedgerLine) error) error {
	f.Limit, f.After = maxPageRows, ""
	for begun := false; ; begun = true {
		s, err := svc.Statement(ctx, operatorID, f)
		if err != nil {
			return err
		}
		if !begun {
			if err := begin(s); err != nil {
				return err
			}
		}
		if err := eachRow(s.Rows, each); err != nil || s.Next == "" {
			return err
		}
		f.After = s.Next
	}
}

func eachRow[Row any](rows []Row, each func(Row) error) error {
	for _, row := range rows {
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}

// holdRows is how many holds are listed.
const holdRows = 200

// Holds reads the operations that hold an operator's money, oldest first.
func (svc *Service) Holds(ctx context.Context, operatorID int64) ([]operation.Operation, error) {
	return svc.store.OpenOperations(ctx, operatorID, holdRows)
}
