// Package report reads the figures, lists and statements of the panel and of the console.
// It changes nothing and knows no HTTP. An operator's data is always read by the operator's
// id, which is a parameter of its own and never part of a filter.
package report

import (
	"cmp"
	"context"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Store is what reports are read from. None of it is on the API's path, but a person waits
// for every page: each query uses an index, and sums cover at most one operator's day
// unless the method says otherwise.
//
// A page begins after a Cursor, the last row of the page before, and has at most Limit
// rows. An operator without data, or an unknown one, has empty pages.
type Store interface {
	Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error)
	SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, bool, error)

	// ListSubscribers reads a page of an operator's subscribers.
	ListSubscribers(ctx context.Context, q SubscriberQuery) ([]Subscriber, error)
	// SubscriberAtOffset finds the row at an offset from where a page of a source begins, whether or
	// not it is selected; more is false if there are fewer, and then scanned is their number.
	SubscriberAtOffset(ctx context.Context, q SubscriberQuery, offset int) (last Cursor, scanned int, more bool, err error)
	// SubscriberAreas lists the areas of an operator's subscribers, each as one of them has it.
	SubscriberAreas(ctx context.Context, operatorID int64, limit int) ([]string, error)
	// PlanNames lists all plans by name.
	PlanNames(ctx context.Context) ([]PlanName, error)
	// CountSubscribers counts all of an operator's subscribers.
	CountSubscribers(ctx context.Context, operatorID int64, now time.Time) (SubscriberCounts, error)
	// SubscriberTimeline reads all operations on one of an operator's subscribers,
	// newest first.
	SubscriberTimeline(ctx context.Context, operatorID int64, subscriberID string) ([]operation.Operation, error)
	// DueByDay adds up, by the Indian day of the expiry, the renewal prices of the
	// subscribers who expire after one moment and not after another: each at the present
	// price of the plan that was bought last. Days without an expiry are left out. It reads
	// each of these subscribers.
	DueByDay(ctx context.Context, operatorID int64, after, until time.Time) ([]Due, error)
	// DueByOperator adds up the same prices by active operator.
	DueByOperator(ctx context.Context, after, until time.Time) (map[int64]money.Amount, error)
	// OperationTotals adds up the operations that were requested from one moment until
	// before another, by kind and state; of all operators if operatorID is zero. It reads
	// each of them.
	OperationTotals(ctx context.Context, operatorID int64, from, before time.Time) ([]OperationTotal, error)

	// LedgerBounds finds the range of an operator's ledger lines that were written from one
	// moment until before another.
	LedgerBounds(ctx context.Context, operatorID int64, from, before time.Time) (Bounds, error)
	// ListLedger reads a page of an operator's ledger.
	ListLedger(ctx context.Context, q LedgerQuery) ([]LedgerLine, error)
	// OpenOperations reads the operations of an operator, or of all if operatorID
	// is zero, that hold money, oldest first.
	OpenOperations(ctx context.Context, operatorID int64, limit int) ([]operation.Operation, error)
	// PageOperations reads a page of an operator's operations, newest first.
	PageOperations(ctx context.Context, q OperationQuery) ([]operation.Operation, error)
	// OperationAtOffset finds the operation at an offset from where a page begins, by the
	// query's operator and days alone; false if there are fewer.
	OperationAtOffset(ctx context.Context, q OperationQuery, offset int) (last Cursor, found bool, err error)

	// OperationsNamed reads the operations of an operator, or of all if operatorID is zero,
	// that have the id or the idempotency key: one by its id, and for each operator one by
	// its key, up to limit.
	OperationsNamed(ctx context.Context, operatorID int64, id, key string, limit int) ([]operation.Operation, error)
	// OperationsWithReceipt reads the operation of an operator with a receipt number, or those of
	// all operators if operatorID is zero.
	OperationsWithReceipt(ctx context.Context, operatorID int64, number subscription.ReceiptNumber, limit int) ([]operation.Operation, error)
	// OperationsReversedBy reads the operation that a reversal with a reference is of.
	OperationsReversedBy(ctx context.Context, operatorID int64, reference string) ([]operation.Operation, error)
	// OperatorsWithTerm finds operators who have a subscriber with a word that begins with a
	// term, by id.
	OperatorsWithTerm(ctx context.Context, term string, limit int) ([]int64, error)

	// ListAccounts reads a page of the operators, by id.
	ListAccounts(ctx context.Context, q AccountQuery) ([]Account, error)
	// SystemTotals counts the data of the whole service.
	SystemTotals(ctx context.Context) (Totals, error)
	// ReviewQueue reads the operations in review, the longest first.
	ReviewQueue(ctx context.Context, after Cursor, limit int) ([]Review, error)
	// CommissionSums adds up, by plan, the commission of an operator's operations that
	// succeeded from one moment until before another, without those that were reversed in that time.
	// It reads each of them.
	CommissionSums(ctx context.Context, operatorID int64, from, before time.Time) ([]CommissionSum, error)
	// CountPlanSubscribers counts the subscribers of the whole service with an active plan
	// at a moment. It reads each of them.
	CountPlanSubscribers(ctx context.Context, planID string, now time.Time) (int, error)
	// ListCommissions reads a page of commissions, in the ledger's order.
	ListCommissions(ctx context.Context, q CommissionQuery) ([]CommissionLine, error)
}

