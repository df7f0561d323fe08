package demohistory

import (
	"context"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// clock shows the moment that is being told of. It is never set back, so that the
// books are in the order of their dates.
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

func (c *clock) pass(d time.Duration) { c.moveTo(c.Now().Add(d)) }

// latency is the provider on the other side of the moved clock: its calls take the
// time there that such calls take.
type latency struct {
	clock               *clock
	provider, impatient operation.Provider
	timeout             time.Duration
	// silent are the references of which no answer will come.
	silent map[string]bool
	calls  int
}

var _ operation.Provider = (*latency)(nil)

// Apply sends an order. Nobody sits through the whole silence after one that is
// known not to be answered: only the clock does.
func (l *latency) Apply(ctx context.Context, order operation.Order) operation.Reply {
	if l.silent[order.Mobile+order.Component] {
		answer := l.impatient.Apply(ctx, order)
		l.clock.pass(l.timeout)
		return answer
	}
	answer := l.provider.Apply(ctx, order)
	l.take()
	return answer
}

// Status asks what became of an order.
func (l *latency) Status(ctx context.Context, order operation.Order) operation.Reply {
	answer := l.provider.Status(ctx, order)
	l.take()
	return answer
}

// Void calls an order off.
func (l *latency) Void(ctx context.Context, order operation.Order) operation.Reply {
	answer := l.provider.Void(ctx, order)
	l.take()
	return answer
}

// take lets a call take its time, between 0.2 and 1.4 s.
func (l *latency) take() {
	l.clock.mu.Lock()
	l.calls++
	n := l.calls
	l.clock.mu.Unlock()
	l.clock.pass(time.Duration(200+n*389%1200) * time.Millisecond)
}
