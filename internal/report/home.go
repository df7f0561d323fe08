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
func (d *Desk) Daily(ctx context.Context, operatorID int64, days int) ([]DayTrade, error) {
	now := d.now()
	today := Day(now)
	all := make([]DayTrade, 0, days)
	for back := days - 1; back >= 0; back-- {
		from, keep := today.Add(-time.Duration(back)*day), pastKept
		if back == 0 {
			keep = todayKept
		}
		trades, err := d.days.recall(dayOf{operatorID, from.Unix()}, now, keep, func() ([]Trade, error) {
			return d.store.TradeBetween(ctx, operatorID, from, from.Add(day))
		})
		if err != nil {
			return nil, fmt.Errorf("add up the trade of %s: %w", from.Format(time.DateOnly), err)
		}
		all = append(all, DayTrade{Day: from, Trades: trades})
	}
	return all, nil
}

// soonRows is how many of those who expire next are shown at home.
const soonRows = 10

// Home is the first page of the panel.
type Home struct {
	Wallet   subscription.Wallet
	Forecast Forecast
	Counts   SubscriberCounts
	Soon     []Subscriber
	// Days are the last thirty, the oldest first; the last is today.
	Days []DayTrade
}

// Today is what was asked for today.
func (h Home) Today() DayTrade { return h.Days[len(h.Days)-1] }

// Home reads what an operator sees first.
func (d *Desk) Home(ctx context.Context, operatorID int64) (Home, error) {
	var h Home
	var err error
	if h.Wallet, err = d.store.Wallet(ctx, operatorID); err != nil {
		return h, err
	}
	if h.Forecast, err = d.Forecast(ctx, operatorID, h.Wallet.Balance); err != nil {
		return h, err
	}
	if h.Counts, err = d.Counts(ctx, operatorID); err != nil {
		return h, fmt.Errorf("count the subscribers of operator %d: %w", operatorID, err)
	}
	soon, err := d.Subscribers(ctx, operatorID, SubscriberFilter{Standing: Active, Most: soonRows})
	if err != nil {
		return h, err
	}
	h.Soon = soon.Rows
	h.Days, err = d.Daily(ctx, operatorID, HomeDays)
	return h, err
}
