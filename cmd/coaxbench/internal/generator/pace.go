package generator

import "time"

// schedule has the times at which an open loop sends requests: evenly, at a rate that does not
// depend on the answers.
type schedule struct {
	begin, end time.Time
	every      time.Duration
	// together is how many come at one moment, for which the schedule then waits as
	// much longer.
	together int
	// now and sleep are the clock's.
	now   func() time.Time
	sleep func(time.Duration)
}

// run sends each scheduled time to due when it comes, and closes due at the end. It never
// blocks: if all clients are busy, the time waits in due, and the request's latency is measured
// from it.
func (s schedule) run(due chan<- time.Time, stopped func() bool) {
	defer close(due)
	for at := s.begin; at.Before(s.end) && !stopped(); at = at.Add(s.every * time.Duration(s.together)) {
		if wait := at.Sub(s.now()); wait > 0 {
			s.sleep(wait)
		}
		for range s.together {
			due <- at
		}
	}
}

// slots is how many moments a schedule has, and so how long due has to be.
func (s schedule) slots() int { return int(s.end.Sub(s.begin)/s.every) + s.together }
