// Package report is what pages read: the figures, lists and statements of the panel
// and of the console, and the arithmetic on them. It changes nothing and knows no
// HTTP. What is an operator's is asked for by the operator's id, which is part of
// every such question and never of a filter.
package report

import (
	"cmp"
	"context"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Store is what reports are read from. Nothing here is on a request's path, but
// somebody waits for every answer: each question is answered by an index, and what
// has to be counted up is bounded by one operator's day, or said otherwise.
//
// A page begins behind a Cursor, the last row of the page before, and has at most so
// many rows. An operator who has nothing, or is not there, has empty pages.
type Store interface {
	Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error)
	SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, bool, error)

	// ListSubscribers reads a page of an operator's subscribers.
	ListSubscribers(ctx context.Context, q SubscriberQuery) ([]Subscriber, error)
	// PassTerms finds the term that has so many before it, from where a page begins
	// that looks for subscribers by a term or sorts them by their names; false if the
	// terms end before that.
	PassTerms(ctx context.Context, q SubscriberQuery, many int) (last Cursor, found bool, err error)
	// CountSubscribers counts all of an operator's subscribers.
	CountSubscribers(ctx context.Context, operatorID int64, now time.Time) (SubscriberCounts, error)
	// SubscriberTimeline reads all operations on one of an operator's subscribers,
	// newest first.
	SubscriberTimeline(ctx context.Context, operatorID int64, subscriberID string) ([]operation.Operation, error)
	// DueByDay adds up, by the Indian day of the expiry, what the subscribers who
	// expire after one moment and not after another would cost to renew: each at
	// the present price of the plan that was bought last. Days on which nobody
	// expires are left out. It looks at each of these subscribers.
	DueByDay(ctx context.Context, operatorID int64, after, until time.Time) ([]Due, error)
	// TradeBetween adds up the operations that were asked for from one moment until
	// before another, by kind and state; of all operators if operatorID is zero. It
	// looks at each of them.
	TradeBetween(ctx context.Context, operatorID int64, from, before time.Time) ([]Trade, error)

	// LedgerBounds finds the stretch of an operator's ledger that was written from
	// one moment until before another.
	LedgerBounds(ctx context.Context, operatorID int64, from, before time.Time) (Bounds, error)
	// ListLedger reads a page of an operator's ledger.
	ListLedger(ctx context.Context, q LedgerQuery) ([]LedgerLine, error)
	// OpenOperations reads the operations of an operator, or of all if operatorID
	// is zero, that hold money, oldest first.
	OpenOperations(ctx context.Context, operatorID int64, most int) ([]operation.Operation, error)
	// PageOperations reads a page of an operator's operations, newest first.
	PageOperations(ctx context.Context, q OperationQuery) ([]operation.Operation, error)
	// PassOperations finds the operation that has so many of an operator's before it,
	// from where a page begins, whatever it asks for but its days; false if they end
	// before that.
	PassOperations(ctx context.Context, q OperationQuery, many int) (last Cursor, found bool, err error)

	// ListAccounts reads a page of the operators, by id.
	ListAccounts(ctx context.Context, q AccountQuery) ([]Account, error)
	// SystemTotals counts what there is in the whole service.
	SystemTotals(ctx context.Context) (Totals, error)
	// ReviewQueue reads what is in review, longest there first.
	ReviewQueue(ctx context.Context, most int) ([]Review, error)
	// CommissionSums adds up what an operator's operations that succeeded from one
	// moment until before another earned, by plan. It looks at each of them.
	CommissionSums(ctx context.Context, operatorID int64, from, before time.Time) ([]CommissionSum, error)
	// CountPlanSubscribers counts the subscribers of the whole service whose active plan
	// it is at a moment. It looks at each of them.
	CountPlanSubscribers(ctx context.Context, planID string, now time.Time) (int, error)
	// ListCommissions reads a page of them one by one, in the ledger's order.
	ListCommissions(ctx context.Context, q CommissionQuery) ([]CommissionLine, error)
}

// Config is what a service is told.
type Config struct {
	Now func() time.Time
	// LookedAt is how many rows a page looks at whose filter only few of them may
	// pass: a page ends there, be it empty, and the next one goes on. Zero is as many
	// as nobody minds to wait for.
	LookedAt int
	// AddedUpAtOnce is how many subscribers, or lines of ledgers, are added up at most
	// while a page waits for their sum. Zero is as many as nobody minds.
	AddedUpAtOnce int
}

// Service answers what pages ask.
type Service struct {
	store Store
	now   func() time.Time
	// These are Config's.
	lookedAt, addedUpAtOnce int

	dues   *memory[int64, []Due]
	days   *memory[dayOf, []Trade]
	counts *memory[int64, SubscriberCounts]
	totals *memory[string, Totals]
	earned *memory[periodOf, []CommissionSum]
	// planSubscribers are counted by plan.
	planSubscribers *memory[string, int]
}

// New makes a service.
func New(store Store, config Config) *Service {
	return &Service{
		store: store, now: config.Now, lookedAt: cmp.Or(config.LookedAt, lookedAt), addedUpAtOnce: cmp.Or(config.AddedUpAtOnce, addedUpAtOnce),
		dues: newMemory[int64, []Due](), days: newMemory[dayOf, []Trade](), counts: newMemory[int64, SubscriberCounts](),
		totals: newMemory[string, Totals](), earned: newMemory[periodOf, []CommissionSum](),
		planSubscribers: newMemory[string, int](),
	}
}

const (
	// pageRows is how many rows a page has unless it is told otherwise, and mostRows
	// how many it can be told.
	pageRows = 50
	mostRows = 1000
)

// These are a service's usual Config. To look at so many rows takes some twenty
// milliseconds; so does it to add up so many subscribers.
const (
	lookedAt      = 10_000
	addedUpAtOnce = 5_000
)

func rowsAsked(most int) int {
	if most <= 0 {
		return pageRows
	}
	return min(most, mostRows)
}

// page cuts off the row that was read beyond a page, which says that there is more.
func page[Row any](rows []Row, most int, place func(Row) Cursor) (kept []Row, next string) {
	if len(rows) <= most {
		return rows, ""
	}
	return rows[:most], place(rows[most-1]).String()
}

// Day is the start of the Indian day that a moment falls on.
func Day(t time.Time) time.Time {
	y, m, d := t.In(subscription.IST).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, subscription.IST)
}

// Month is the start of the Indian month that a moment falls on.
func Month(t time.Time) time.Time {
	y, m, _ := t.In(subscription.IST).Date()
	return time.Date(y, m, 1, 0, 0, 0, 0, subscription.IST)
}
