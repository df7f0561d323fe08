package compare

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/latency"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		numbers []float64
		want    float64
	}{
		{nil, 0}, {[]float64{5}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{1, 100, 3}, 3}, {[]float64{4, 1, 2, 100}, 3},
	} {
		if got := Median(test.numbers); got != test.want {
			t.Errorf("the median of %v is %g; want %g", test.numbers, got, test.want)
		}
	}
	numbers := []float64{3, 1, 2}
	Median(numbers)
	if numbers[0] != 3 {
		t.Errorf("taking the median has sorted the runs: %v", numbers)
	}
}

func TestFigure_Medians(t *testing.T) {
	var f Figure
	for _, run := range []Run{
		{Requests: 10, PerSecond: 100, Latency: latency.Summary{P50: 3, P95: 1, P99: 9}, CPU: map[string]float64{"service": 50}},
		{Requests: 30, PerSecond: 300, Latency: latency.Summary{P50: 1, P95: 2, P99: 7}, CPU: map[string]float64{"service": 10}},
		{Requests: 20, PerSecond: 200, Latency: latency.Summary{P50: 2, P95: 3, P99: 8}, CPU: map[string]float64{"service": 20}},
	} {
		f.Add(run)
	}
	m := f.Median
	if m.Requests != 20 || m.PerSecond != 200 || m.Latency.P50 != 2 || m.Latency.P95 != 2 || m.Latency.P99 != 8 || m.CPU["service"] != 20 {
		t.Errorf("%+v", m)
	}
}

func figureOf(name string, perSecond ...float64) *Figure {
	f := &Figure{Name: name}
	for _, n := range perSecond {
		f.Add(Run{PerSecond: n / 2, Requests: uint64(n), CPU: map[string]float64{"generator": 2e5 / n, "service": 8e5 / n}})
	}
	return f
}

func TestRatio_Met(t *testing.T) {
	below := figureOf("bare", 1000, 2000, 4000)
	for _, test := range []struct {
		ours  *Figure
		value float64
		met   bool
	}{
		{figureOf("ours", 100, 800, 9000), 0.4, true},
		{figureOf("ours", 796, 798, 798), 0.399, false},
		// The medians, 1,000 and 2,000, are of different rounds.
		{figureOf("ours", 850, 1700, 1000), 0.85, true},
	} {
		r := RatioOf("ours ÷ bare", test.ours, below, 0.40, 0.60)
		if math.Abs(r.Value-test.value) > 1e-9 || r.Met() != test.met || len(r.Rounds) != 3 {
			t.Errorf("%+v, met %v; want %g, %v, and each round's own", r, r.Met(), test.value, test.met)
		}
	}
	// A round in which the system did not tell the processor time is left out.
	untold := &Figure{}
	untold.Add(Run{PerSecond: 5})
	if r := RatioOf("ours ÷ nothing", untold, figureOf("bare", 10), 0.4, 0); r.Value != 0 || r.Met() || r.Rate != 1 {
		t.Errorf("%+v; over nothing nothing is met", r)
	}
	if r := RateRatioOf("by rate", figureOf("ours", 850, 1700, 1000), below, 0.85); r.Value != 0.85 || !r.Met() {
		t.Errorf("%+v, met %v; want 0.85, which is met", r, r.Met())
	}
	slow, quick := &Figure{}, &Figure{}
	slow.Add(Run{Latency: latency.Summary{P99: 20}})
	quick.Add(Run{Latency: latency.Summary{P99: 10}})
	if r := LatencyRatioOf("p99", slow, quick, 2); r.Value != 2 || !r.Met() || len(r.Rounds) != 1 {
		t.Errorf("%+v, met %v; want 2, which is met", r, r.Met())
	}
	even := &Figure{}
	even.Add(Run{Latency: latency.Summary{P50: 2.5, P99: 10}, CPU: map[string]float64{"service": 900, "simulator": 500}})
	if r := TailRatioOf("p99 ÷ p50", even, 4); r.Value != 4 || !r.Met() {
		t.Errorf("%+v, met %v; want 4, which is met", r, r.Met())
	}
	if r := MillisecondsOf("ms", even, "simulator", 1.9); r.Value != 2 || r.Met() {
		t.Errorf("%+v, met %v; want 2, which is not met", r, r.Met())
	}
	if LatencyRatioOf("p99", slow, quick, 1.9).Met() || LatencyRatioOf("p99", &Figure{}, &Figure{}, 2).Met() {
		t.Error("a p99 that is too long is met, or one that was not measured")
	}
	if !(Size{Bytes: 5, AtMost: 5}).Met() || (Size{Bytes: 6, AtMost: 5}).Met() || !(Size{Bytes: 6}).Met() {
		t.Error("a size is met up to what it may be, and wherever nothing is asked")
	}
}

