package sim

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// plannedKinds are the faults that are put at every place in turn.
var plannedKinds = []string{
	"crash", "sleep", "read fails", "write is unavailable", "write fails before", "write fails after", "commit fails before", "commit fails after",
}

// TestEveryFaultAtEveryPlace: for each scenario of the contract, and for each kind
// of fault, the first place where it is possible fails, then the second, and so on
// until none is left to fail. Whatever fails, the promises hold and the story comes
// to its end. With PAIRS=all, also every two places of the scenarios about money.
func TestEveryFaultAtEveryPlace(t *testing.T) {
	if *jobsFlag != "" || *seedFlag != 0 {
		t.Skip("one history or one worker was asked for")
	}
	var jobs []string
	for i, s := range scenarios() {
		for _, kind := range plannedKinds {
			jobs = append(jobs, fmt.Sprintf("single/%d/%s", i, kind))
		}
		if s.money && os.Getenv("PAIRS") == "all" {
			for _, kind := range plannedKinds {
				jobs = append(jobs, fmt.Sprintf("pairs/%d/%s", i, kind))
			}
		}
	}
	if raced {
		// Under the race detector every thirty-first; all of them without it.
		thinned := jobs[:0]
		for i, job := range jobs {
			if i%31 == 0 {
				thinned = append(thinned, job)
			}
		}
		jobs = thinned
	}
	began, runs, done := time.Now(), 0, 0
	for got := range crew(t, jobs) {
		done++
		runs += got.Runs
		if len(got.Violations) > 0 {
			t.Errorf("%s:\n  %s", got.Job, strings.Join(got.Violations, "\n  "))
		}
		if done%100 == 0 || done == len(jobs) {
			fmt.Printf("%d of %d scenarios and kinds of fault, %d runs, %s\n", done, len(jobs), runs, time.Since(began).Round(time.Second))
		}
	}
	if done != len(jobs) {
		t.Errorf("%d jobs of %d came to an end", done, len(jobs))
	}
	if runs <= 2*len(jobs) && !raced {
		t.Errorf("%d runs for %d jobs: hardly a fault has found its place", runs, len(jobs))
	}
}

// exhaust puts faults of one kind at each place of a scenario in turn.
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
		got := live(t, exhaustiveSeed, program{planned: &planned{faults: faults}, scenario: &s}, false)
		result.Runs++
		if got.Operations == 0 && !slices.ContainsFunc(faults, func(f *plannedFault) bool { return f.fired }) {
			got.Violations = append(got.Violations, "the story never got as far as an operation")
		}
		for _, v := range got.Violations {
			places := []string{}
			for _, f := range faults {
				places = append(places, fmt.Sprintf("%s at place %d", f.kind, f.n))
			}
			result.Violations = append(result.Violations, fmt.Sprintf("%s, with %s: %s", s.name, strings.Join(places, " and "), v))
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

// exhaustiveSeed is the world that all scenarios are told in: two nodes, money in
// the wallet.
const exhaustiveSeed = 104
