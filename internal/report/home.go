package report

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Trade is how many operations of a kind are in a state, and what they come to.
type Trade struct {
	Kind   operation.Kind
	State  operation.State
	Count  int
	Amount money.Amount
}

// DayTrade is one Indian day's trade.
type DayTrade struct {
	Day    time.Time // its midnight
	Trades []Trade
}

// Sum adds up the day's operations that are in any of some states; in all, if none
// is named.
func (d DayTrade) Sum(states ...operation.State) (count int, amount money.Amount) {
	for _, t := range d.Trades {
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

// dayOf is a day of an operator's; of all, if the operator is zero.
type dayOf struct {
	operatorID int64
	day        int64
}

const (
	// HomeDays is how many days the home page looks back, today included.
	HomeDays = 30
	// todayKept is how old the figures of today may be; pastKept of a day that is
	// over, where little changes but what was in review.
	todayKept = 10 * time.Second
	pastKept  = time.Hour
)

// Daily adds up the trade of the last so many Indian days, today the last of them;
// of all operators if operatorID is zero.
func (d *Service) Daily(ctx context.Context, operatorID int64, days int) ([]DayTrade, error) {
	now := d.now()
	all := make([]DayTrade, 0, days)
	for back := days - 1; back >= 0; back-- {
		trade, err := d.trade(ctx, operatorID, now, back)
		if err != nil {
			return nil, err
		}
		all = append(all, trade)
	}
	return all, nil
}

// trade adds up the day that was so many days back.
func (d *Service) trade(ctx context.Context, operatorID int64, now time.Time, back int) (DayTrade, error) {
	from, keep := dayBack(now, back)
	trades, err := d.days.recall(dayOf{operatorID, from.Unix()}, now, keep, func() ([]Trade, error) {
		return d.store.TradeBetween(ctx, operatorID, from, from.Add(day))
	})
	if err != nil {
		return DayTrade{}, fmt.Errorf("add up the trade of %s: %w", from.Format(time.DateOnly), err)
	}
	found := DayTrade{Day: from, Trades: trades}
	if count, _ := found.Sum(); back == 0 && count <= d.addedUpAtOnce {
		d.days.forget(dayOf{operatorID, from.Unix()})
	}
	return found, nil
}

func dayBack(now time.Time, back int) (from time.Time, keep time.Duration) {
	if back == 0 {
		return Day(now), todayKept
	}
	return Day(now).Add(-time.Duration(back) * day), pastKept
}

// soonRows is how many of those who expire next are shown at home.
const soonRows = 10

// Home is the first page of the panel.
type Home struct {
	Wallet subscription.Wallet
	Counts SubscriberCounts
	Soon   []Subscriber
	// Today is what was asked for today.
	Today DayTrade
	// Figures are what takes long to add up; nil if they were not waited for.
	Figures *Figures
}

// Figures are how far the wallet goes, and what there was.
type Figures struct {
	Forecast Forecast
	// Days are the last thirty, the oldest first; the last is today.
	Days []DayTrade
}

// Home reads what an operator sees first. The figures of a large operator are left
// out, unless they are known from a while ago, or whoever asks can wait for them.
func (d *Service) Home(ctx context.Context, operatorID int64, wait bool) (Home, error) {
	var h Home
	var err error
	if h.Wallet, err = d.store.Wallet(ctx, operatorID); err != nil {
		return h, err
	}
	if h.Counts, err = d.Counts(ctx, operatorID); err != nil {
		return h, fmt.Errorf("count the subscribers of operator %d: %w", operatorID, err)
	}
	soon, err := d.Subscribers(ctx, operatorID, SubscriberFilter{Standing: Active, Limit: soonRows})
	if err != nil {
		return h, err
	}
	h.Soon = soon.Rows
	now := d.now()
	if h.Today, err = d.trade(ctx, operatorID, now, 0); err != nil {
		return h, err
	}
	if wait || h.Counts.All <= d.addedUpAtOnce || d.knowsFigures(operatorID, now) {
		h.Figures, err = d.figures(ctx, operatorID, h.Wallet)
	}
	if h.Counts.All <= d.addedUpAtOnce {
		d.dues.forget(operatorID)
	}
	return h, err
}

func (d *Service) figures(ctx context.Context, operatorID int64, wallet subscription.Wallet) (*Figures, error) {
	forecast, err := d.Forecast(ctx, operatorID, wallet.Balance)
	if err != nil {
		return nil, err
	}
	days, err := d.Daily(ctx, operatorID, HomeDays)
	if err != nil {
		return nil, err
	}
	return &Figures{Forecast: forecast, Days: days}, nil
}

// knowsFigures reports whether an operator's figures are at hand.
func (d *Service) knowsFigures(operatorID int64, now time.Time) bool {
	for back := 1; back < HomeDays; back++ {
		from, keep := dayBack(now, back)
		if !d.days.knows(dayOf{operatorID, from.Unix()}, now, keep) {
			return false
		}
	}
	return d.dues.knows(operatorID, now, duesKept)
}
