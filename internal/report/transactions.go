package report

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// TransactionFilter selects an operator's operations; a zero field selects all.
type TransactionFilter struct {
	// State is the one that people see: Success is without those that were reversed, which
	// have the state operation.Reversed.
	State      operation.State
	Kind       operation.Kind
	Channel    operation.Channel
	PlanID     string
	Subscriber string
	// From and Until are Indian days, both inclusive.
	From, Until time.Time
	After       string
	Limit       int
}

// OperationQuery is TransactionFilter for a store.
type OperationQuery struct {
	OperatorID int64
	// AllOperators selects the operations of all, for staff. It goes with no open or reversed State and
	// no Subscriber.
	AllOperators bool
	// ProviderTransaction is the provider's id; empty for any.
	ProviderTransaction string
	State               operation.State
	Kind                operation.Kind
	Channel             operation.Channel
	PlanID              string
	Subscriber          string
	From                time.Time // zero is the beginning
	Before              time.Time // zero is the end
	After               Cursor    // the moment in Number, the id in ID
	Last                Cursor    // the last one to be scanned; zero is the end
	Limit               int
}

// TransactionPage is a page of operations; Next is empty on the last one.
type TransactionPage struct {
	Rows []operation.Operation
	Next string
	// SearchedTo is how far back was scanned, where the page ends because of ScanLimit.
	SearchedTo time.Time
}

// needsScan reports whether the filter has to be applied to each operation. One
// subscriber's operations are few, and so are open ones.
func (f TransactionFilter) needsScan() bool {
	return f.Subscriber == "" && !f.State.Open() && (f.State != "" || f.Kind != "" || f.Channel != "" || f.PlanID != "")
}

// Transactions reads a page of an operator's operations, newest first.
func (svc *Service) Transactions(ctx context.Context, operatorID int64, f TransactionFilter) (TransactionPage, error) {
	var found TransactionPage
	after, err := ParseCursor(f.After)
	if err != nil {
		return found, err
	}
	limit := pageSize(f.Limit)
	q := OperationQuery{
		OperatorID: operatorID, State: f.State, Kind: f.Kind, Channel: f.Channel, PlanID: f.PlanID, Subscriber: f.Subscriber,
		After: after, Limit: limit + 1,
	}
	if !f.From.IsZero() {
		q.From = Day(f.From)
	}
	if !f.Until.IsZero() {
		q.Before = Day(f.Until).Add(day)
	}
	var truncated bool
	if f.needsScan() {
		if q.Last, truncated, err = svc.store.OperationAtOffset(ctx, q, svc.scanLimit); err != nil {
			return found, fmt.Errorf("search the transactions of operator %d: %w", operatorID, err)
		}
	}
	rows, err := svc.store.PageOperations(ctx, q)
	if err != nil {
		return found, fmt.Errorf("list the transactions of operator %d: %w", operatorID, err)
	}
	found.Rows, found.Next = page(rows, limit, func(o operation.Operation) Cursor { return Cursor{Number: o.CreatedAt.UnixMilli(), ID: o.ID} })
	if truncated && found.Next == "" {
		found.Next, found.SearchedTo = q.Last.String(), time.UnixMilli(q.Last.Number).UTC()
	}
	return found, nil
}

// EachTransaction calls each for all operations that a filter selects, read in pages.
func (svc *Service) EachTransaction(ctx context.Context, operatorID int64, f TransactionFilter, each func(operation.Operation) error) error {
	f.Limit, f.After = maxPageRows, ""
	for {
		found, err := svc.Transactions(ctx, operatorID, f)
		if err != nil {
			return err
		}
		if err := eachRow(found.Rows, each); err != nil || found.Next == "" {
			return err
		}
		f.After = found.Next
	}
}
