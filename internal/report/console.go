package report

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Account is an operator with its money.
type Account struct {
	subscription.Operator
	Wallet subscription.Wallet
	// Counts are of the last minute, where they were asked for.
	Counts SubscriberCounts
}

// AccountFilter picks operators; a zero field picks all.
type AccountFilter struct {
	// Search is part of the name, or the id.
	Search string
	Status subscription.OperatorStatus
	// Counted: their subscribers are to be counted, which takes a look at each.
	Counted bool
	After   string
	Limit   int
}

// AccountQuery is that as a store reads it.
type AccountQuery struct {
	Search string // in lower case as far as ASCII goes
	Status subscription.OperatorStatus
	After  int64
	Limit  int
}

// AccountPage is some of a list, with where it goes on; empty at its end.
type AccountPage struct {
	Rows []Account
	Next string
}

// Accounts reads a page of the operators.
func (d *Service) Accounts(ctx context.Context, f AccountFilter) (AccountPage, error) {
	var found AccountPage
	after, err := ParseCursor(f.After)
	if err != nil {
		return found, err
	}
	most := rowsAsked(f.Limit)
	rows, err := d.store.ListAccounts(ctx, AccountQuery{Search: lowerASCII(f.Search), Status: f.Status, After: after.Number, Limit: most + 1})
	if err != nil {
		return found, fmt.Errorf("list the operators: %w", err)
	}
	found.Rows, found.Next = page(rows, most, func(a Account) Cursor { return Cursor{Number: a.ID} })
	if !f.Counted {
		return found, nil
	}
	for i := range found.Rows {
		if found.Rows[i].Counts, err = d.Counts(ctx, found.Rows[i].ID); err != nil {
			return found, fmt.Errorf("count the subscribers of operator %d: %w", found.Rows[i].ID, err)
		}
	}
	return found, nil
}

// Totals are what there is in the whole service.
type Totals struct {
	Operators       int // without those that were deleted
	ActiveOperators int
	Subscribers     int
	Balance         money.Amount
	Held            money.Amount
	Processing      int
	InReview        int
	// NeedPerson are those in review that only a person can decide.
	NeedPerson int
	// OldestReview is since when the oldest is in review; zero if none is.
	OldestReview   time.Time
	OpenExceptions int
	MissingAddons  int
}

// totalsKept is how old totals may be.
const totalsKept = 15 * time.Second

// Totals counts what there is.
func (d *Service) Totals(ctx context.Context) (Totals, error) {
	return d.totals.recall("", d.now(), totalsKept, func() (Totals, error) { return d.store.SystemTotals(ctx) })
}

// PlanSubscribers counts the subscribers of the whole service whose active plan it is:
// those who renew at its price unless they choose another.
func (d *Service) PlanSubscribers(ctx context.Context, planID string) (int, error) {
	now := d.now()
	return d.planSubscribers.recall(planID, now, totalsKept, func() (int, error) { return d.store.CountPlanSubscribers(ctx, planID, now) })
}

// Review is an operation whose outcome nobody knows, and whose it is.
type Review struct {
	operation.Operation
	OperatorName string
}

// Age is for how long it has been in review.
func (r Review) Age(now time.Time) time.Duration { return now.Sub(r.ReviewSince) }

// Overdue reports whether it is more than a day old.
func (r Review) Overdue(now time.Time) bool { return r.Age(now) > day }

// Reviews reads what is in review, longest there first.
func (d *Service) Reviews(ctx context.Context, most int) ([]Review, error) {
	return d.store.ReviewQueue(ctx, rowsAsked(most))
}
