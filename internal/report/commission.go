package report

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// CommissionSum is the commission of an operator's sales of a plan in a period. What was reversed in
// it is taken out of Sales and Commission, whenever it was sold.
type CommissionSum struct {
	OperatorID   int64
	OperatorName string
	PlanID       string
	PlanName     string // at the last sale of the period
	Count        int    // of sales
	Reversals    int
	Sales        money.Amount
	Commission   money.Amount
}

// CommissionLine is the commission of one operation or, below zero, of its reversal.
type CommissionLine struct {
	OperatorID    int64
	OperatorName  string
	Line          int64 // in the operator's ledger
	TransactionID string
	SubscriberID  string
	PlanID        string
	PlanName      string
	Sale          money.Amount
	Commission    money.Amount
	RateBPS       int
	At            time.Time
}

// CommissionQuery selects an operator's commissions of a period, after a ledger line.
type CommissionQuery struct {
	OperatorID   int64
	From, Before time.Time
	After        int64
	Limit        int
}

// LedgerDisorder is how far the timestamps of two ledger lines in the wrong order can
// differ. Commissions of a period are searched among the lines of the period extended by
// this on both sides, and selected by their timestamp.
const LedgerDisorder = time.Hour

// periodOf is the cache key of an operator's period.
type periodOf struct {
	operatorID   int64
	from, before int64
}

// dateRange is a period whose sums are cached together, and for how long.
type dateRange struct {
	from, before time.Time
	keep         time.Duration
}

const (
	// monthKept is how long the sums of a past month are cached: it does not change any
	// more. In the current month, the days before today hardly change; today does with
	// every sale.
	monthKept   = 6 * time.Hour
	elapsedKept = time.Hour
	runningKept = time.Minute
)

// splitMonth splits a month into ranges with different cache times.
func splitMonth(from, before, now time.Time) []dateRange {
	switch today := Day(now); {
	// Operations that were settled a moment ago may not be written yet.
	case !now.Before(before.Add(LedgerDisorder)):
		return []dateRange{{from, before, monthKept}}
	case today.After(from) && today.Before(before):
		return []dateRange{{from, today, elapsedKept}, {today, before, runningKept}}
	}
	return []dateRange{{from, before, runningKept}}
}

// Commission adds up the commission of an Indian month, by operator and plan; of one
// operator, or of all if operatorID is zero.
func (svc *Service) Commission(ctx context.Context, operatorID int64, month time.Time) ([]CommissionSum, error) {
	from := Month(month)
	before, now, sums := from.AddDate(0, 1, 0), svc.now(), []CommissionSum{}
	err := svc.eachAccount(ctx, operatorID, func(a Account) error {
		plans := map[string]CommissionSum{}
		for _, s := range splitMonth(from, before, now) {
			found, err := svc.earned.get(periodOf{a.ID, s.from.Unix(), s.before.Unix()}, now, s.keep, func() ([]CommissionSum, error) {
				return svc.store.CommissionSums(ctx, a.ID, s.from, s.before)
			})
			if err != nil {
				return fmt.Errorf("add up the commission of operator %d: %w", a.ID, err)
			}
			for _, sum := range found {
				plans[sum.PlanID] = sum.after(plans[sum.PlanID])
			}
		}
		for _, id := range slices.Sorted(maps.Keys(plans)) {
			sum := plans[id]
			sum.OperatorName = a.Name
			sums = append(sums, sum)
		}
		return nil
	})
	return sums, err
}

// errSlow ends the count of what there is to add up.
var errSlow = errors.New("there is much to add up")

// accountsAtOnce is for how many operators sums are computed while a page is loading.
const accountsAtOnce = 50

// CommissionIsQuick reports whether the commission of some Indian months is cached, or can
// be added up while a page is loading.
func (svc *Service) CommissionIsQuick(ctx context.Context, operatorID int64, months ...time.Time) (bool, error) {
	now := svc.now()
	accounts, lines := 0, int64(0)
	err := svc.eachAccount(ctx, operatorID, func(a Account) error {
		for _, month := range months {
			from := Month(month)
			for _, s := range splitMonth(from, from.AddDate(0, 1, 0), now) {
				if svc.earned.has(periodOf{a.ID, s.from.Unix(), s.before.Unix()}, now, s.keep) {
					continue
				}
				if accounts++; accounts > accountsAtOnce {
					return errSlow
				}
				bounds, err := svc.store.LedgerBounds(ctx, a.ID, s.from, s.before)
				if err != nil {
					return fmt.Errorf("find the ledger's lines of operator %d: %w", a.ID, err)
				}
				if lines += bounds.Last - bounds.After; lines > int64(svc.sumLimit) {
					return errSlow
				}
			}
		}
		return nil
	})
	if errors.Is(err, errSlow) {
		return false, nil
	}
	return err == nil, err
}

// after adds an earlier sum of the same plan.
func (s CommissionSum) after(earlier CommissionSum) CommissionSum {
	s.Count, s.Reversals = s.Count+earlier.Count, s.Reversals+earlier.Reversals
	s.Sales, s.Commission = s.Sales.Add(earlier.Sales), s.Commission.Add(earlier.Commission)
	return s
}

// EachCommission calls each for the commissions of an Indian month, by operator and in the
// order of the ledger; of one operator, or of all if operatorID is zero.
func (svc *Service) EachCommission(ctx context.Context, operatorID int64, month time.Time, each func(CommissionLine) error) error {
	from := Month(month)
	return svc.eachAccount(ctx, operatorID, func(a Account) error {
		q := CommissionQuery{OperatorID: a.ID, From: from, Before: from.AddDate(0, 1, 0), Limit: maxPageRows}
		for {
			lines, err := svc.store.ListCommissions(ctx, q)
			if err != nil {
				return fmt.Errorf("list the commission of operator %d: %w", a.ID, err)
			}
			for i := range lines {
				lines[i].OperatorName = a.Name
			}
			if err := eachRow(lines, each); err != nil || len(lines) < q.Limit {
				return err
			}
			q.After = lines[len(lines)-1].Line
		}
	})
}

// eachAccount calls each for one operator, or for all, by id.
func (svc *Service) eachAccount(ctx context.Context, operatorID int64, each func(Account) error) error {
	q := AccountQuery{Limit: maxPageRows}
	if operatorID != 0 {
		q.After, q.Limit = operatorID-1, 1
	}
	for {
		accounts, err := svc.store.ListAccounts(ctx, q)
		if err != nil {
			return fmt.Errorf("list the operators: %w", err)
		}
		if operatorID != 0 && len(accounts) == 1 && accounts[0].ID != operatorID {
			return nil // the operator does not exist, and this is the next one
		}
		if err := eachRow(accounts, each); err != nil || operatorID != 0 || len(accounts) < q.Limit {
			return err
		}
		q.After = accounts[len(accounts)-1].ID
	}
}
