package report

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// OperationTotal counts the operations of a kind in a state, and adds up their amounts.
type OperationTotal struct {
	Kind   operation.Kind
	State  operation.State
	Count  int
	Amount money.Amount
}

// DayTotals has the operations of one Indian day.
type DayTotals struct {
	Day    time.Time // its midnight
	Totals []OperationTotal
}

// Sum adds up the day's operations in some states; in all, if none is given.
func (d DayTotals) Sum(states ...operation.State) (count int, amount money.Amount) {
	for _, t := range d.Totals {
		wanted := len(states) == 0
		for _, state := range states {
			wanted = wanted || t.State == state
		}
		if wanted {
			count, amount = count+t.Count, amount.Add(t.Amount)
		}
	}
	return count, amount
}

// dayOf is the cache key of an operator's day; of all operators, if zero.
type dayOf struct {
	operatorID int64
	day        int64
}

const (
	// HomeDays is how many days the home page shows, including today.
	HomeDays = 30
	// todayKept is how old the figures of today may be; pastKept those of a past day,
	// which change only with reviews.
	todayKept = 10 * time.Second
	pastKept  = time.Hour
)

// Daily adds up the operations of the last Indian days, including today; of all operators
// if operatorID is zero.
func (svc *Service) Daily(ctx context.Context, operatorID int64, days int) ([]DayTotals, error) {
	now := svc.now()
	all := make([]DayTotals, 0, days)
	for back := days - 1; back >= 0; back-- {
		day, err := svc.dayTotals(ctx, operatorID, now, back)
		if err != nil {
			return nil, err
		}
		all = append(all, day)
	}
	return all, nil
}

// dayTotals adds up the operations of the day a number of days back.
func (svc *Service) dayTotals(ctx context.Context, operatorID int64, now time.Time, back int) (DayTotals, error) {
	from, keep := dayBack(now, back)
	trades, err := svc.days.get(dayOf{operatorID, from.Unix()}, now, keep, func() ([]OperationTotal, error) {
		return svc.store.OperationTotals(ctx, operatorID, from, from.Add(day))
	})
	if err != nil {
		return DayTotals{}, fmt.Errorf("add up the operations of %s: %w", from.Format(time.DateOnly), err)
	}
	found := DayTotals{Day: from, Totals: trades}
	if count, _ := found.Sum(); back == 0 && count <= svc.sumLimit {
		svc.days.drop(dayOf{operatorID, from.Unix()})
	}
	return found, nil
}

func dayBack(now time.Time, back int) (from time.Time, keep time.Duration) {
	if back == 0 {
		return Day(now), todayKept
	}
	return Day(now).Add(-time.Duration(back) * day), pastKept
}

// soonRows is how many subscribers who expire next the home page shows.
const soonRows = 10

// Home is the first page of the panel.
type Home struct {
	Wallet subscription.Wallet
	Counts SubscriberCounts
	Soon   []Subscriber
	// Today has the operations that were requested today.
	Today DayTotals
	// Figures take long to add up; nil if the caller did not wait for them.
	Figures *Figures
}

// Figures are the forecast and the last days' operations.
type Figures struct {
	Forecast Forecast
	// Days are the last HomeDays days, the oldest first; Before are those before them.
	Days, Before []DayTotals
}

// Home reads an operator's home page. The figures of a large operator are left out, unless
// they are cached or wait is set.
func (svc *Service) Home(ctx context.Context, operatorID int64, wait bool) (Home, error) {
	var h Home
	var err error
	if h.Wallet, err = svc.store.Wallet(ctx, operatorID); err != nil {
		return h, err
	}
	if h.Counts, err = svc.Counts(ctx, operatorID); err != nil {
		return h, fmt.Errorf("count the subscribers of operator %d: %w", operatorID, err)
	}
	soon, err := svc.Subscribers(ctx, operatorID, SubscriberFilter{Status: Active, Limit: soonRows})
	if err != nil {
		return h, err
	}
	h.Soon = soon.Rows
	now := svc.now()
	if h.Today, err = svc.dayTotals(ctx, operatorID, now, 0); err != nil {
		return h, err
	}
	if wait || h.Counts.All <= svc.sumLimit || svc.knowsFigures(operatorID, now) {
		h.Figures, err = svc.figures(ctx, operatorID, h.Wallet)
	}
	if h.Counts.All <= svc.sumLimit {
		svc.dues.drop(operatorID)
	}
	return h, err
}

func (svc *Service) figures(ctx context.Context, operatorID int64, wallet subscription.Wallet) (*Figures, error) {
	forecast, err := svc.Forecast(ctx, operatorID, wallet.Balance)
	if err != nil {
		return nil, err
	}
	days, err := svc.Daily(ctx, operatorID, 2*HomeDays)
	if err != nil {
		return nil, err
	}
	return &Figures{Forecast: forecast, Before: days[:HomeDays], Days: days[HomeDays:]}, nil
}

// knowsFigures reports whether an operator's figures are cached.
func (svc *Service) knowsFigures(operatorID int64, now time.Time) bool {
	for back := 1; back < 2*HomeDays; back++ {
		from, keep := dayBack(now, back)
		if !svc.days.has(dayOf{operatorID, from.Unix()}, now, keep) {
			return false
		}
	}
	return svc.dues.has(operatorID, now, duesKept)
}
