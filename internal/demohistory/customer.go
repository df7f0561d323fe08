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
	chance   *rand.Rand // their own, so that nobody's life depends on another's
	name     string
	address  string
	mobile   string

	plan    string // bought last
	expires time.Time
	step    int // how often something was ordered for them
	cycles  int // how often with success
	// leavesAfter is after how many cycles they do not come back; 0 if never.
	leavesAfter int
	// stops is when nothing is ordered for them any more.
	stops time.Time
	// arrival is their activation. What follows lives by chance, unless it is
	// laid down in visits.
	arrival  visit
	visits   []visit
	laidDown bool
}

// visit is one order that a customer comes for.
type visit struct {
	at   time.Time
	kind operation.Kind
	plan string
	// outcomes are how the simulator takes the orders; none is success.
	outcomes []simulator.Outcome
	// silent is the component whose order is not answered.
	silent string
	// hasty: somebody decides for themselves before the provider is asked.
	hasty bool
	// last: whatever becomes of it, nothing follows.
	last bool
}

// The plans of the demo, by how many people like them.
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

// inOpeningHours is a moment between half past nine and eight of the Indian day
// that another moment falls on.
func inOpeningHours(at time.Time, chance *rand.Rand) time.Time {
	y, m, d := at.In(subscription.IST).Date()
	opens := time.Date(y, m, d, 9, 30, 0, 0, subscription.IST)
	return opens.Add(time.Duration(chance.Int64N(int64(10*time.Hour+30*time.Minute))) / time.Millisecond * time.Millisecond)
}

// next is what a customer comes for next; false if nothing before the end.
func (c *customer) next(now time.Time) (visit, bool) {
	if c.laidDown {
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

// comesBack is when a customer thinks of renewing: most do shortly before the end,
// some well before, some when the screen has gone dark.
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

// other is a plan that somebody changes to.
func other(plan string) string {
	switch plan {
	case basic:
		return family
	case family, quarter:
		return combo
	}
	return basic
}

// troubleOf is what goes wrong with a customer's order, for those who are not
// lucky every time.
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
