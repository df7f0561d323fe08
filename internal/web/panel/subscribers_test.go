package panel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

var firstDay = time.Date(2026, 11, 1, 0, 0, 0, 0, subscription.IST)

// onDay is the midnight of a day, counted from the first.
func onDay(n int) time.Time { return firstDay.AddDate(0, 0, n) }

func detailOf(cycles ...subscription.Cycle) report.SubscriberDetail {
	return report.SubscriberDetail{Subscription: operation.Subscription{Cycles: cycles, Plans: map[string]string{"B": "Basic", "F": "Family"}}}
}

// As they are stored, the cycles of a renewal before the expiry overlap.
func TestCyclesOf_FollowEachOther(t *testing.T) {
	bought := func(plan string, starts, ends int) subscription.Cycle {
		return subscription.Cycle{PlanID: plan, StartsAt: onDay(starts), EndsAt: onDay(ends)}
	}
	for _, c := range []struct {
		name   string
		cycles []subscription.Cycle // in the order of purchase
		want   string               // on day 22
	}{
		{"none", nil, ""},
		{"one", []subscription.Cycle{bought("B", 0, 30)}, "Basic 0-30 now"},
		{"renewed before its end", []subscription.Cycle{bought("B", 0, 30), bought("B", 20, 60)}, "Basic 30-60 coming, Basic 0-30 now"},
		{"renewed twice in advance", []subscription.Cycle{bought("B", 0, 30), bought("B", 20, 60), bought("B", 21, 90)}, "Basic 60-90 coming, Basic 30-60 coming, Basic 0-30 now"},
		{"renewed onto another plan", []subscription.Cycle{bought("B", 0, 30), bought("F", 20, 60)}, "Family 20-60 now, Basic 0-20"},
		{"booked in advance", []subscription.Cycle{bought("B", 0, 30), bought("F", 30, 60)}, "Family 30-60 coming, Basic 0-30 now"},
		{"booked at the limit, before the expiry", []subscription.Cycle{bought("B", 0, 90), bought("F", 30, 120)}, "Family 30-120 coming, Basic 0-30 now"},
		{"renewed after booking another plan", []subscription.Cycle{bought("B", 0, 30), bought("F", 31, 61), bought("B", 20, 91)}, "Family 61-91 coming, Family 31-61 coming, Basic 30-31 coming, Basic 0-30 now"},
		{"renewed after it had expired", []subscription.Cycle{bought("B", 0, 10), bought("B", 15, 45)}, "Basic 15-45 now, Basic 0-10"},
		{"two that begin together", []subscription.Cycle{bought("B", 0, 30), bought("F", 0, 60)}, "Family 0-60 now"},
		{"a plan that is gone", []subscription.Cycle{bought("GONE-1", 0, 10)}, "GONE-1 0-10"},
	} {
		var got []string
		for _, one := range cyclesOf(detailOf(c.cycles...), onDay(22)) {
			text := fmt.Sprintf("%s %.0f-%.0f", one.Plan, one.StartsAt.Sub(firstDay).Hours()/24, one.EndsAt.Sub(firstDay).Hours()/24)
			switch {
			case one.Now:
				text += " now"
			case one.Coming:
				text += " coming"
			}
			got = append(got, text)
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
}

// Whatever is bought, no two cycles overlap, and at every moment that is paid the one shown has the plan
// that is active.
func TestCyclesOf_AgreeWithActivePlan(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		var cycles []subscription.Cycle
		var expires time.Time
		at := firstDay
		for range 1 + random.IntN(6) {
			now, months := at, 1+random.IntN(3)
			bought := subscription.Cycle{PlanID: []string{"B", "F"}[random.IntN(2)], StartsAt: now, EndsAt: subscription.RenewedUntil(expires, now, months)}
			if random.IntN(3) == 0 && !expires.IsZero() {
				bought.StartsAt = subscription.AdvanceCycleStart(expires, now)
				bought.EndsAt = subscription.AdvancedUntil(expires, bought.StartsAt, now, months)
			}
			cycles, expires = append(cycles, bought), bought.EndsAt
			at = at.Add(time.Duration(1+random.IntN(40*24)) * time.Hour)
		}
		shown := cyclesOf(detailOf(cycles...), firstDay)
		for i := 1; i < len(shown); i++ {
			if shown[i].EndsAt.After(shown[i-1].StartsAt) {
				t.Fatalf("seed %d: %+v and %+v overlap", seed, shown[i], shown[i-1])
			}
		}
		for _, one := range shown {
			for _, moment := range []time.Time{one.StartsAt, one.EndsAt.Add(-time.Millisecond)} {
				if plan, active := subscription.PlanAt(cycles, expires, moment); !active || detailOf().Plans[plan] != one.Plan {
					t.Fatalf("seed %d: at %s the plan is %s, %v; shown is %+v", seed, moment, plan, active, one)
				}
			}
		}
		if i := slices.IndexFunc(shown, func(c cycle) bool { return !c.EndsAt.After(c.StartsAt) }); i >= 0 || !shown[0].EndsAt.Equal(expires) {
			t.Fatalf("seed %d: cycles %+v do not end with the expiry %s", seed, shown, expires)
		}
	}
}
