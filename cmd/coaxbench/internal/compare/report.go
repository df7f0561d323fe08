package compare

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"
)

// Report is everything that one comparison found.
type Report struct {
	Began time.Time `json:"began"`
	Took  float64   `json:"took_seconds"`
	// Quick is set for a test run, whose figures mean nothing.
	Quick   bool      `json:"quick"`
	Program string    `json:"program"`
	Machine Machine   `json:"machine"`
	Figures []*Figure `json:"figures"`
	Ratios  []Ratio   `json:"ratios"`
	Sizes   []Size    `json:"memory"`
	// Books is what each store held at the end beside what was answered.
	Books []Books `json:"books"`
	// Notes is what has to be known beside the figures.
	Notes []string `json:"notes"`
	// Problems is all that went wrong, one sentence each.
	Problems []string `json:"problems"`
}

// Machine is what it was measured on.
type Machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	System    string `json:"system"`
	Kernel    string `json:"kernel"`
	MemoryMB  int64  `json:"memory_mb"`
}

// Books compares a store with the answers.
type Books struct {
	Store string `json:"store"`
	// Answered is how often the service said 200 to a renewal.
	Answered uint64 `json:"answered"`
	// Verified counts renewals with an unknown outcome that were verified later.
	Verified uint64 `json:"verified"`
	// Ledger is how many charges its books have; Charged what they come to.
	Ledger  uint64 `json:"ledger_lines"`
	Charged string `json:"charged"`
	// Audited is how many operations the audit went through; it is empty where
	// none was run.
	Audited string `json:"audited"`
}

// ThisMachine reads what the system says of itself; what it does not say stays
// empty.
func ThisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH}
	m.Processor = valueIn("/proc/cpuinfo", "model name")
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	var kib int64
	if _, err := fmt.Sscanf(valueIn("/proc/meminfo", "MemTotal"), "%d kB", &kib); err == nil {
		m.MemoryMB = kib >> 10
	}
	return m
}

// valueIn is the value of the first line "name: value" of a file.
func valueIn(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if key, value, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Missed is how many thresholds were not met.
func (r *Report) Missed() int {
	missed := 0
	for _, ratio := range r.Ratios {
		if !ratio.Met() {
			missed++
		}
	}
	for _, size := range r.Sizes {
		if !size.Met() {
			missed++
		}
	}
	return missed
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// processes are the columns of processor time, in the order a request meets them.
var processes = []string{"generator", "service", "simulator", "database"}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	r.writeFigures(out)
	r.writeRatios(out)
	fmt.Fprintln(out)
	for _, b := range r.Books {
		audited := "not audited"
		if b.Audited != "" {
			audited = "the audit agrees on " + b.Audited
		}
		fmt.Fprintf(out, "%s: %d renewals were answered 200 and %d verified later, %d lines are in its ledger; %s\n", b.Store, b.Answered, b.Verified, b.Ledger, audited)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(out, "note:", note)
	}
	for _, problem := range r.Problems {
		fmt.Fprintln(out, "problem:", problem)
	}
	return out.Flush()
}

func (r *Report) writeFigures(out io.Writer) {
	heading := "median of " + counted(r.rounds(), "run")
	width := utf8.RuneCountInString(heading)
	for _, f := range r.Figures {
		width = max(width, utf8.RuneCountInString(f.Name))
	}
	fmt.Fprintf(out, "%*s processor time of one, in µs\n", width+44, "")
	fmt.Fprintf(out, "%-*s %10s %9s %9s %9s", width, heading, "per second", "p50 ms", "p95 ms", "p99 ms")
	for _, process := range processes {
		fmt.Fprintf(out, " %10s", process)
	}
	fmt.Fprintln(out)
	for _, f := range r.Figures {
		m := f.Median
		line := fmt.Sprintf("%-*s %10.0f %9s %9s %9s", width, f.Name, m.PerSecond, figure(m.Latency.P50), figure(m.Latency.P95), figure(m.Latency.P99))
		for _, process := range processes {
			line += fmt.Sprintf(" %10s", figure(m.CPU[process]))
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

func (r *Report) writeRatios(out io.Writer) {
	const sizes = "resident memory of a node, in MB"
	width := len(sizes)
	for _, ratio := range r.Ratios {
		width = max(width, utf8.RuneCountInString(ratio.Name))
	}
	for _, size := range r.Sizes {
		width = max(width, utf8.RuneCountInString(size.Name))
	}
	line := func(name, measured, rate, asked, aim, verdict string) {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-*s %8s %8s %8s %5s  %s", width, name, measured, rate, asked, aim, verdict), " "))
	}
	fmt.Fprintln(out)
	line("ratio", "measured", "by rate", "asked", "aim", "")
	for _, ratio := range r.Ratios {
		line(ratio.Name, fmt.Sprintf("%.2f", ratio.Value), figure(ratio.Rate), ratio.asked(), figure(ratio.Aim), verdict(ratio.Met(), ratio.asked() != ""))
	}
	if len(r.Sizes) > 0 {
		fmt.Fprintln(out)
		line(sizes, "measured", "", "asked", "", "")
	}
	for _, size := range r.Sizes {
		line(size.Name, fmt.Sprintf("%.0f", megabytes(size.Bytes)), "", fmt.Sprintf("≤ %.0f", megabytes(size.AtMost)), "", verdict(size.Met(), size.AtMost > 0))
	}
}

// rounds is how many runs a figure has.
func (r *Report) rounds() int {
	most := 0
	for _, f := range r.Figures {
		most = max(most, len(f.Runs))
	}
	return most
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// figure writes a number as exactly as it is known; what was not measured, or is
// not asked, is a blank.
func figure(v float64) string {
	switch {
	case v == 0:
		return ""
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func verdict(met, asked bool) string {
	switch {
	case !asked:
		return ""
	case met:
		return "met"
	}
	return "not met"
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
