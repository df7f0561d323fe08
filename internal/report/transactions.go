package report

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// TransactionFilter picks an operator's operations; a zero field picks all.
type TransactionFilter struct {
	State      operation.State
	Kind       operation.Kind
	Channel    operation.Channel
	PlanID     string
	Subscriber string
	// From and Until are Indian days, both of them included.
	From, Until time.Time
	After       string
	Limit       int
}

// OperationQuery is that as a store reads it.
type OperationQuery struct {
	OperatorID int64
	State      operation.State
	Kind       operation.Kind
	Channel    operation.Channel
	PlanID     string
	Subscriber string
	From       time.Time // zero is the beginning
	Before     time.Time // zero is the end
	After      Cursor    // the moment in Number, the id in ID
	Last       Cursor    // the last one that is looked at; zero is the end
	Limit      int
}

// TransactionPage is some of a list, with where it goes on; empty at its end.
type TransactionPage struct {
	Rows []operation.Operation
	Next string
	// SearchedTo is how far back was looked, where the page ends because of that and
	// not because it is full.
	SearchedTo time.Time
}

// passedByFew reports whether a filter has to be held against each operation. Those
// of one subscriber are few, and so are those that are open.
func (f TransactionFilter) needsScan() bool {
	return f.Subscriber == "" && !f.State.Open() && (f.State != "" || f.Kind != "" || f.Channel != "" || f.PlanID != "")
}

// Transactions reads a page of an operator's operations, newest first.
func (d *Service) Transactions(ctx context.Context, operatorID int64, f TransactionFilter) (TransactionPage, error) {
	var found TransactionPage
	after, err := ParseCursor(f.After)
	if err != nil {
		return found, err
	}
	most := rowsAsked(f.Limit)
	q := OperationQuery{
		OperatorID: operatorID, State: f.State, Kind: f.Kind, Channel: f.Channel, PlanID: f.PlanID, Subscriber: f.Subscriber,
		After: after, Limit: most + 1,
	}
	if !f.From.IsZero() {
		q.From = Day(f.From)
	}
	if !f.Until.IsZero() {
		q.Before = Day(f.Until).Add(day)
	}
	var cut bool
	if f.needsScan() {
		if q.Last, cut, err = d.store.PassOperations(ctx, q, d.lookedAt); err != nil {
			return found, fmt.Errorf("search the transactions of operator %d: %w", operatorID, err)
		}
	}
	rows, err := d.store.PageOperations(ctx, q)
	if err != nil {
		return found, fmt.Errorf("list the transactions of operator %d: %w", operatorID, err)
	}
	found.Rows, found.Next = page(rows, most, func(o operation.Operation) Cursor { return Cursor{Number: o.CreatedAt.UnixMilli(), ID: o.ID} })
	if cut && found.Next == "" {
		found.Next, found.SearchedTo = q.Last.String(), time.UnixMilli(q.Last.Number).UTC()
	}
	return found, nil
}

// EachTransaction gives all operations that a filter picks one by one, read in pages.
func (d *Service) EachTransaction(ctx context.Context, operatorID int64, f TransactionFilter, each func(operation.Operation) error) error {
	f.Limit, f.After = mostRows, ""
	for {
		found, err := d.Transactions(ctx, operatorID, f)
		if err != nil {
			return err
		}
		if err := eachRow(found.Rows, each); err != nil || found.Next == "" {
			return err
		}
		f.After = found.Next
	}
}
