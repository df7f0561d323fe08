package subscription

import "time"

// Cycle is one paid stretch of a subscription. A renewal's cycle begins at
// once; an advance renewal's on its scheduled day.
type Cycle struct {
	PlanID   string
	StartsAt time.Time
	EndsAt   time.Time
}

// PlanAt returns the plan that is active at a moment: that of the cycle which
// began last. An expired subscriber has no active plan, and neither has one
// whose first cycle is still to come.
func PlanAt(cycles []Cycle, expires, now time.Time) (plan string, active bool) {
	if !expires.After(now) {
		return "", false
	}
	return LatestPlan(cycles, now)
}

// LatestPlan returns the plan of the cycle that began last, whether or not it
// has ended since. Cycles are given in the order they were bought, which decides
// between two that begin together.
func LatestPlan(cycles []Cycle, now time.Time) (plan string, found bool) {
	var began time.Time
	for _, cycle := range cycles {
		if cycle.StartsAt.After(now) || (found && cycle.StartsAt.Before(began)) {
			continue
		}
		plan, began, found = cycle.PlanID, cycle.StartsAt, true
	}
	return plan, found
}

// SubscriberStatus is what a look-up says of a subscriber.
type SubscriberStatus string

// A pending subscriber is one whose activation has not been settled.
const (
	SubscriberActive  SubscriberStatus = "active"
	SubscriberExpired SubscriberStatus = "expired"
	SubscriberPending SubscriberStatus = "pending"
)

// StatusAt says how a subscriber stands. A zero expiry means that the
// activation has not been settled; at the very moment of expiry it is over.
func StatusAt(expires, now time.Time) SubscriberStatus {
	switch {
	case expires.IsZero():
		return SubscriberPending
	case expires.After(now):
		return SubscriberActive
	default:
		return SubscriberExpired
	}
}
