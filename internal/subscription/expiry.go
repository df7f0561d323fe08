package subscription

import "time"

// IST is Indian Standard Time as a fixed zone: India has no daylight saving time, and an expiry must
// not depend on the machine's time zone data.
var IST = time.FixedZone("IST", 5*60*60+30*60)

const (
	day       = 24 * time.Hour
	monthDays = 30
	// advanceCapDays is the provider's limit on how far ahead a cycle may
	// start.
	advanceCapDays = 29
)

// ActivationTerm says how long an activation lasts.
type ActivationTerm string

// The contract gives thirty days with every plan; PlanTerm gives the plan's duration.
const (
	ThirtyDays ActivationTerm = "30d"
	PlanTerm   ActivationTerm = "plan"
)

// Term is the duration of a number of months.
func Term(months int) time.Duration { return time.Duration(months) * monthDays * day }

// ActivatedUntil is the expiry of a subscriber activated now.
func ActivatedUntil(now time.Time, term ActivationTerm, months int) time.Time {
	if term == PlanTerm {
		return now.Add(Term(months))
	}
	return now.Add(monthDays * day)
}

// RenewedUntil is the expiry after a renewal: the term is added to the current expiry, or to now if
// that has passed.
func RenewedUntil(expires, now time.Time, months int) time.Time {
	return latest(expires, now).Add(Term(months))
}

// AdvanceStart is the day on which an advance renewal's cycle begins, as that
// day's midnight in India: the day after the current expiry, but at most 29
// days from today; today, if the subscriber has already expired.
func AdvanceStart(expires, now time.Time) time.Time {
	today := midnight(now)
	if !expires.After(now) {
		return today
	}
	start := midnight(expires).Add(day)
	if limit := today.Add(advanceCapDays * day); start.After(limit) {
		return limit
	}
	return start
}

// AdvanceCycleStart is the moment on that day at which the new cycle begins: midnight, or now if that
// has passed, so that the cycle comes after one that began earlier today.
func AdvanceCycleStart(expires, now time.Time) time.Time {
	return latest(AdvanceStart(expires, now), now)
}

// AdvancedUntil is the expiry after an advance renewal that starts on the given
// day. If the limit moves the start before the current expiry, the term still counts from that
// expiry: no paid day is lost.
func AdvancedUntil(expires, start, now time.Time, months int) time.Time {
	return latest(latest(expires, start), now).Add(Term(months))
}

// DaysRemaining returns the days until the expiry, rounded up, at least zero.
func DaysRemaining(expires, now time.Time) int {
	left := expires.Sub(now)
	if left <= 0 {
		return 0
	}
	return int((left + day - 1) / day)
}

// DaysLeft counts the midnights in India until the expiry, as a calendar does: 0 is today, 1 is tomorrow.
// It is 0 after the expiry, too.
func DaysLeft(expires, now time.Time) int {
	return max(0, int(midnight(expires).Sub(midnight(now))/day))
}

// LastWithin is the last moment, in whole milliseconds, of the days that are within a number of days
// from now: of an expiry until then, DaysLeft is at most that number. Every card, list and sum of those
// who expire within some days counts until this moment.
func LastWithin(days int, now time.Time) time.Time {
	return midnight(now).Add(time.Duration(days+1)*day - time.Millisecond)
}

// midnight is the start of the Indian day that t falls on.
func midnight(t time.Time) time.Time {
	y, m, d := t.In(IST).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, IST)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
