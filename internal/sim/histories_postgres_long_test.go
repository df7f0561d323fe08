//go:build long

package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// parallelHistories is how many histories run at once: most of each is waiting.
const parallelHistories = 4

// TestHistories_Postgres: the invariants hold on PostgreSQL too, with real
// concurrency. With -seed after -args, only that history runs.
func TestHistories_Postgres(t *testing.T) {
	wanted := number(t, onPostgres, 0)
	if *jobsFlag != "" || wanted == 0 && *seedFlag == 0 {
		t.Skip("`make sim-postgres` runs it")
	}
	seeds, plan := make([]uint64, wanted), wholeProgram()
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	if *seedFlag != 0 {
		seeds, plan = []uint64{*seedFlag}, programFromFlags(t)
	}
	template := postgresTemplate(t)
	began, happened, done, operations := time.Now(), map[string]int{}, 0, 0
	for got := range inParallel(seeds, func(seed uint64) outcome { return runOnPostgres(t, seed, plan, template) }) {
		done++
		operations += got.Operations
		for what, n := range got.Happened {
			happened[what] += n
		}
		if len(got.Violations) > 0 {
			t.Errorf("seed %d violates an invariant on PostgreSQL:\n  %s\n\nrun it again, as often as it takes, with\n  %s\n\ntrace of its subject:\n%s",
				got.Seed, strings.Join(got.Violations, "\n  "), postgresReplayCommand(got.Seed), got.lines)
			break
		}
		if done%10 == 0 || done == len(seeds) {
			fmt.Printf("%d of %d histories on PostgreSQL, %d operations, %s\n", done, len(seeds), operations, time.Since(began).Round(time.Second))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(happened)) {
		t.Logf("%8d %s", happened[what], what)
	}
	switch {
	case t.Failed():
	case done != len(seeds):
		t.Errorf("%d histories of %d came to an end", done, len(seeds))
	case done >= 100:
		requireOccurredOnPostgres(t, happened)
	}
}

func postgresReplayCommand(seed uint64) string {
	return fmt.Sprintf("go test -tags long ./internal/sim -run '^TestHistories_Postgres$' -count=5 -args -seed=%d", seed)
}

// inParallel runs several histories at once and yields their outcomes as they end.
func inParallel(seeds []uint64, runHistory func(seed uint64) outcome) func(func(outcome) bool) {
	return func(yield func(outcome) bool) {
		queue, outcomes, stopped := make(chan uint64), make(chan outcome), make(chan struct{})
		go func() {
			defer close(queue)
			for _, seed := range seeds {
				select {
				case queue <- seed:
				case <-stopped:
					return
				}
			}
		}()
		var workers sync.WaitGroup
		for range parallelHistories {
			workers.Go(func() {
				for seed := range queue {
					outcomes <- runHistory(seed)
				}
			})
		}
		go func() {
			workers.Wait()
			close(outcomes)
		}()
		going := true
		for got := range outcomes {
			if going && !yield(got) {
				going = false
				close(stopped)
			}
		}
	}
}

// requireOccurredOnPostgres is requireOccurred for histories in real time, which have
// no gate at a commit.
func requireOccurredOnPostgres(t *testing.T, happened map[string]int) {
	t.Helper()
	happened = maps.Clone(happened)
	for what := range happened {
		if strings.Contains(what, "commit") {
			t.Errorf("%q cannot have happened on PostgreSQL", what)
		}
	}
	if happened["fault: "+connectionsCut] == 0 {
		t.Errorf("no process ever lost its connections")
	}
	for _, cannot := range []string{
		"fault: commit fails before", "fault: commit fails after",
		"a commit of three writes or more fails before it took effect", "a commit of three writes or more fails after it took effect",
		"code LCO_NOT_FOUND", // operators are deleted late, and in a hundred histories few requests follow
		// The journal, read at the end, does not show what was in progress.
		"review settles an operation while a query about another hangs", "the provider rejects what a person confirmed",
	} {
		happened[cannot]++
	}
	requireOccurred(t, happened)
}
