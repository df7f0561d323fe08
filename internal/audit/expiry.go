package audit

// The rules of expiry, implemented independently of package subscription: in milliseconds
// and day numbers instead of calendar times, so that a mistake in one of them shows.

const (
	dayMS   = 24 * 60 * 60 * 1000
	monthMS = 30 * dayMS
	// indiaMS is how far India's midnight is before Greenwich's.
	indiaMS = (5*60 + 30) * 60 * 1000
	// aheadDays is how far ahead of today a booked cycle may start.
	aheadDays = 29
)

// dayOf numbers India's days.
func dayOf(ms int64) int64 {
	ms += indiaMS
	if ms < 0 {
		ms -= dayMS - 1
	}
	return ms / dayMS
}

// midnightOf is when a day begins.
func midnightOf(day int64) int64 { return day*dayMS - indiaMS }

// meaning is the start and the end of a purchased cycle.
type meaning struct{ starts, ends int64 }

// activated returns the possible cycles of an activation: thirty days, or the plan's own
// length, depending on a setting that is not stored with the operation.
func activated(created, months int64) []meaning {
	return []meaning{{created, created + monthMS}, {created, created + months*monthMS}}
}

// renewed runs from now, to the running expiry or now, whichever is later, and
// so many months.
func renewed(expiry, created, months int64) meaning {
	return meaning{created, max(expiry, created) + months*monthMS}
}

// booked runs from the day after the expiry, at most 29 days ahead; from now, if
// it is over. No day that was paid for is lost to that.
func booked(expiry, created, months int64) meaning {
	day := dayOf(created)
	if expiry > created {
		day = min(dayOf(expiry)+1, day+aheadDays)
	}
	starts := max(midnightOf(day), created)
	return meaning{starts, max(expiry, starts) + months*monthMS}
}
