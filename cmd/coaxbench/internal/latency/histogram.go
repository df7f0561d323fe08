// Package latency counts how long requests took and summarizes it.
package latency

import (
	"math/bits"
	"time"
)

const (
	// Each power of two is divided into this many buckets, so a value read from a
	// bucket is at most 1/128 above the recorded one.
	subBucketBits = 7
	subBuckets    = 1 << subBucketBits
	// maxBits limits the buckets: durations from 2^37 ns (over two minutes, longer than
	// any request may take) share the last one.
	maxBits = 37
)

// Histogram counts durations in buckets of growing width. Percentiles are exact to
// 0.8 %, and its size does not depend on the number of recordings. It is not safe for
// concurrent use; Add merges the histograms of several goroutines.
type Histogram struct {
	counts [subBuckets * (maxBits - subBucketBits + 1)]uint64
	count  uint64
	sum    time.Duration
	max    time.Duration
}

// Record counts one duration.
func (h *Histogram) Record(d time.Duration) {
	if d < 0 {
		d = 0 // the clock was set back
	}
	h.counts[bucketOf(uint64(d))]++
	h.count++
	h.sum += d
	h.max = max(h.max, d)
}

// Add adds the recordings of another histogram.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// Count returns the number of recordings.
func (h *Histogram) Count() uint64 { return h.count }

// Max returns the longest recorded duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the average, exactly.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return h.sum / time.Duration(h.count)
}

// Percentile returns a duration that percent of the recordings do not exceed: never
// less than the exact one, and at most 1/128 more.
func (h *Histogram) Percentile(percent float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	// The rank is rounded up, so that the 99th percentile of ten is the longest.
	exact := percent / 100 * float64(h.count)
	rank := uint64(exact)
	if float64(rank) < exact {
		rank++
	}
	rank = min(max(rank, 1), h.count)
	var seen uint64
	for i, n := range h.counts {
		// The last bucket has no upper bound.
		if seen += n; seen >= rank && i < len(h.counts)-1 {
			return min(time.Duration(upperBound(i)), h.max)
		}
	}
	return h.max
}

// bucketOf returns the bucket of a number of nanoseconds: below 128 each has its own,
// from there on the eight leading bits select it.
func bucketOf(v uint64) int {
	v = min(v, 1<<maxBits-1)
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - subBucketBits - 1
	return (shift+1)<<subBucketBits + int(v>>shift) - subBuckets
}

// upperBound returns the largest number in a bucket.
func upperBound(bucket int) uint64 {
	if bucket < subBuckets {
		return uint64(bucket)
	}
	shift := bucket>>subBucketBits - 1
	first := uint64(bucket&(subBuckets-1)|subBuckets) << shift
	return first + 1<<shift - 1
}

// Summary is a histogram's percentiles in milliseconds.
type Summary struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// Summary returns the histogram's percentiles.
func (h *Histogram) Summary() Summary {
	return Summary{
		Mean: millis(h.Mean()), P50: millis(h.Percentile(50)), P90: millis(h.Percentile(90)), P95: millis(h.Percentile(95)),
		P99: millis(h.Percentile(99)), P999: millis(h.Percentile(99.9)), Max: millis(h.Max()),
	}
}

// millis returns milliseconds with three decimals; more would be false precision.
func millis(d time.Duration) float64 {
	return float64(int64(float64(d)/float64(time.Millisecond)*1000+0.5)) / 1000
}
