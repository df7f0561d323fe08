package report

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Due is the cost of one Indian day, if every subscriber who expires on it is renewed with
// their plan.
type Due struct {
	Day         time.Time // its midnight
	Subscribers int
	Amount      money.Amount
}

// ForecastDays is how many calendar days after today a forecast covers.
const ForecastDays = 30

// Forecast is how long a wallet's balance lasts.
type Forecast struct {
	// Week and Month are what falls due within 7 and 30 calendar days.
	Week, Month Due
	// LastsUntil is the first day whose renewals the balance does not cover; zero if it
	// covers the whole forecast.
	LastsUntil time.Time
	// Missing is how much the balance falls short of the whole forecast.
	Missing money.Amount
	// Days are the days on which anything falls due, in order.
	Days []Due
}

// Covered reports whether the balance covers the whole forecast.
func (f Forecast) Covered() bool { return f.LastsUntil.IsZero() }

// NewForecast computes a forecast. Dues are in the order of their days.
func NewForecast(balance money.Amount, dues []Due, now time.Time) Forecast {
	f := Forecast{Days: dues, Week: Due{Day: Day(now)}, Month: Due{Day: Day(now)}}
	week := subscription.LastWithin(7, now)
	var sum money.Amount
	for _, due := range dues {
		sum = sum.Add(due.Amount)
		f.Month.Subscribers, f.Month.Amount = f.Month.Subscribers+due.Subscribers, sum
		if !due.Day.After(week) {
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

// duesKept is how old a forecast's dues may be. Adding them up reads every subscriber who
// expires within thirty days, which is nearly all of them.
const duesKept = 5 * time.Minute

// Forecast computes an operator's forecast from cached dues and the given balance.
func (svc *Service) Forecast(ctx context.Context, operatorID int64, balance money.Amount) (Forecast, error) {
	now := svc.now()
	dues, err := svc.dues.get(operatorID, now, duesKept, func() ([]Due, error) {
		return svc.store.DueByDay(ctx, operatorID, now, subscription.LastWithin(ForecastDays, now))
	})
	if err != nil {
		return Forecast{}, fmt.Errorf("add up what falls due for operator %d: %w", operatorID, err)
	}
	return NewForecast(balance, dues, now), nil
}
