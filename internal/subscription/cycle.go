package subscription

import "time"

// Cycle is one paid period of a subscription. A renewal's cycle begins at once, an advance renewal's
// on its scheduled day.
type Cycle struct {
	PlanID   string
	StartsAt time.Time
	EndsAt   time.Time
}

// PlanAt returns the active plan: that of the cycle that began last. An expired subscriber has none,
// nor has one whose first cycle is in the future.
func PlanAt(cycles []Cycle, expires, now time.Time) (plan string, active bool) {
	if !expires.After(now) {
		return "", false
	}
	return LatestPlan(cycles, now)
}

// LatestPlan returns the plan of the cycle that began last, even if it has ended. Cycles are in the
// order of purchase; of two that begin together the later purchase counts.
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

// SubscriberStatus is the status that a look-up returns.
type SubscriberStatus string

// A pending subscriber is one whose activation has not been settled.
const (
	SubscriberActive  SubscriberStatus = "active"
	SubscriberExpired SubscriberStatus = "expired"
	SubscriberPending SubscriberStatus = "pending"
)

// StatusAt returns the status. A zero expiry means that the activation is not settled; at the moment
// of expiry the subscriber is expired.
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
