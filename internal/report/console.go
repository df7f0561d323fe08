package report

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Account is an operator with its wallet.
type Account struct {
	subscription.Operator
	Wallet subscription.Wallet
	// Counts are at most a minute old; zero unless AccountFilter.Counted.
	Counts SubscriberCounts
	// Due is what falls due within 7 days, as far as it was added up: see Service.WeekDues.
	Due money.Amount
}

// Low reports whether the wallet is below its threshold or below what falls due within 7 days.
func (a Account) Low() bool { return a.Wallet.Low() || a.Wallet.Balance.Less(a.Due) }

// AccountFilter selects operators; a zero field selects all.
type AccountFilter struct {
	// Search is part of the name, or the id.
	Search string
	Status subscription.OperatorStatus
	// Counted: count the subscribers, which reads each of them.
	Counted bool
	After   string
	Limit   int
}

// AccountQuery is AccountFilter for a store.
type AccountQuery struct {
	Search string // in lower case as far as ASCII goes
	Status subscription.OperatorStatus
	After  int64
	Limit  int
}

// AccountPage is a page of operators; Next is empty on the last one.
type AccountPage struct {
	Rows []Account
	Next string
}

// Accounts reads a page of the operators.
func (svc *Service) Accounts(ctx context.Context, f AccountFilter) (AccountPage, error) {
	var found AccountPage
	after, err := ParseCursor(f.After)
	if err != nil {
		return found, err
	}
	limit := pageSize(f.Limit)
	rows, err := svc.store.ListAccounts(ctx, AccountQuery{Search: lowerASCII(f.Search), Status: f.Status, After: after.Number, Limit: limit + 1})
	if err != nil {
		return found, fmt.Errorf("list the operators: %w", err)
	}
	found.Rows, found.Next = page(rows, limit, func(a Account) Cursor { return Cursor{Number: a.ID} })
	if !f.Counted {
		return found, nil
	}
	for i := range found.Rows {
		if found.Rows[i].Counts, err = svc.Counts(ctx, found.Rows[i].ID); err != nil {
			return found, fmt.Errorf("count the subscribers of operator %d: %w", found.Rows[i].ID, err)
		}
	}
	return found, nil
}

// Totals counts the data of the whole service.
type Totals struct {
	Operators       int // without deleted ones
	ActiveOperators int
	Subscribers     int
	Balance         money.Amount
	Held            money.Amount
	Processing      int
	InReview        int
	// NeedPerson counts the reviews that only a person can decide.
	NeedPerson int
	// OldestReview is when the oldest review began; zero if there is none.
	OldestReview   time.Time
	OpenExceptions int
	MissingAddons  int
}

// totalsKept is how old totals may be.
const totalsKept = 15 * time.Second

// Totals returns the totals, cached for totalsKept.
func (svc *Service) Totals(ctx context.Context) (Totals, error) {
	return svc.totals.get("", svc.now(), totalsKept, func() (Totals, error) { return svc.store.SystemTotals(ctx) })
}

// PlanSubscribers counts the subscribers of the whole service with an active plan: those
// who renew at its price unless they choose another.
func (svc *Service) PlanSubscribers(ctx context.Context, planID string) (int, error) {
	now := svc.now()
	return svc.planSubscribers.get(planID, now, totalsKept, func() (int, error) { return svc.store.CountPlanSubscribers(ctx, planID, now) })
}

// PlanSubscribersAreQuick reports whether the number of a plan's subscribers is cached, or
// can be counted while a page is loading.
func (svc *Service) PlanSubscribersAreQuick(ctx context.Context, planID string) (bool, error) {
	if svc.planSubscribers.has(planID, svc.now(), totalsKept) {
		return true, nil
	}
	totals, err := svc.Totals(ctx)
	return totals.Subscribers <= svc.sumLimit, err
}

// Review is an operation in review, with its operator's name.
type Review struct {
	operation.Operation
	OperatorName string
}

// Age is how long it has been in review.
func (r Review) Age(now time.Time) time.Duration { return now.Sub(r.ReviewSince) }

// Overdue reports whether it is more than a day old.
func (r Review) Overdue(now time.Time) bool { return r.Age(now) > day }

// Reviews reads the operations in review, the longest first.
func (svc *Service) Reviews(ctx context.Context, after string, limit int) (ReviewPage, error) {
	var found ReviewPage
	place, err := ParseCursor(after)
	if err != nil {
		return found, err
	}
	limit = pageSize(limit)
	rows, err := svc.store.ReviewQueue(ctx, place, limit+1)
	if err != nil {
		return found, fmt.Errorf("read the review queue: %w", err)
	}
	found.Rows, found.Next = page(rows, limit, func(r Review) Cursor { return Cursor{Number: r.ReviewSince.UnixMilli(), ID: r.ID} })
	return found, nil
}

// ReviewPage is a page of the review queue; Next is empty on the last one.
type ReviewPage struct {
	Rows []Review
	Next string
}
