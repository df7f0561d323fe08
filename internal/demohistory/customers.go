package demohistory

import (
	"math/rand/v2"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/subscription"
)

const (
	// randomCustomers is how many subscribers with random visits the first operator has;
	// earlyCustomers of them come in the first weeks.
	randomCustomers = 228
	earlyCustomers  = 170
	// scriptedFrom is the number of the first customer with scripted visits.
	scriptedFrom = 400
	// othersFrom is the number of the first customer of another operator.
	othersFrom = 600
)

// firstCustomers returns the customers of the first operator.
func firstCustomers(first *operator, begins, ends time.Time) []*customer {
	var all []*customer
	for number := range randomCustomers {
		c := newCustomer(first, number)
		joins := 1 + c.chance.IntN(32)
		if number >= earlyCustomers {
			joins = 30 + c.chance.IntN(56)
		}
		if c.chance.IntN(100) < 15 {
			c.leavesAfter = 1 + c.chance.IntN(2)
		}
		c.plan, c.stops = likedPlan(c.chance), ends
		c.begin(inOpeningHours(begins.Add(time.Duration(joins)*day), c.chance))
		all = append(all, c)
	}
	return append(all, scriptedCustomers(first, ends)...)
}

// begin sets when a customer is activated.
func (c *customer) begin(at time.Time) {
	c.arrival = visit{at: at, kind: operation.Activate, plan: c.plan, outcomes: troubleOf(c.number, 0)}
}

func newCustomer(of *operator, number int) *customer {
	chance := rand.New(rand.NewPCG(seed, uint64(number)))
	return &customer{
		number: number, operator: of, chance: chance, mobile: mobileOf(number), name: nameOf(number, chance), address: addressOf(chance),
	}
}

// scriptedCustomers returns customers with scripted visits, so that every page has something
// to show.
func scriptedCustomers(first *operator, ends time.Time) []*customer {
	var all []*customer
	add := func(visits ...visit) {
		c := newCustomer(first, scriptedFrom+len(all))
		c.arrival, c.visits, c.scripted = visits[0], visits[1:], true
		all = append(all, c)
	}
	// renewing adds a customer who was activated about 29 days before one further visit.
	renewing := func(plan string, v visit) {
		add(visit{at: v.at.Add(-29*day - time.Hour), kind: operation.Activate, plan: plan}, v)
	}

	// Subscriptions that expire later today.
	left := midnightAfter(ends).Sub(ends)
	for i := range 5 {
		e := ends.Add(left * time.Duration(2+i) / 8)
		terms := 1 + i%3
		visits := []visit{{at: e.Add(-time.Duration(terms) * 30 * day), kind: operation.Activate, plan: []string{basic, family}[i%2]}}
		for n := terms - 1; n > 0; n-- {
			visits = append(visits, visit{at: e.Add(-time.Duration(n)*30*day - 7*time.Hour), kind: operation.Renew, plan: visits[0].plan})
		}
		add(visits...)
	}

	// Three operations of different age whose outcome stays unknown.
	add(visit{at: ends.Add(-76 * time.Hour), kind: operation.Activate, plan: family, outcomes: unknowable, silent: "TV-FAMILY", last: true})
	renewing(basic, visit{at: ends.Add(-26 * time.Hour), kind: operation.Renew, plan: basic, outcomes: unknowable, silent: "TV-BASIC", last: true})
	renewing(combo, visit{at: ends.Add(-41 * time.Minute), kind: operation.Renew, plan: family, outcomes: unknowable, silent: "TV-FAMILY", last: true})

	// A combo whose add-on is missing.
	renewing(family, visit{
		at: ends.Add(-5*day - 3*time.Hour), kind: operation.Renew, plan: combo,
		outcomes: []simulator.Outcome{simulator.Success, simulator.Unknowable}, silent: "OTT-PLUS",
	})
	// A refund that staff decided too soon.
	renewing(family, visit{
		at: ends.Add(-8*day - 5*time.Hour), kind: operation.Renew, plan: family,
		outcomes: []simulator.Outcome{simulator.ResetApplied}, settledEarly: true, last: true,
	})

	// The last half hour.
	for i, minutes := range []int{27, 19, 12} {
		renewing([]string{basic, family, combo}[i], visit{
			at: ends.Add(-time.Duration(minutes) * time.Minute), kind: operation.Renew, plan: []string{basic, quarter, combo}[i],
		})
	}
	add(visit{at: ends.Add(-15 * time.Minute), kind: operation.Activate, plan: family})
	renewing(basic, visit{at: ends.Add(-6 * time.Minute), kind: operation.AdvanceRenew, plan: family})
	return all
}

var unknowable = []simulator.Outcome{simulator.Unknowable}

// otherCustomers returns the customers of another operator.
func otherCustomers(of *operator, from, count int, begins, ends time.Time) []*customer {
	var all []*customer
	for i := range count {
		c := newCustomer(of, from+i)
		if c.chance.IntN(100) < 20 {
			c.leavesAfter = 1
		}
		c.plan, c.stops = likedPlan(c.chance), ends
		c.begin(inOpeningHours(begins.Add(time.Duration(1+c.chance.IntN(20))*day), c.chance))
		all = append(all, c)
	}
	return all
}

// midnightAfter returns the end of a time's day in India.
func midnightAfter(at time.Time) time.Time {
	y, m, d := at.In(subscription.IST).Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, subscription.IST)
}
