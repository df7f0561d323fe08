package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// turnRenewals is how many renewals a store makes before the other continues: enough
// for a processor clock with a resolution of 10 ms.
const turnRenewals = 1280

// BenchmarkIndex measures what an index costs a renewal. Two stores, the second without
// the index (drop removes it), make b.N renewals each, alternating, so that other load
// falls on both. used returns the processor time so far, of this process and a server;
// nil means of this process. The ratio is the median over the turns, with its
// quartiles.
func BenchmarkIndex(b *testing.B, with, without Opener, drop func(), used func() time.Duration) {
	grounds := [2]*ground{newGround(b, with.Open(b)), newGround(b, without.Open(b))}
	drop()
	if used == nil {
		used = func() time.Duration { return processorTime(b) }
	}
	turn := func(g *ground, from int) time.Duration {
		before := used()
		var group sync.WaitGroup
		for caller := range benchOperators {
			group.Go(func() {
				for n := from + caller; n < from+turnRenewals; n += benchOperators {
					if err := g.renew(n); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		return used() - before
	}
	for _, g := range grounds {
		turn(g, 0)
	}
	b.ResetTimer()
	var took [2]time.Duration
	var ratios []float64
	for from := turnRenewals; from <= b.N; from += turnRenewals {
		var turns [2]time.Duration
		for i := range turns {
			i = (i + from/turnRenewals) % 2 // either goes first as often
			turns[i] = turn(grounds[i], from)
			took[i] += turns[i]
		}
		ratios = append(ratios, float64(turns[0])/float64(turns[1]))
	}
	if len(ratios) == 0 {
		return // the first try, with one renewal
	}
	slices.Sort(ratios)
	each := float64(len(ratios) * turnRenewals)
	b.ReportMetric(float64(took[0].Microseconds())/each, "with-µs/op")
	b.ReportMetric(float64(took[1].Microseconds())/each, "without-µs/op")
	for name, at := range map[string]int{"lower-ratio": 1, "ratio": 2, "upper-ratio": 3} {
		b.ReportMetric(ratios[(len(ratios)-1)*at/4], name)
	}
}
