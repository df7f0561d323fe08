package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// WeekDues adds up what falls due within 7 calendar days, by active operator. With many subscribers that takes
// long: unless it is cached or wait is set, it is left out, and later is true.
func (svc *Service) WeekDues(ctx context.Context, wait bool) (dues map[int64]money.Amount, later bool, err error) {
	now := svc.now()
	totals, err := svc.Totals(ctx)
	if err != nil {
		return nil, false, err
	}
	quick := totals.Subscribers <= svc.sumLimit
	if !quick && !wait && !svc.weekDues.has("", now, duesKept) {
		return nil, true, nil
	}
	keep := duesKept
	if quick {
		keep = 0 // people see their own changes at once
	}
	dues, err = svc.weekDues.get("", now, keep, func() (map[int64]money.Amount, error) {
		return svc.store.DueByOperator(ctx, now, subscription.LastWithin(7, now))
	})
	if err != nil {
		return nil, false, fmt.Errorf("add up what falls due for each operator: %w", err)
	}
	return dues, false, nil
}

// WeekDue adds up what falls due for an operator within 7 calendar days. For one with many subscribers it is as
// WeekDues has it, and zero if that is left out.
func (svc *Service) WeekDue(ctx context.Context, operatorID int64) (sum money.Amount, err error) {
	counts, err := svc.Counts(ctx, operatorID)
	if err != nil {
		return sum, err
	}
	if counts.All > svc.sumLimit {
		dues, _, err := svc.WeekDues(ctx, false)
		return dues[operatorID], err
	}
	now := svc.now()
	days, err := svc.store.DueByDay(ctx, operatorID, now, subscription.LastWithin(7, now))
	for _, due := range days {
		sum = sum.Add(due.Amount)
	}
	return sum, err
}

// LowAccounts returns the active operators with too little in their wallets, the lowest first; later as in WeekDues.
func (svc *Service) LowAccounts(ctx context.Context, wait bool) (low []Account, later bool, err error) {
	dues, later, err := svc.WeekDues(ctx, wait)
	if err != nil {
		return nil, false, err
	}
	for after := ""; ; {
		found, err := svc.Accounts(ctx, AccountFilter{Status: subscription.OperatorActive, After: after, Limit: maxPageRows})
		if err != nil {
			return nil, false, err
		}
		for _, account := range found.Rows {
			if account.Due = dues[account.ID]; account.Low() {
				low = append(low, account)
			}
		}
		if after = found.Next; after == "" {
			break
		}
	}
	slices.SortStableFunc(low, func(a, b Account) int { return cmp.Compare(a.Wallet.Balance.Paise(), b.Wallet.Balance.Paise()) })
	return low, later, nil
}
