// Package compare compares figures that were measured in turn on the same machine, and checks
// them against thresholds.
package compare

import (
	"slices"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/latency"
)

// Run is one measurement.
type Run struct {
	Requests  uint64          `json:"requests"`
	Seconds   float64         `json:"seconds"`
	PerSecond float64         `json:"per_second"`
	Latency   latency.Summary `json:"latency_ms"`
	// CPU is what each process took for one request, in microseconds.
	CPU map[string]float64 `json:"cpu_us_per_request"`
}

// cpu is what all processes took for one request, in microseconds.
func (r Run) cpu() (sum float64) {
	for _, used := range r.CPU {
		sum += used
	}
	return sum
}

// Figure summarises several runs: each of its numbers is the median of theirs.
type Figure struct {
	Name string `json:"name"`
	// Clients at once; Rate is that of an open loop, and 0 for a closed one.
	Clients int     `json:"clients,omitempty"`
	Rate    float64 `json:"rate,omitempty"`
	// Baseline is set if it is not of the service, but a baseline.
	Baseline bool  `json:"baseline,omitempty"`
	Median   Run   `json:"median"`
	Runs     []Run `json:"runs"`
}

// Add takes a run in.
func (f *Figure) Add(run Run) {
	f.Runs = append(f.Runs, run)
	f.Median = medianRun(f.Runs)
}

// Drop takes the last run out again.
func (f *Figure) Drop() {
	f.Runs = f.Runs[:len(f.Runs)-1]
	f.Median = medianRun(f.Runs)
}

func medianRun(runs []Run) Run {
	of := func(number func(Run) float64) float64 {
		var all []float64
		for _, run := range runs {
			all = append(all, number(run))
		}
		return Median(all)
	}
	m := Run{
		Requests:  uint64(of(func(r Run) float64 { return float64(r.Requests) })),
		Seconds:   of(func(r Run) float64 { return r.Seconds }),
		PerSecond: of(func(r Run) float64 { return r.PerSecond }),
		Latency: latency.Summary{
			Mean: of(func(r Run) float64 { return r.Latency.Mean }),
			P50:  of(func(r Run) float64 { return r.Latency.P50 }),
			P90:  of(func(r Run) float64 { return r.Latency.P90 }),
			P95:  of(func(r Run) float64 { return r.Latency.P95 }),
			P99:  of(func(r Run) float64 { return r.Latency.P99 }),
			P999: of(func(r Run) float64 { return r.Latency.P999 }),
			Max:  of(func(r Run) float64 { return r.Latency.Max }),
		},
		CPU: map[string]float64{},
	}
	for _, run := range runs {
		for process := range run.CPU {
			m.CPU[process] = of(func(r Run) float64 { return r.CPU[process] })
		}
	}
	return m
}

// Median is the middle of several numbers, or the mean of the two in the middle.
// Of none it is 0.
func Median(numbers []float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(numbers))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Ratio is a figure over another.
type Ratio struct {
	Name  string  `json:"name"`
	Over  string  `json:"over"`
	Under string  `json:"under"`
	Value float64 `json:"value"`
	// AtLeast or AtMost is what it has to be, and Aim what would be better still;
	// 0 where nothing is asked.
	AtLeast float64 `json:"at_least,omitempty"`
	AtMost  float64 `json:"at_most,omitempty"`
	Aim     float64 `json:"aim,omitempty"`
	// Rounds is each round's own ratio, and Value their median. How far they lie
	// apart is how much the machine was left alone.
	Rounds []float64 `json:"rounds"`
	// Rate is the ratio of what the two make in a second, where Value is of processor
	// time.
	Rate float64 `json:"rate,omitempty"`
}

// RatioOf divides the processor time of all processes for one request of a figure into that
// for one of another: 0.5 takes twice as much of it. Other load of the machine changes that
// far less than the rate, which is given beside it.
func RatioOf(name string, over, under *Figure, atLeast, aim float64) Ratio {
	r := Ratio{Name: name, Over: over.Name, Under: under.Name, AtLeast: atLeast, Aim: aim}
	r.divide(under, over, Run.cpu)
	r.Rate = RateRatioOf("", over, under, 0).Value
	return r
}

// RateRatioOf divides what two figures make in a second.
func RateRatioOf(name string, over, under *Figure, atLeast float64) Ratio {
	r := Ratio{Name: name, Over: over.Name, Under: under.Name, AtLeast: atLeast}
	r.divide(over, under, func(run Run) float64 { return run.PerSecond })
	return r
}

// LatencyRatioOf divides what two figures have for the slowest in a hundred.
func LatencyRatioOf(name string, over, under *Figure, atMost float64) Ratio {
	r := Ratio{Name: name, Over: over.Name, Under: under.Name, AtMost: atMost}
	r.divide(over, under, func(run Run) float64 { return run.Latency.P99 })
	return r
}

// TailRatioOf divides a figure's 99th percentile by its median.
func TailRatioOf(name string, of *Figure, atMost float64) Ratio {
	r := Ratio{Name: name, Over: of.Name, Under: of.Name, AtMost: atMost}
	r.take(of, of, func(run, same Run) float64 {
		if same.Latency.P50 == 0 {
			return 0
		}
		return run.Latency.P99 / same.Latency.P50
	})
	return r
}

// MillisecondsOf is a figure's median latency without the processor time of one process, which
// stands for something that is not ours: of one client, whose requests wait for it.
func MillisecondsOf(name string, of *Figure, without string, atMost float64) Ratio {
	r := Ratio{Name: name, Over: of.Name, AtMost: atMost}
	r.take(of, of, func(run, _ Run) float64 { return max(0, run.Latency.P50-run.CPU[without]/1000) })
	return r
}

func (r *Ratio) divide(over, under *Figure, number func(Run) float64) {
	r.take(over, under, func(above, below Run) float64 {
		if number(below) == 0 {
			return 0
		}
		return number(above) / number(below)
	})
}

// take returns the median of the rounds' ratios, not the ratio of two medians: on a machine
// that becomes slower, that would compare runs of different rounds. A round without a
// measurement is left out.
func (r *Ratio) take(over, under *Figure, ratio func(over, under Run) float64) {
	for i := range min(len(over.Runs), len(under.Runs)) {
		if value := ratio(over.Runs[i], under.Runs[i]); value > 0 {
			r.Rounds = append(r.Rounds, value)
		}
	}
	r.Value = Median(r.Rounds)
}

// Met reports whether the ratio is what it has to be. One of nothing is not.
func (r Ratio) Met() bool {
	return r.Value >= r.AtLeast && (r.AtMost == 0 || r.Value > 0 && r.Value <= r.AtMost)
}

// asked is what a ratio has to be, for people.
func (r Ratio) asked() string {
	switch {
	case r.AtLeast > 0:
		return "≥ " + figure(r.AtLeast)
	case r.AtMost > 0:
		return "≤ " + figure(r.AtMost)
	}
	return ""
}

// Size is a process's memory, and what it may be.
type Size struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	AtMost int64  `json:"at_most,omitempty"`
}

// Met reports whether the size is what it may be.
func (s Size) Met() bool { return s.AtMost == 0 || s.Bytes <= s.AtMost }
