package sim

import (
	"sync"
	"time"
)

// clock is the simulated time. In fake time it follows synctest's clock. In real time
// it runs pace times faster than the machine's clock, and waits are shortened
// accordingly.
type clock struct {
	began time.Time
	pace  time.Duration // simulated seconds per second of the machine

	mu    sync.Mutex
	leapt time.Duration // how far all clocks were set forward
	moved int           // how often clocks were moved
	// wrong: a node once had the wrong time, so times in the store may contradict
	// each other.
	wrong bool
}

func newClock(pace int) *clock { return &clock{began: time.Now(), pace: time.Duration(pace)} }

// now is the simulated time, which begins at the same moment in every history.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return start().Add(sinceThen + c.elapsed() + c.leapt)
}

// elapsed is the simulated time that has passed, without leaps.
func (c *clock) elapsed() time.Duration { return time.Since(c.began) * c.pace }

// leap sets all clocks forward.
func (c *clock) leap(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leapt += by
	c.moved++
}

// leaps returns how far all clocks were set forward.
func (c *clock) leaps() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leapt
}

// timesMoved is how often clocks were moved.
func (c *clock) timesMoved() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved
}

// everWrong reports whether a node ever had the wrong time.
func (c *clock) everWrong() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrong
}

func (c *clock) setWrong() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved++
	c.wrong = true
}

// paced converts a simulated duration to the machine's time.
func (c *clock) paced(d time.Duration) time.Duration { return d / c.pace }

// sleep waits for a simulated duration.
func (c *clock) sleep(d time.Duration) { time.Sleep(c.paced(d)) }

// start is when synctest's time begins.
func start() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// sinceThen is how far the simulated clocks are ahead of that.
const sinceThen = 27*365*24*time.Hour + 90*24*time.Hour + 7*time.Hour
