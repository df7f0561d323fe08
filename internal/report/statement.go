package report

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Bounds are a stretch of an operator's ledger. Lines are numbered without a gap, and
// written in the order of time but for what is settled in the same moment, so that a
// stretch of time is one of lines; its opening balance is the closing balance of the
// one before.
type Bounds struct {
	// After is the last line before the stretch, and Last the last one in it.
	After, Last      int64
	Opening, Closing money.Amount
}

// Side is which of the two columns of a ledger.
type Side string

// Both is the zero value.
const (
	Both   Side = ""
	Credit Side = "credit"
	Debit  Side = "debit"
)

// LedgerLine is a line of an operator's books. BalanceAfter is the ledger's own
// running sum, which holds do not touch.
type LedgerLine struct {
	Line          int64
	Side          Side
	Amount        money.Amount
	BalanceAfter  money.Amount
	Description   string
	TransactionID string // empty for what staff moved
	At            time.Time
}

// StatementFilter is what a statement is asked for with.
type StatementFilter struct {
	// From and Until are Indian days, both of them included.
	From, Until time.Time
	Side        Side
	// Text is part of the description, in capital letters or not.
	Text          string
	TransactionID string
	NewestFirst   bool
	After         string
	Limit         int
	// Whole: the page is filled however many lines have to be looked at for it.
	Whole bool
}

// LedgerQuery is that as a store reads it, within a stretch of lines.
type LedgerQuery struct {
	OperatorID    int64
	After, Last   int64 // the lines behind the one, up to the other
	Side          Side
	Text          string // in lower case as far as ASCII goes
	TransactionID string
	NewestFirst   bool
	Limit         int
}

// Statement is a page of an operator's books.
type Statement struct {
	From, Until time.Time
	Bounds
	// Wallet has the balance and the holds of this moment, which no line shows.
	Wallet subscription.Wallet
	Rows   []LedgerLine
	Next   string
	// Cut: the page ends because enough was looked at, and not because it is full.
	Cut bool
}

// Net is how much the books changed.
func (s Statement) Net() money.Amount { return s.Closing.Sub(s.Opening) }

// Statement reads a page of an operator's books.
func (d *Service) Statement(ctx context.Context, operatorID int64, f StatementFilter) (Statement, error) {
	s := Statement{From: Day(f.From), Until: Day(f.Until)}
	after, err := ParseCursor(f.After)
	if err != nil {
		return s, err
	}
	if s.Wallet, err = d.store.Wallet(ctx, operatorID); err != nil {
		return s, err
	}
	if s.Bounds, err = d.store.LedgerBounds(ctx, operatorID, s.From, s.Until.Add(day)); err != nil {
		return s, fmt.Errorf("find the statement of operator %d: %w", operatorID, err)
	}
	most := rowsAsked(f.Limit)
	q := LedgerQuery{
		OperatorID: operatorID, After: s.After, Last: s.Last, Side: f.Side, Text: lowerASCII(f.Text), TransactionID: f.TransactionID,
		NewestFirst: f.NewestFirst, Limit: most + 1,
	}
	switch {
	case after.Number == 0:
	case f.NewestFirst:
		q.Last = min(q.Last, after.Number-1)
	default:
		q.After = max(q.After, after.Number)
	}
	var further Cursor
	if !f.Whole && (q.Side != Both || q.Text != "") {
		further = q.lookLess(int64(d.lookedAt))
	}
	rows, err := d.store.ListLedger(ctx, q)
	if err != nil {
		return s, fmt.Errorf("read the ledger of operator %d: %w", operatorID, err)
	}
	s.Rows, s.Next = page(rows, most, func(l LedgerLine) Cursor { return Cursor{Number: l.Line} })
	if s.Next == "" && further != (Cursor{}) {
		s.Next, s.Cut = further.String(), true
	}
	return s, nil
}

// lookLess cuts a stretch down to so many lines, and returns the place where the next
// page goes on; none if the stretch is not longer. Whoever names a transaction is not
// cut short: the line is found by it.
func (q *LedgerQuery) lookLess(lines int64) (further Cursor) {
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

// EachLine gives all lines of a statement one by one, and what the statement says of
// itself first. They are read in pages, so that however long the other side takes, no
// reading of the store is left standing.
func (d *Service) EachLine(ctx context.Context, operatorID int64, f StatementFilter, begin func(Statement) error, each func(LedgerLine) error) error {
	f.Limit, f.After = mostRows, ""
	for begun := false; ; begun = true {
		s, err := d.Statement(ctx, operatorID, f)
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
func (d *Service) Holds(ctx context.Context, operatorID int64) ([]operation.Operation, error) {
	return d.store.OpenOperations(ctx, operatorID, holdRows)
}
