package demohistory

import (
	"math/rand/v2"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/subscription"
)

// customer is one made-up person.
type customer struct {
	number   int
	operator *operator
	chance   *rand.Rand // one for each, so that customers do not depend on each other
	name     string
	address  string
	mobile   string

	plan    string // bought last
	expires time.Time
	step    int // orders so far
	cycles  int // successful orders so far
	// leavesAfter is the number of cycles after which they do not come back; 0 = never.
	leavesAfter int
	// stops is when their orders end.
	stops time.Time
	// arrival is their activation. Further visits are random, unless scripted is set.
	arrival  visit
	visits   []visit
	scripted bool
}

// visit is one order of a customer.
type visit struct {
	at   time.Time
	kind operation.Kind
	plan string
	// outcomes are scripted for the simulator; none means success.
	outcomes []simulator.Outcome
	// silent is the component whose order is not answered.
	silent string
	// settledEarly: staff settle the review before the provider's status is known.
	settledEarly bool
	// last: no further visit follows, whatever the outcome.
	last bool
}

// The plans of the demo.
const (
	basic   = "BASIC-1"
	family  = "FAMILY-1"
	quarter = "FAMILY-3"
	combo   = "COMBO-1"
)

func likedPlan(chance *rand.Rand) string {
	switch n := chance.IntN(100); {
	case n < 48:
		return basic
	case n < 82:
		return family
	default:
		return combo
	}
}

// inOpeningHours returns a random time between 9:30 and 20:00 of a time's day in India.
func inOpeningHours(at time.Time, chance *rand.Rand) time.Time {
	y, m, d := at.In(subscription.IST).Date()
	opens := time.Date(y, m, d, 9, 30, 0, 0, subscription.IST)
	return opens.Add(time.Duration(chance.Int64N(int64(10*time.Hour+30*time.Minute))) / time.Millisecond * time.Millisecond)
}

// next returns a customer's next visit; false if there is none.
func (c *customer) next(now time.Time) (visit, bool) {
	if c.scripted {
		if len(c.visits) == 0 {
			return visit{}, false
		}
		v := c.visits[0]
		c.visits = c.visits[1:]
		return v, true
	}
	if c.leavesAfter > 0 && c.cycles >= c.leavesAfter {
		return visit{}, false
	}
	v := visit{kind: operation.Renew, plan: c.plan, at: c.comesBack(now)}
	if !v.at.Before(c.stops) {
		return v, false
	}
	early := v.at.Before(c.expires)
	switch n := c.chance.IntN(100); {
	case early && n < 12:
		v.kind, v.plan = operation.AdvanceRenew, other(c.plan)
	case n < 20:
		v.plan = other(c.plan)
	case n < 27 && c.plan == family:
		v.plan = quarter
	}
	v.outcomes = troubleOf(c.number, c.step)
	return v, true
}

// comesBack returns when a customer renews: most do shortly before the expiry, some well
// before, some after it.
func (c *customer) comesBack(now time.Time) time.Time {
	days := 0
	switch n := c.chance.IntN(100); {
	case n < 55:
		days = -c.chance.IntN(3)
	case n < 70:
		days = -3 - c.chance.IntN(3)
	case n < 90:
		days = 1
	default:
		days = 2 + c.chance.IntN(5)
	}
	at := inOpeningHours(c.expires.Add(time.Duration(days)*day), c.chance)
	if at.Before(now.Add(time.Hour)) {
		at = inOpeningHours(now.Add(day), c.chance)
	}
	return at
}

// other returns the plan that a customer changes to.
func other(plan string) string {
	switch plan {
	case basic:
		return family
	case family, quarter:
		return combo
	}
	return basic
}

// troubleOf returns the scripted failures of a customer's order; nil for most.
func troubleOf(number, step int) []simulator.Outcome {
	switch {
	case step == 1 && (number == 70 || number == 95 || number == 160):
		return []simulator.Outcome{simulator.ResetApplied}
	case step == 1 && (number == 55 || number == 130):
		return []simulator.Outcome{simulator.GatewayError}
	case step == 1 && number == 77:
		return []simulator.Outcome{simulator.WrongReference}
	case step == number%2 && number%21 == 20:
		return []simulator.Outcome{simulator.Reject}
	}
	return nil
}
