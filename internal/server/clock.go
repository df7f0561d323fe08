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
	// clockTolerance is how far apart the two may be. Safety rests on epochs, not on
	// clocks; but a node that is further off would set expiries and check timestamps
	// differently from other nodes.
	clockTolerance = 2 * time.Second
)

// storeClock is a store with a clock of its own, which several nodes share.
type storeClock interface {
	ServerTime(ctx context.Context) (time.Time, error)
}

// clockWatch compares the node's clock, without the demo's offset, with the store's.
type clockWatch struct {
	store storeClock
	now   func() time.Time
	// off is the last difference in nanoseconds: positive if the node is ahead.
	off atomic.Int64
}

// newClockWatch returns nil if the store has no clock of its own.
func newClockWatch(opened Store, now func() time.Time) *clockWatch {
	store, ok := opened.(storeClock)
	if !ok {
		return nil
	}
	return &clockWatch{store: store, now: now}
}

// Check compares the clocks once. The node's clock is read before and after the store's,
// so that a slow reply does not count as a difference.
func (c *clockWatch) Check(ctx context.Context) error {
	before := c.now()
	at, err := c.store.ServerTime(ctx)
	if err != nil {
		return err // the last difference stays
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

// err returns an error if the clocks were too far apart at the last check.
func (c *clockWatch) err() error {
	if off := time.Duration(c.off.Load()); off.Abs() > clockTolerance {
		return fmt.Errorf("this node's clock and the store's are %s apart, which is more than %s: set the clock of whichever is wrong",
			off.Abs().Round(time.Millisecond), clockTolerance)
	}
	return nil
}

// watchClock checks the clocks at intervals, and logs when they drift apart or agree
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
		if n.ClockWatch.Check(ctx) != nil {
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

// ready returns an error if the node should get no requests. It checks the clocks each
// time instead of reporting a result that may be ten seconds old.
func (n *Node) ready(ctx context.Context) error {
	if err := n.Store.Ready(ctx); err != nil {
		return err
	}
	if err := n.keyring.err(); err != nil {
		return err
	}
	if n.ClockWatch == nil {
		return nil
	}
	if err := n.ClockWatch.Check(ctx); err != nil {
		return err
	}
	return n.ClockWatch.err()
}
