package load

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/latency"
)

// Phase is what one kind of load came to.
type Phase struct {
	Name string `json:"name"`
	// Requests were begun after the warm-up; Seconds is from then until the end,
	// and until the last of them was answered.
	Requests  uint64          `json:"requests"`
	Seconds   float64         `json:"seconds"`
	PerSecond float64         `json:"per_second"`
	Latency   latency.Summary `json:"latency_ms"`
	// Kinds is what the requests were.
	Kinds map[string]uint64 `json:"kinds"`
	// Answers counts by status and code, those of the warm-up too.
	Answers map[string]uint64 `json:"answers"`
	// EndedEarly is why the phase is shorter than it was to be; empty if it is not.
	EndedEarly string `json:"ended_early,omitempty"`
	// Tally is what the answers mean for money.
	Tally Tally `json:"-"`
}

func (p *Phase) measured(h *latency.Histogram, elapsed time.Duration) {
	p.Requests, p.Seconds = h.Count(), rounded(elapsed.Seconds())
	if elapsed > 0 {
		p.PerSecond = rounded(float64(p.Requests) / elapsed.Seconds())
	}
	p.Latency = h.Summary()
}

// rounded keeps three decimals: more of them would claim more than was measured.
func rounded(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }

// WritePhases writes the figures as a table, and beneath it whatever is not
// plainly a success.
func WritePhases(w io.Writer, phases []Phase) error {
	const heads, figures = "%-8s  %9s  %7s  %10s  %8s  %8s  %8s  %8s  %8s  %8s  %7s\n", "%-8s  %9d  %7.2f  %10.0f  %8.2f  %8.2f  %8.2f  %8.2f  %8.2f  %8.2f  %7d\n"
	if _, err := fmt.Fprintf(w, heads, "phase", "requests", "seconds", "per second", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "p99.9 ms", "max ms", "not 200"); err != nil {
		return err
	}
	for _, p := range phases {
		var not200 uint64
		for answer, n := range p.Answers {
			if answer != "200 OK" {
				not200 += n
			}
		}
		fmt.Fprintf(w, figures, p.Name, p.Requests, p.Seconds, p.PerSecond,
			p.Latency.P50, p.Latency.P90, p.Latency.P95, p.Latency.P99, p.Latency.P999, p.Latency.Max, not200)
	}
	for _, p := range phases {
		for _, answer := range slices.Sorted(maps.Keys(p.Answers)) {
			if answer != "200 OK" {
				fmt.Fprintf(w, "%s: %d times %s\n", p.Name, p.Answers[answer], answer)
			}
		}
		if p.EndedEarly != "" {
			fmt.Fprintf(w, "%s: ended early: %s\n", p.Name, p.EndedEarly)
		}
	}
	return nil
}
