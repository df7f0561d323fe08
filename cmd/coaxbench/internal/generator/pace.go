package generator

import "time"

// schedule is when the requests of an open loop are meant to be sent: evenly, at
// a rate that does not ask how the service is doing.
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

// run puts each moment into due when it has come, and closes due at the end. It
// never waits for anybody to take one: a moment that finds all clients busy waits
// in due, and its request's time counts from the moment.
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
