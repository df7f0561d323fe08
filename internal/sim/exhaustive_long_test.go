//go:build long

package sim

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFaults_AtEveryStep: for each scenario of the contract, and for each kind
// of fault, the fault is injected at the first step where it is possible, then at the
// second, and so on. Each time the invariants hold and the scenario ends. With
// PAIRS=all, also at every pair of steps of the scenarios about money.
func TestFaults_AtEveryStep(t *testing.T) {
	skipUnlessWhole(t)
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
	began, runs, done := time.Now(), 0, 0
	for got := range runWorkers(t, runtime.NumCPU(), slices.Values(jobs)) {
		done++
		runs += got.Runs
		if len(got.Violations) > 0 {
			t.Fatalf("%s:\n  %s", got.Job, strings.Join(got.Violations, "\n  "))
		}
		if done%100 == 0 || done == len(jobs) {
			fmt.Printf("%d of %d scenarios and kinds of fault, %d runs, %s\n", done, len(jobs), runs, time.Since(began).Round(time.Second))
		}
	}
	if done != len(jobs) {
		t.Errorf("%d jobs of %d came to an end", done, len(jobs))
	}
	if runs <= 2*len(jobs) {
		t.Errorf("%d runs for %d jobs: hardly a fault was injected", runs, len(jobs))
	}
}