// Config configures a Service.
type Config struct {
	Now func() time.Time
	// ScanLimit is how many rows are scanned for a page whose filter no index answers: the
	// page ends there, even if it is empty, and the next one continues. Zero is a default.
	ScanLimit int
	// SumLimit is how many subscribers, or ledger lines, are added up at most while a page
	// is loading. Zero is a default.
	SumLimit int
}

// Service reads reports.
type Service struct {
	store Store
	now   func() time.Time
	// From Config.
	scanLimit, sumLimit int

	dues *cache[int64, []Due]
	// weekDues has one entry.
	weekDues *cache[string, map[int64]money.Amount]
	days     *cache[dayOf, []OperationTotal]
	counts   *cache[int64, SubscriberCounts]
	totals   *cache[string, Totals]
	earned   *cache[periodOf, []CommissionSum]
	// planSubscribers are counted by plan.
	planSubscribers *cache[string, int]
}

// New makes a service.
func New(store Store, config Config) *Service {
	return &Service{
		store: store, now: config.Now, scanLimit: cmp.Or(config.ScanLimit, scanLimit), sumLimit: cmp.Or(config.SumLimit, sumLimit),
		dues: newCache[int64, []Due](), weekDues: newCache[string, map[int64]money.Amount](), days: newCache[dayOf, []OperationTotal](), counts: newCache[int64, SubscriberCounts](),
		totals: newCache[string, Totals](), earned: newCache[periodOf, []CommissionSum](),
		planSubscribers: newCache[string, int](),
	}
}

const (
	// The default and the largest number of rows of a page.
	defaultPageRows = 50
	maxPageRows     = 1000
)

// The defaults of Config. Scanning so many rows takes some twenty milliseconds, and so does
// adding up so many subscribers.
const (
	scanLimit = 10_000
	sumLimit  = 5_000
)

func pageSize(limit int) int {
	if limit <= 0 {
		return defaultPageRows
	}
	return min(limit, maxPageRows)
}

// page drops the row that was read beyond a page, which shows that there are more.
func page[Row any](rows []Row, limit int, cursor func(Row) Cursor) (shown []Row, next string) {
	if len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], cursor(rows[limit-1]).String()
}

// Wallet reads an operator's wallet.
func (svc *Service) Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error) {
	return svc.store.Wallet(ctx, operatorID)
}

// Day is the start of a moment's Indian day.
func Day(t time.Time) time.Time {
	y, m, d := t.In(subscription.IST).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, subscription.IST)
}

// Month is the start of a moment's Indian month.
func Month(t time.Time) time.Time {
	y, m, _ := t.In(subscription.IST).Date()
	return time.Date(y, m, 1, 0, 0, 0, 0, subscription.IST)
}
