package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/retention"
)

// BenchmarkRetention measures how many renewals a second are made by 16 callers while old rows are removed,
// as a share of those without, in one run: alternately for half a second each, three times. The pauses are
// a node's: 19 times as long as a batch took.
func BenchmarkRetention(b *testing.B, newOpener func(testing.TB) Opener) {
	g := newGround(b, newOpener(b).Open(b))
	h := &harness{TB: b, Store: g.Store}
	h.sign()
	renewed := 0
	renewals := func(span time.Duration) (perSecond float64) {
		var group sync.WaitGroup
		var mu sync.Mutex
		began, first := b.Elapsed(), renewed
		for range 16 {
			group.Go(func() {
				for b.Elapsed() < began+span {
					mu.Lock()
					n := renewed
					renewed++
					mu.Unlock()
					if err := g.renew(n); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		return float64(renewed-first) / (b.Elapsed() - began).Seconds()
	}
	// What is removed.
	for renewed < 20_000 {
		renewals(500 * time.Millisecond)
	}
	for range b.N {
		var without, with float64
		removed := 0
		for range 3 {
			without += renewals(500 * time.Millisecond)
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() {
				batch := b.Elapsed()
				keep := retention.Config{ProviderCalls: time.Hour, OperationEvents: time.Hour}
				ended <- keep.Run(ctx, g.Store, noon.Add(1000*day), func(_ retention.What, rows int) {
					removed += rows
					select {
					case <-ctx.Done():
					case <-time.After(max(19*(b.Elapsed()-batch), 20*time.Millisecond)):
					}
					batch = b.Elapsed()
				})
			}()
			with += renewals(500 * time.Millisecond)
			stop()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				b.Fatal(err)
			}
		}
		if removed == 0 {
			b.Fatal("nothing was removed")
		}
		b.ReportMetric(with/without, "ratio")
		b.ReportMetric(float64(removed)/1.5, "removed/s")
	}
}
