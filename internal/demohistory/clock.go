package demohistory

import (
	"context"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// clock is the time within the history. It is never set back, so that rows are written in
// the order of their dates.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) moveTo(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at = at.UTC().Truncate(time.Millisecond); at.After(c.now) {
		c.now = at
	}
}

func (c *clock) advance(d time.Duration) { c.moveTo(c.Now().Add(d)) }

// latency is a provider that advances the history's clock by a plausible latency at each
// call.
type latency struct {
	clock *clock
	// shortTimeout is the same provider with a short timeout.
	provider, shortTimeout operation.Provider
	timeout                time.Duration
	// silent are the orders, by mobile and component, that will not be answered.
	silent map[string]bool
	calls  int
}

var _ operation.Provider = (*latency)(nil)

// Apply sends an order. One that will not be answered is sent with the short timeout; the
// history's clock advances by the real one.
func (l *latency) Apply(ctx context.Context, order operation.Order) operation.Reply {
	if l.silent[order.Mobile+order.Component] {
		reply := l.shortTimeout.Apply(ctx, order)
		l.clock.advance(l.timeout)
		return reply
	}
	reply := l.provider.Apply(ctx, order)
	l.addLatency()
	return reply
}

// Status asks for the status of an order.
func (l *latency) Status(ctx context.Context, order operation.Order) operation.Reply {
	reply := l.provider.Status(ctx, order)
	l.addLatency()
	return reply
}

// Void cancels an order.
func (l *latency) Void(ctx context.Context, order operation.Order) operation.Reply {
	reply := l.provider.Void(ctx, order)
	l.addLatency()
	return reply
}

// addLatency advances the clock by 0.2 to 1.4 s.
func (l *latency) addLatency() {
	l.clock.mu.Lock()
	l.calls++
	n := l.calls
	l.clock.mu.Unlock()
	l.clock.advance(time.Duration(200+n*389%1200) * time.Millisecond)
}
