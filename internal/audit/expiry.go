package audit

// The rules of expiry, implemented independently of package subscription: in milliseconds
// and day numbers instead of calendar times, so that a mistake in one of them shows.

const (
	dayMS   = 24 * 60 * 60 * 1000
	monthMS = 30 * dayMS
	// indiaMS is the offset of IST from UTC.
	indiaMS = (5*60 + 30) * 60 * 1000
	// aheadDays is how far ahead of today a booked cycle may start.
	aheadDays = 29
)

// dayOf returns the number of the day in IST.
func dayOf(ms int64) int64 {
	ms += indiaMS
	if ms < 0 {
		ms -= dayMS - 1
	}
	return ms / dayMS
}

// midnightOf returns when a day begins.
func midnightOf(day int64) int64 { return day*dayMS - indiaMS }

// span is the start and the end of a purchased cycle.
type span struct{ starts, ends int64 }

// activated returns the possible cycles of an activation: thirty days, or the plan's own
// length, depending on a setting that is not stored with the operation.
func activated(created, months int64) []span {
	return []span{{created, created + monthMS}, {created, created + months*monthMS}}
}

// renewed returns the cycle of a renewal: from now until the given months after the expiry,
// or after now if that is later.
func renewed(expiry, created, months int64) span {
	return span{created, max(expiry, created) + months*monthMS}
}

// booked returns the cycle of an advance renewal: from the day after the expiry, at most 29
// days ahead, or from now if it has expired. No paid day is lost.
func booked(expiry, created, months int64) span {
	day := dayOf(created)
	if expiry > created {
		day = min(dayOf(expiry)+1, day+aheadDays)
	}
	starts := max(midnightOf(day), created)
	return span{starts, max(expiry, starts) + months*monthMS}
}
