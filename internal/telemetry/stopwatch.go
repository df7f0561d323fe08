package telemetry

import "time"

// Stopwatch measures durations with the machine's monotonic clock. The service's clock
// cannot be used for that: it may be set, shifted for a demo or cut to milliseconds.
type Stopwatch struct{ start time.Time }

// StartStopwatch begins to measure.
func StartStopwatch() Stopwatch { return Stopwatch{time.Now()} }

// Elapsed returns the time since the start.
func (s Stopwatch) Elapsed() time.Duration { return time.Since(s.start) }
