package latency

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// exactly computes the percentile of sorted samples by definition.
func exactly(sorted []time.Duration, percent float64) time.Duration {
	rank := int(math.Ceil(percent / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func TestHistogram_PercentilesWithinOnePercent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() time.Duration{
		"even":               func() time.Duration { return time.Duration(random.Int64N(int64(50 * time.Millisecond))) },
		"a long tail":        func() time.Duration { return time.Duration(1e5 * math.Exp(3*random.NormFloat64())) },
		"two humps":          func() time.Duration { return time.Duration(1+99*random.IntN(2)) * time.Millisecond },
		"nanoseconds":        func() time.Duration { return time.Duration(random.IntN(300)) },
		"all the same":       func() time.Duration { return 1234567 },
		"just below a power": func() time.Duration { return 1<<20 - 1 - time.Duration(random.IntN(2)) },
	} {
		for _, size := range []int{1, 2, 10, 999, 20_000} {
			var whole Histogram
			parts := make([]Histogram, 3)
			var samples []time.Duration
			for i := range size {
				d := draw()
				samples = append(samples, d)
				parts[i%len(parts)].Record(d)
			}
			for i := range parts {
				whole.Add(&parts[i])
			}
			slices.Sort(samples)
			for _, percent := range []float64{0, 1, 50, 90, 99, 99.9, 100} {
				got, want := whole.Percentile(percent), exactly(samples, percent)
				if got < want || float64(got) > float64(want)*1.01 {
					t.Errorf("%s, %d of them: p%v is %d ns; want %d, at most 1%% above", name, size, percent, got, want)
				}
			}
			if whole.Count() != uint64(size) || whole.Max() != samples[size-1] {
				t.Errorf("%s: %d with a longest of %v; want %d and %v", name, whole.Count(), whole.Max(), size, samples[size-1])
			}
			var sum time.Duration
			for _, d := range samples {
				sum += d
			}
			if got, want := whole.Mean(), sum/time.Duration(size); got != want {
				t.Errorf("%s: a mean of %v; want %v", name, got, want)
			}
		}
	}
}

func TestHistogram_BucketsCoverTheirRange(t *testing.T) {
	last := uint64(0)
	for bucket := range len(Histogram{}.counts) {
		end := upperBound(bucket)
		if bucket > 0 && end <= last {
			t.Fatalf("bucket %d ends at %d, before the one below it at %d", bucket, end, last)
		}
		first := uint64(0)
		if bucket > 0 {
			first = last + 1
		}
		if bucketOf(first) != bucket || bucketOf(end) != bucket {
			t.Fatalf("bucket %d has %d to %d; these fall into %d and %d", bucket, first, end, bucketOf(first), bucketOf(end))
		}
		last = end
	}
	if last != 1<<maxBits-1 {
		t.Errorf("the last bucket ends at %d; want %d", last, uint64(1<<maxBits-1))
	}
}

func TestHistogram_OutOfRange(t *testing.T) {
	var h Histogram
	h.Record(-time.Second)
	h.Record(time.Hour)
	if h.Count() != 2 || h.Max() != time.Hour || h.Percentile(50) != 0 {
		t.Errorf("%d with a longest of %v and a median of %v; want 2, 1h and 0", h.Count(), h.Max(), h.Percentile(50))
	}
	if got := h.Percentile(100); got != time.Hour {
		t.Errorf("p100 is %v; want the longest, 1h", got)
	}
	var empty Histogram
	if empty.Percentile(99) != 0 || empty.Mean() != 0 || empty.Max() != 0 {
		t.Error("an empty histogram is not zero")
	}
}