func report() *Report {
	bare := &Figure{Name: "bare TLS handler, 64 clients", Baseline: true}
	ours := &Figure{Name: "balance, 64 clients"}
	for range 3 {
		bare.Add(Run{Requests: 90, Seconds: 1, PerSecond: 40000, Latency: latency.Summary{P50: 1.5, P95: 3, P99: 9.25}, CPU: map[string]float64{"generator": 15, "service": 33}})
		ours.Add(Run{Requests: 90, Seconds: 1, PerSecond: 12000, Latency: latency.Summary{P50: 5, P95: 12.3, P99: 123.4}, CPU: map[string]float64{"generator": 17, "service": 120}})
	}
	return &Report{
		Figures: []*Figure{bare, ours},
		Ratios: []Ratio{RatioOf("balance ÷ bare TLS handler, 64 clients", ours, bare, 0.40, 0.60), RatioOf("bare ÷ itself", bare, bare, 0.5, 0), RatioOf("unasked", ours, ours, 0, 0),
			LatencyRatioOf("p99 of balance ÷ of bare", ours, bare, 2)},
		Sizes:    []Size{{"SQLite, idle", 22_000_000, 50_000_000}, {"SQLite, 64 clients", 220_000_000, 200_000_000}},
		Books:    []Books{{Store: "sqlite", Answered: 12, Ledger: 12, Audited: "12 operations"}, {Store: "filled", Answered: 1, Ledger: 1}},
		Notes:    []string{"the stores were small"},
		Problems: []string{"something was wrong"},
	}
}

func TestReport_Text(t *testing.T) {
	var text strings.Builder
	if err := report().WriteText(&text); err != nil {
		t.Fatal(err)
	}
	const want = `                                                                         processor time of one, in µs
median of 3 runs             per second    p50 ms    p95 ms    p99 ms  generator    service  simulator   database
bare TLS handler, 64 clients      40000      1.50      3.00      9.25       15.0       33.0
balance, 64 clients               12000      5.00      12.3       123       17.0        120

ratio                                  measured  by rate    asked   aim
balance ÷ bare TLS handler, 64 clients     0.35     0.30   ≥ 0.40  0.60  not met
bare ÷ itself                              1.00     1.00   ≥ 0.50        met
unasked                                    1.00     1.00
p99 of balance ÷ of bare                  13.34            ≤ 2.00        not met

resident memory of a node, in MB       measured             asked
SQLite, idle                                 22              ≤ 50        met
SQLite, 64 clients                          220             ≤ 200        not met

sqlite: 12 renewals were answered 200 and 0 verified later, 12 lines are in its ledger; the audit agrees on 12 operations
filled: 1 renewals were answered 200 and 0 verified later, 1 lines are in its ledger; not audited
note: the stores were small
problem: something was wrong
`
	if text.String() != want {
		t.Errorf("the report reads\n%s\nwant\n%s", text.String(), want)
	}
	if missed := report().Missed(); missed != 3 {
		t.Errorf("%d were missed; want 3", missed)
	}
}

func TestReport_JSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	if err := report().WriteJSON(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var read Report
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Figures) != 2 || len(read.Figures[1].Runs) != 3 || read.Figures[1].Median.Latency.P95 != 12.3 || read.Ratios[0].AtLeast != 0.4 || len(read.Ratios[0].Rounds) != 3 {
		t.Errorf("what was written is read as %+v", read)
	}
}

func TestReport_Machine(t *testing.T) {
	if m := ThisMachine(); m.Cores < 1 || !strings.Contains(m.System, "/") {
		t.Errorf("%+v", m)
	}
}
