package sim

import (
	"sync"
	"time"
)

// clock is the world's time. In fake time it runs as the bubble's does. In real
// time it runs faster than that of the machine, and whoever waits waits so much
// less: the same minute of the world is then over in a few seconds.
type clock struct {
	began time.Time
	pace  time.Duration // seconds of the world in one of the machine

	mu    sync.Mutex
	leapt time.Duration // how far all clocks were put forward
	moved int           // how often clocks were moved
	// wrong: a node once had the wrong time, so that moments in the store may
	// contradict each other.
	wrong bool
}

func newClock(pace int) *clock { return &clock{began: time.Now(), pace: time.Duration(pace)} }

// now is the true time of the world, which begins at the same moment in every
// history.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return start().Add(sinceThen + c.elapsed() + c.leapt)
}

// elapsed is how much of the world's time has passed, leaps aside.
func (c *clock) elapsed() time.Duration { return time.Since(c.began) * c.pace }

// leap puts every clock forward: nothing happened meanwhile, to anybody.
func (c *clock) leap(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leapt += by
	c.moved++
}

// leaps is how far all clocks were put forward.
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

// paced is what so much of the world's time takes on the machine.
func (c *clock) paced(d time.Duration) time.Duration { return d / c.pace }

// sleep lets so much of the world's time pass.
func (c *clock) sleep(d time.Duration) { time.Sleep(c.paced(d)) }

// start is when synctest's time begins.
func start() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// sinceThen is how far the world's clocks are ahead of that.
const sinceThen = 27*365*24*time.Hour + 90*24*time.Hour + 7*time.Hour
