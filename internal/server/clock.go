package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// clockCheckEvery is how often a node compares its clock with the store's.
	clockCheckEvery = 10 * time.Second
	// clockTolerance is how far apart the two may be. Safety rests on epochs,
	// not on clocks; but a node that is further off would stamp expiries and
	// judge timestamps differently from its neighbours.
	clockTolerance = 2 * time.Second
)

// timekeeper is a store that has a clock of its own, because several nodes share
// it.
type timekeeper interface {
	ServerTime(ctx context.Context) (time.Time, error)
}

// clockWatch compares a node's own clock, without the demo's offset, with its
// store's.
type clockWatch struct {
	keeper timekeeper
	now    func() time.Time
	// off is the last difference found, in nanoseconds: positive if we are ahead.
	off atomic.Int64
}

// newClockWatch returns nil where the store has no clock of its own.
func newClockWatch(opened Store, now func() time.Time) *clockWatch {
	keeper, shared := opened.(timekeeper)
	if !shared {
		return nil
	}
	return &clockWatch{keeper: keeper, now: now}
}

// Look compares the clocks once. The store is asked between two looks at our
// own clock, so that a slow answer does not pass for a difference.
func (c *clockWatch) Look(ctx context.Context) error {
	before := c.now()
	at, err := c.keeper.ServerTime(ctx)
	if err != nil {
		return err // not ready for other reasons; what was last known stays
	}
	after := c.now()
	off := time.Duration(0)
	switch {
	case before.Sub(at) > 0:
		off = before.Sub(at)
	case after.Sub(at) < 0:
		off = after.Sub(at)
	}
	c.off.Store(int64(off))
	return nil
}

// err says that the clocks are too far apart, if they are.
func (c *clockWatch) err() error {
	if off := time.Duration(c.off.Load()); off.Abs() > clockTolerance {
		return fmt.Errorf("this node's clock and the store's are %s apart, which is more than %s: set the clock of whichever is wrong",
			off.Abs().Round(time.Millisecond), clockTolerance)
	}
	return nil
}

// watchClock keeps comparing, and says so when the clocks drift apart or meet
// again.
func (n *Node) watchClock(ctx context.Context) {
	if n.ClockWatch == nil {
		return
	}
	ticker := time.NewTicker(clockCheckEvery)
	defer ticker.Stop()
	wrong := n.ClockWatch.err() != nil
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if n.ClockWatch.Look(ctx) != nil {
			continue
		}
		err := n.ClockWatch.err()
		if err != nil && !wrong {
			n.log.Error("not ready", "error", err)
		}
		if err == nil && wrong {
			n.log.Info("the clocks agree again")
		}
		wrong = err != nil
	}
}

// ready reports whether requests should come here. The clocks are compared each
// time: what was true ten seconds ago is no answer to who asks now.
func (n *Node) ready(ctx context.Context) error {
	if err := n.Store.Ready(ctx); err != nil {
		return err
	}
	if n.ClockWatch == nil {
		return nil
	}
	if err := n.ClockWatch.Look(ctx); err != nil {
		return err
	}
	return n.ClockWatch.err()
}
