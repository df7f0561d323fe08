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

// CommissionSum is what the MSO earned of an operator with a plan.
type CommissionSum struct {
	OperatorID   int64
	OperatorName string
	PlanID       string
	PlanName     string // as it was called when it was last sold in the period
	Count        int
	Sales        money.Amount
	Commission   money.Amount
}

// CommissionLine is what one operation earned.
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

// CommissionQuery asks for an operator's lines of a period, behind one.
type CommissionQuery struct {
	OperatorID   int64
	From, Before time.Time
	After        int64
	Limit        int
}

// LedgerDisorder is how far apart the moments of two ledger lines can be at most
// that stand in the other order. Commissions of a period are looked for among the
// lines of the period and of so much before and after, and picked by their moment.
const LedgerDisorder = time.Hour

// periodOf is a stretch of an operator's time.
type periodOf struct {
	operatorID   int64
	from, before int64
}

// stretch is a time whose sums are kept together, and for how long.
type stretch struct {
	from, before time.Time
	keep         time.Duration
}

const (
	// monthKept is how long the sums of a month that is over are kept: nothing is
	// added to it any more. Of the running month the days before today hardly change,
	// and today does with every sale.
	monthKept   = 6 * time.Hour
	elapsedKept = time.Hour
	runningKept = time.Minute
)

// stretchesOf takes a month apart into what is kept for longer and what is not.
func stretchesOf(from, before, now time.Time) []stretch {
	switch today := Day(now); {
	// What was settled a moment ago may not be written yet.
	case !now.Before(before.Add(LedgerDisorder)):
		return []stretch{{from, before, monthKept}}
	case today.After(from) && today.Before(before):
		return []stretch{{from, today, elapsedKept}, {today, before, runningKept}}
	}
	return []stretch{{from, before, runningKept}}
}

// Commission adds up the commission of an Indian month, by operator and plan; of one
// operator, or of all if operatorID is zero.
func (d *Service) Commission(ctx context.Context, operatorID int64, month time.Time) ([]CommissionSum, error) {
	from := Month(month)
	before, now, sums := from.AddDate(0, 1, 0), d.now(), []CommissionSum{}
	err := d.eachAccount(ctx, operatorID, func(a Account) error {
		plans := map[string]CommissionSum{}
		for _, s := range stretchesOf(from, before, now) {
			found, err := d.earned.recall(periodOf{a.ID, s.from.Unix(), s.before.Unix()}, now, s.keep, func() ([]CommissionSum, error) {
				return d.store.CommissionSums(ctx, a.ID, s.from, s.before)
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

// errSlow ends a look at what there is to add up.
var errSlow = errors.New("there is much to add up")

// accountsAtOnce is how many operators are looked at while a page waits whose sums are
// not known.
const accountsAtOnce = 50

// CommissionIsQuick reports whether the commission of an Indian month is known, or can
// be added up while a page waits for it.
func (d *Service) CommissionIsQuick(ctx context.Context, operatorID int64, month time.Time) (bool, error) {
	from, now := Month(month), d.now()
	before := from.AddDate(0, 1, 0)
	accounts, lines := 0, int64(0)
	err := d.eachAccount(ctx, operatorID, func(a Account) error {
		for _, s := range stretchesOf(from, before, now) {
			if d.earned.knows(periodOf{a.ID, s.from.Unix(), s.before.Unix()}, now, s.keep) {
				continue
			}
			if accounts++; accounts > accountsAtOnce {
				return errSlow
			}
			bounds, err := d.store.LedgerBounds(ctx, a.ID, s.from, s.before)
			if err != nil {
				return fmt.Errorf("find the ledger's lines of operator %d: %w", a.ID, err)
			}
			if lines += bounds.Last - bounds.After; lines > int64(d.addedUpAtOnce) {
				return errSlow
			}
		}
		return nil
	})
	if errors.Is(err, errSlow) {
		return false, nil
	}
	return err == nil, err
}

// after is the sum with what was earned earlier with the same plan.
func (s CommissionSum) after(earlier CommissionSum) CommissionSum {
	s.Count, s.Sales, s.Commission = s.Count+earlier.Count, s.Sales.Add(earlier.Sales), s.Commission.Add(earlier.Commission)
	return s
}

// EachCommission gives the commissions of an Indian month one by one, by operator and
// in the order of the ledger; of one operator, or of all if operatorID is zero.
func (d *Service) EachCommission(ctx context.Context, operatorID int64, month time.Time, each func(CommissionLine) error) error {
	from := Month(month)
	return d.eachAccount(ctx, operatorID, func(a Account) error {
		q := CommissionQuery{OperatorID: a.ID, From: from, Before: from.AddDate(0, 1, 0), Limit: mostRows}
		for {
			lines, err := d.store.ListCommissions(ctx, q)
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

// eachAccount gives one operator, or all, by id.
func (d *Service) eachAccount(ctx context.Context, operatorID int64, each func(Account) error) error {
	q := AccountQuery{Limit: mostRows}
	if operatorID != 0 {
		q.After, q.Limit = operatorID-1, 1
	}
	for {
		accounts, err := d.store.ListAccounts(ctx, q)
		if err != nil {
			return fmt.Errorf("list the operators: %w", err)
		}
		if operatorID != 0 && len(accounts) == 1 && accounts[0].ID != operatorID {
			return nil // there is no such operator, and this is the next one
		}
		if err := eachRow(accounts, each); err != nil || operatorID != 0 || len(accounts) < q.Limit {
			return err
		}
		q.After = accounts[len(accounts)-1].ID
	}
}
