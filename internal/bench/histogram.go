package bench

import (
	"math/bits"
	"time"
)

const (
	// Every power of two is cut into this many buckets, so that what is read
	// out of one is at most 1/128 above what was put in.
	finer      = 7
	subBuckets = 1 << finer
	// ceiling is the first duration that no longer has a bucket of its own: more
	// than two minutes, which is longer than any request is waited for.
	ceiling = 1 << 37
)

// Histogram counts durations in buckets that grow with what they hold. It tells
// any percentile within 0.8 %, whatever the durations are, in a size that does
// not depend on how many there were.
//
// It is one worker's; Add brings several together.
type Histogram struct {
	counts [subBuckets * (37 - finer + 1)]uint64
	count  uint64
	sum    time.Duration
	max    time.Duration
}

// Record counts one duration.
func (h *Histogram) Record(d time.Duration) {
	if d < 0 {
		d = 0 // a clock that was set back
	}
	h.counts[bucketOf(uint64(d))]++
	h.count++
	h.sum += d
	h.max = max(h.max, d)
}

// Add counts everything that another histogram has counted.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// Count is how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Max is the longest, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean is the average, exactly.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return h.sum / time.Duration(h.count)
}

// Percentile is a duration that so many per cent of the recorded ones do not
// exceed: never less than the exact one, and at most 1/128 more.
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
		// The last bucket has no end.
		if seen += n; seen >= rank && i < len(h.counts)-1 {
			return min(time.Duration(lastOf(i)), h.max)
		}
	}
	return h.max
}

// bucketOf is the bucket of a number of nanoseconds: each has its own up to 128,
// and from there on its eight leading bits decide.
func bucketOf(v uint64) int {
	v = min(v, ceiling-1)
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - finer - 1
	return (shift+1)<<finer + int(v>>shift) - subBuckets
}

// lastOf is the largest number in a bucket.
func lastOf(bucket int) uint64 {
	if bucket < subBuckets {
		return uint64(bucket)
	}
	shift := bucket>>finer - 1
	first := uint64(bucket&(subBuckets-1)|subBuckets) << shift
	return first + 1<<shift - 1
}
