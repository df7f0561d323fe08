package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/report"
)

// expiringWithin compares the numbers of the panel's cards with its lists and with the forecast,
// at several times of two days, for random expiries and for those around midnight.
func expiringWithin(h *harness) {
	s := h.fixture("1000")
	dear, err := s.SetPlan(s.Context(), staffAction("plan set"), plan("DEAR-1", "447", "TV-BASIC"))
	s.must(err)
	chance := rand.New(rand.NewPCG(7, 30))
	midnight := report.Day(noon)
	var rows []admin.ImportRow
	add := func(expires time.Time) {
		n := len(rows) + 1
		planID := []string{s.plan.ID, dear.ID}[chance.IntN(2)]
		rows = append(rows, admin.ImportRow{
			Line: n, OperatorID: s.operator.ID, SubscriberID: fmt.Sprint(100000 + n), Mobile: fmt.Sprint(9800000000 + n), Name: "somebody",
			PlanID: planID, Expires: expires,
		})
	}
	for days := -1; days <= 32; days++ {
		at := midnight.Add(time.Duration(days) * oneDay)
		add(at.Add(-time.Millisecond))
		add(at)
	}
	for range 150 {
		add(midnight.Add(time.Duration(chance.IntN(35*24*60)-24*60) * time.Minute))
	}
	_, err = s.ImportSubscribers(s.Context(), staffAction("subscriber import"), rows)
	s.must(err)

	for _, now := range []time.Time{noon, midnight.Add(oneDay - time.Millisecond), midnight.Add(oneDay), midnight.Add(oneDay + time.Duration(chance.IntN(24*60))*time.Minute)} {
		service := s.service(now)
		home, err := service.Home(s.Context(), s.operator.ID, true)
		s.must(err)
		counts, forecast := home.Counts, home.Figures.Forecast
		for days, card := range map[int]int{3: counts.In3, 7: counts.In7, 15: counts.In15} {
			list, err := service.Subscribers(s.Context(), s.operator.ID, report.SubscriberFilter{Status: report.Expiring, Within: days, Limit: 500})
			s.must(err)
			var sum, due money.Amount
			for _, one := range list.Rows {
				if left := one.DaysLeft(now); left > days {
					s.Errorf("at %s the list within %d days has one with %d days left", now, days, left)
				}
				sum = sum.Add(one.Price)
			}
			dueCount := 0
			for _, d := range forecast.Days {
				if d.Day.Sub(report.Day(now)) <= time.Duration(days)*oneDay {
					dueCount, due = dueCount+d.Subscribers, due.Add(d.Amount)
				}
			}
			if len(list.Rows) == 0 || list.Next != "" || card != len(list.Rows) || dueCount != len(list.Rows) || due != sum {
				s.Errorf("at %s, within %d days: card %d, list %d for %s (next page %q), forecast %d for %s; want the same",
					now, days, card, len(list.Rows), sum, list.Next, dueCount, due)
			}
			if days == 7 && (forecast.Week.Subscribers != card || forecast.Week.Amount != sum) {
				s.Errorf("at %s the forecast's week has %d for %s; the list has %d for %s", now, forecast.Week.Subscribers, forecast.Week.Amount, card, sum)
			}
		}
	}
}
