package report

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// Due is what falls due on one Indian day, if everybody who expires on it is renewed
// with the plan that they had.
type Due struct {
	Day         time.Time // its midnight
	Subscribers int
	Amount      money.Amount
}

// ForecastDays is how far a forecast looks ahead.
const ForecastDays = 30

// Forecast is how far a wallet goes.
type Forecast struct {
	// Week and Month are what falls due in the next 7 and 30 days.
	Week, Month Due
	// LastsUntil is the first day whose renewals the balance does not cover; zero if
	// it covers all that the forecast sees.
	LastsUntil time.Time
	// Missing is how much the balance falls short of all that it sees.
	Missing money.Amount
	// Days are the days on which anything falls due, in order.
	Days []Due
}

// Covered reports whether the balance covers everything in sight.
func (f Forecast) Covered() bool { return f.LastsUntil.IsZero() }

// NewForecast works out how far a balance goes. Dues come in the order of their days.
func NewForecast(balance money.Amount, dues []Due, now time.Time) Forecast {
	f := Forecast{Days: dues, Week: Due{Day: Day(now)}, Month: Due{Day: Day(now)}}
	// The days are whole: the seventh from today is the last of the week.
	week := Day(now).Add(7 * day)
	var sum money.Amount
	for _, due := range dues {
		sum = sum.Add(due.Amount)
		f.Month.Subscribers, f.Month.Amount = f.Month.Subscribers+due.Subscribers, sum
		if due.Day.Before(week) {
			f.Week.Subscribers, f.Week.Amount = f.Month.Subscribers, sum
		}
		if f.LastsUntil.IsZero() && balance.Less(sum) {
			f.LastsUntil = due.Day
		}
	}
	if balance.Less(sum) {
		f.Missing = sum.Sub(balance)
	}
	return f
}

// duesKept is how old a forecast's dues may be. To add them up takes a look at every
// subscriber who expires within thirty days, which is nearly all of them.
const duesKept = 5 * time.Minute

// Forecast works out how far an operator's wallet goes, from dues of the last few
// minutes and from the balance as it is.
func (d *Service) Forecast(ctx context.Context, operatorID int64, balance money.Amount) (Forecast, error) {
	now := d.now()
	dues, err := d.dues.recall(operatorID, now, duesKept, func() ([]Due, error) {
		return d.store.DueByDay(ctx, operatorID, now, Day(now).Add(ForecastDays*day-time.Millisecond))
	})
	if err != nil {
		return Forecast{}, fmt.Errorf("add up what falls due for operator %d: %w", operatorID, err)
	}
	return NewForecast(balance, dues, now), nil
}
