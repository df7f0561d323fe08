package telemetry

import "time"

// Stopwatch measures how long something took. That is another question than what
// time it is: the service's clock may be set, shifted for a demo or cut to
// milliseconds, and a measurement must not notice. So this is the one thing here
// that reads the machine's own monotonic clock, and it gives away no time of day.
type Stopwatch struct{ start time.Time }

// StartStopwatch begins to measure.
func StartStopwatch() Stopwatch { return Stopwatch{time.Now()} }

// Elapsed is how long ago the measurement began.
func (s Stopwatch) Elapsed() time.Duration { return time.Since(s.start) }
