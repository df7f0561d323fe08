package nodes

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
)

// clockedNode starts a node in this process with the given clock.
func (c *cluster) clockedNode(offset time.Duration, now func() time.Time) (internal string) {
	c.TB.Helper()
	config, err := server.LoadConfig(server.Sources{File: c.config, Sets: []string{
		"server.addr=127.0.0.1:0", "server.internal_addr=127.0.0.1:0", "clock.offset=" + offset.String(),
	}})
	if err != nil {
		c.TB.Fatal(err)
	}
	n, err := server.Open(c.TB.Context(), config, nil, slog.New(slog.DiscardHandler), now)
	if err != nil {
		c.TB.Fatal(err)
	}
	if err := n.Listen(); err != nil {
		c.TB.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- n.Serve(ctx) }()
	c.TB.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			c.TB.Errorf("the node ended: %v", err)
		}
		if err := n.Close(); err != nil {
			c.TB.Errorf("the store did not close: %v", err)
		}
	})
	return "http://" + server.Reachable(n.InternalAddr)
}

// A node whose clock differs from the database's by more than two seconds is not ready.
func TestClock_WrongClockIsNotReady(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newEmptyCluster(t)
	var off atomic.Int64
	internal := c.clockedNode(0, func() time.Time { return server.Clock(time.Duration(off.Load()))() })
	for _, row := range []struct {
		off  time.Duration
		want int
	}{
		{0, 200}, {time.Second, 200}, {3 * time.Second, 503}, {0, 200}, {-time.Second, 200}, {-3 * time.Second, 503},
		{72 * time.Hour, 503}, {-1500 * time.Millisecond, 200},
	} {
		off.Store(int64(row.off))
		if got := e2e.Readiness(t, internal); got != row.want {
			t.Errorf("%s off: /readyz says %d; want %d", row.off, got, row.want)
		}
	}
	// It still starts, so that it can report the problem.
	if got := e2e.Readiness(t, c.clockedNode(0, server.Clock(-time.Minute))); got != 503 {
		t.Errorf("started with a clock that is a minute slow: /readyz says %d; want 503", got)
	}
}

// The demo's clock.offset is taken into account.
func TestClock_ConfiguredOffsetIsReady(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newEmptyCluster(t)
	const offset = 72 * time.Hour
	if got := e2e.Readiness(t, c.clockedNode(offset, server.Clock(offset))); got != 200 {
		t.Errorf("moved by 72 hours: /readyz says %d; want 200", got)
	}
	if got := e2e.Readiness(t, c.clockedNode(offset, server.Clock(offset+time.Minute))); got != 503 {
		t.Errorf("moved by 72 hours, and a minute fast: /readyz says %d; want 503", got)
	}
}
