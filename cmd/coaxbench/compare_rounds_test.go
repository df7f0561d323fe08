package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
)

func TestAlternate_RepeatsStolenRounds(t *testing.T) {
	for _, test := range []struct {
		what   string
		stolen []float64 // in each round; the last goes on
		waits  bool      // before each round, for as long as anybody waits
		alone  bool      // nothing is measured in turn with it
		counts []float64 // the runs that count, by their number
		notes  int
		probes int
	}{
		{"a machine that is there", []float64{0.05}, false, false, []float64{1, 2, 3}, 0, 3},
		{"a host that takes two rounds", []float64{0, 0.3, 0.06, 0}, false, false, []float64{1, 4, 5}, 0, 5},
		{"a host that always takes its part", []float64{0.5}, true, false, []float64{5, 6, 7}, 3, maxProbed},
		{"a figure that is compared with none", []float64{0.5}, false, true, []float64{1, 2, 3}, 3, 3},
	} {
		rounds := 0
		c := &comparison{app: &app{err: io.Discard}, plan: comparePlan{rounds: 3}, report: &compare.Report{}}
		c.watchStolen = func() func() float64 {
			part := test.stolen[min(rounds, len(test.stolen)-1)]
			rounds++
			return func() float64 { return part }
		}
		probes := 0
		c.probeStolen = func() float64 {
			probes++
			if test.waits {
				return 0.5
			}
			return 0
		}
		figure := c.figure(compare.Figure{Name: "renewals"})
		run := 0.0
		runs := []func() error{func() error {
			run++
			c.take(figure, compare.Run{Requests: 1, PerSecond: run})
			return nil
		}}
		if !test.alone {
			runs = append(runs, func() error { return nil })
		}
		if err := c.alternate(t.Context(), runs...); err != nil {
			t.Fatal(err)
		}
		var counts []float64
		for _, run := range figure.Runs {
			counts = append(counts, run.PerSecond)
		}
		if !slices.Equal(counts, test.counts) || figure.Median.PerSecond != test.counts[1] {
			t.Errorf("%s: %v count, and %g is their median; want %v", test.what, counts, figure.Median.PerSecond, test.counts)
		}
		if len(c.report.Notes) != test.notes || test.notes > 0 && !strings.Contains(c.report.Notes[0], "renewals counts although the host took 50 %") {
			t.Errorf("%s: the report notes %q; want %d", test.what, c.report.Notes, test.notes)
		}
		if probes != test.probes {
			t.Errorf("%s: the host was looked at %d times; want %d", test.what, probes, test.probes)
		}
	}
}

func TestAlternate_RepeatsPerComparison(t *testing.T) {
	rounds := 0
	c := &comparison{app: &app{err: io.Discard}, plan: comparePlan{rounds: 3}, report: &compare.Report{}}
	c.watchStolen = func() func() float64 { return func() float64 { return 0.5 } }
	c.probeStolen = func() float64 { return 0 }
	figure := c.figure(compare.Figure{Name: "renewals"})
	measure := func() error {
		rounds++
		c.take(figure, compare.Run{Requests: 1, PerSecond: 1})
		return nil
	}
	for nth := 1; nth <= 2; nth++ {
		if err := c.alternate(t.Context(), measure, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if want := nth * (3 + maxRepeated); rounds != want {
			t.Errorf("after %d comparisons %d rounds were made; want %d", nth, rounds, want)
		}
	}
}
