package report

import (
	"context"
	"fmt"
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
	Most         int
}

// LedgerDisorder is how far apart the moments of two ledger lines can be at most
// that stand in the other order. Commissions of a period are looked for among the
// lines of the period and of so much before and after, and picked by their moment.
const LedgerDisorder = time.Hour

// periodOf is a month of an operator's.
type periodOf struct {
	operatorID int64
	month      int64
}

const (
	// monthKept is how long the sums of a month that is over are kept: nothing is
	// added to it any more. The running month changes with every sale.
	monthKept   = 6 * time.Hour
	runningKept = time.Minute
)

// Commission adds up the commission of an Indian month, by operator and plan; of one
// operator, or of all if operatorID is zero.
func (d *Desk) Commission(ctx context.Context, operatorID int64, month time.Time) ([]CommissionSum, error) {
	from := Month(month)
	before, now, sums := from.AddDate(0, 1, 0), d.now(), []CommissionSum{}
	err := d.eachAccount(ctx, operatorID, func(a Account) error {
		keep := monthKept
		// What was settled a moment ago may not be written yet.
		if now.Before(before.Add(LedgerDisorder)) {
			keep = runningKept
		}
		found, err := d.earned.recall(periodOf{a.ID, from.Unix()}, now, keep, func() ([]CommissionSum, error) {
			return d.store.CommissionSums(ctx, a.ID, from, before)
		})
		if err != nil {
			return fmt.Errorf("add up the commission of operator %d: %w", a.ID, err)
		}
		for _, sum := range found {
			sum.OperatorName = a.Name
			sums = append(sums, sum)
		}
		return nil
	})
	return sums, err
}

// EachCommission gives the commissions of an Indian month one by one, by operator and
// in the order of the ledger; of one operator, or of all if operatorID is zero.
func (d *Desk) EachCommission(ctx context.Context, operatorID int64, month time.Time, each func(CommissionLine) error) error {
	from := Month(month)
	return d.eachAccount(ctx, operatorID, func(a Account) error {
		q := CommissionQuery{OperatorID: a.ID, From: from, Before: from.AddDate(0, 1, 0), Most: mostRows}
		for {
			lines, err := d.store.ListCommissions(ctx, q)
			if err != nil {
				return fmt.Errorf("list the commission of operator %d: %w", a.ID, err)
			}
			for i := range lines {
				lines[i].OperatorName = a.Name
			}
			if err := eachRow(lines, each); err != nil || len(lines) < q.Most {
				return err
			}
			q.After = lines[len(lines)-1].Line
		}
	})
}

// eachAccount gives one operator, or all, by id.
func (d *Desk) eachAccount(ctx context.Context, operatorID int64, each func(Account) error) error {
	q := AccountQuery{Most: mostRows}
	if operatorID != 0 {
		q.After, q.Most = operatorID-1, 1
	}
	for {
		accounts, err := d.store.ListAccounts(ctx, q)
		if err != nil {
			return fmt.Errorf("list the operators: %w", err)
		}
		if operatorID != 0 && len(accounts) == 1 && accounts[0].ID != operatorID {
			return nil // there is no such operator, and this is the next one
		}
		if err := eachRow(accounts, each); err != nil || operatorID != 0 || len(accounts) < q.Most {
			return err
		}
		q.After = accounts[len(accounts)-1].ID
	}
}
