package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// plannedKinds are the faults that are injected at every step in turn.
var plannedKinds = []string{
	"crash", "sleep", "read fails", "write is unavailable", "write fails before", "write fails after", "commit fails before", "commit fails after", rowsHeld,
}

// exhaust injects faults of one kind at each step of a scenario in turn.
func exhaust(t *testing.T, job string) outcome {
	how, rest, _ := strings.Cut(job, "/")
	number, kind, _ := strings.Cut(rest, "/")
	i, err := strconv.Atoi(number)
	if err != nil || i >= len(scenarios()) {
		t.Fatalf("there is no scenario %q", number)
	}
	s := scenarios()[i]
	result := outcome{Job: job, Happened: map[string]int{}}
	run := func(faults ...*plannedFault) bool {
		got := runHistory(t, exhaustiveSeed, program{planned: &planned{faults: faults}, scenario: &s}, false)
		result.Runs++
		if got.Operations == 0 && !slices.ContainsFunc(faults, func(f *plannedFault) bool { return f.fired }) {
			got.Violations = append(got.Violations, "the scenario created no operation")
		}
		for _, v := range got.Violations {
			steps := []string{}
			for _, f := range faults {
				steps = append(steps, fmt.Sprintf("%s at step %d", f.kind, f.n))
			}
			result.Violations = append(result.Violations, fmt.Sprintf("%s, with %s: %s", s.name, strings.Join(steps, " and "), v))
		}
		return len(got.Violations) == 0
	}
	for n := 0; ; n++ {
		fault := &plannedFault{kind: kind, n: n}
		if !run(fault) || !fault.fired {
			return result
		}
		if how != "pairs" {
			continue
		}
		for _, other := range plannedKinds {
			for m := 0; ; m++ {
				one, two := &plannedFault{kind: kind, n: n}, &plannedFault{kind: other, n: m}
				if !run(one, two) {
					return result
				}
				if !two.fired {
					break
				}
			}
		}
	}
}

// exhaustiveSeed gives scenarios two nodes and money in the wallet.
const exhaustiveSeed = 104
