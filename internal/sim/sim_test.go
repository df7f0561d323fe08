package sim

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/store/pgtest"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "the seed of the history to replay")
	keepFlag    = flag.String("keep", "", "the numbers of the actions to keep, with commas; all if empty")
	withoutFlag = flag.String("without", "", "the kinds of faults to leave out, with commas")
	jobsFlag    = flag.String("jobs", "", "a worker's jobs, with commas: seeds, or faults to be put everywhere in a scenario")
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.StopShared()
	os.Exit(code)
}

// programFromFlags returns the program selected by -keep and -without.
func programFromFlags(t *testing.T) program {
	p := wholeProgram()
	if *keepFlag != "" {
		p.actions = nil
		for _, n := range strings.Split(*keepFlag, ",") {
			i, err := strconv.Atoi(n)
			if err != nil || i < 0 || i >= historyLength {
				t.Fatalf("-keep: %q is no action of 0 to %d", n, historyLength-1)
			}
			p.actions = append(p.actions, i)
		}
	}
	for _, kind := range strings.Split(*withoutFlag, ",") {
		p.without[kind] = true
	}
	return p
}

// TestReplay runs one history again, with every step of it printed.
func TestReplay(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("it replays a history: give its -seed after -args")
	}
	got := runHistory(t, *seedFlag, programFromFlags(t), true)
	t.Logf("%s\n%d steps, %d operations, trace %s", got.lines, got.Steps, got.Operations, got.Trace)
	for _, v := range got.Violations {
		t.Error(v)
	}
}

// TestWorker runs jobs for other tests in a separate process and prints one line of
// JSON for each.
func TestWorker(t *testing.T) {
	if *jobsFlag == "" {
		t.Skip("it works for other tests")
	}
	for _, job := range strings.Split(*jobsFlag, ",") {
		fmt.Printf("\nbegin %s\n", job)
		var got outcome
		if seed, err := strconv.ParseUint(job, 10, 64); err == nil {
			got = runHistory(t, seed, wholeProgram(), false)
			got.Job = job
		} else {
			got = exhaust(t, job)
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\ndone %s\n", text)
	}
}

// onPostgres is the environment variable with the number of histories to run on
// PostgreSQL. If it is set, nothing else runs.
const onPostgres = "COAX_TEST_SIM_POSTGRES"

// skipUnlessWhole skips a test if the flags or the environment select a single
// history, a worker's jobs or histories on PostgreSQL.
func skipUnlessWhole(t *testing.T) {
	t.Helper()
	if *jobsFlag != "" || *seedFlag != 0 || os.Getenv(onPostgres) != "" {
		t.Skip("one history, one worker or histories on PostgreSQL were asked for")
	}
}

// searchTime is how long TestHistories searches unless HISTORIES sets a number.
const searchTime = 30 * time.Second

// TestHistories: whatever fails, crashes, stalls or races, no operator is charged twice
// or for nothing, every response is true, and every operation is settled.
//
// It searches for half a minute from a fresh seed, or runs as many histories as HISTORIES
// says from seed 1. COAX_TEST_SEED names the first seed.
func TestHistories(t *testing.T) {
	skipUnlessWhole(t)
	wanted := int(number(t, "HISTORIES", 0))
	first := uint64(1)
	if wanted == 0 {
		first = 1 + rand.Uint64N(1<<40)
	}
	first = number(t, "COAX_TEST_SEED", first)
	began := time.Now()
	more := func(n int) bool { return n < wanted || wanted == 0 && time.Since(began) < searchTime }
	happened := map[string]int{}
	var steps, operations, done int
	workers := runtime.NumCPU()
	if wanted == 0 {
		workers = max(1, workers/2) // the rest is for the tests beside this one
	}
	for got := range runWorkers(t, workers, func(yield func(string) bool) {
		for n := 0; more(n) && yield(strconv.FormatUint(first+uint64(n), 10)); n++ {
		}
	}) {
		done++
		steps += got.Steps
		operations += got.Operations
		for what, n := range got.Happened {
			happened[what] += n
		}
		if len(got.Violations) > 0 {
			t.Fatal(explain(got))
		}
		if done%500 == 0 {
			fmt.Printf("%d histories, %d steps, %d operations, %s\n", done, steps, operations, time.Since(began).Round(time.Second))
		}
	}
	fmt.Printf("%d histories from seed %d, %d steps, %d operations, %s; again with `make sim SEED=%d HISTORIES=%d`\n",
		done, first, steps, operations, time.Since(began).Round(time.Second), first, done)
	if done < max(wanted, 1) {
		t.Fatalf("%d histories of %d came to an end", done, wanted)
	}
	for _, what := range slices.Sorted(maps.Keys(happened)) {
		t.Logf("%8d %s", happened[what], what)
	}
	if done >= 500 { // in fewer a rare one may be missing by chance
		requireOccurred(t, happened)
	}
}

// number reads a number from the environment.
func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		t.Fatalf("%s=%s is not a positive number", variable, text)
	}
	return n
}

// runWorkers runs jobs in a number of parallel processes and yields their outcomes as
// they finish. A process runs one history at a time, because the seeded random source
// is global to the process.
func runWorkers(t *testing.T, processes int, jobs iter.Seq[string]) func(func(outcome) bool) {
	const portion = 4 // of a process, which takes a moment to start
	outcomes := make(chan outcome)
	stopped := make(chan struct{})
	queue := make(chan []string)
	go func() {
		defer close(queue)
		var next []string
		send := func() bool {
			select {
			case queue <- next:
				next = nil
				return true
			case <-stopped:
				return false
			}
		}
		for job := range jobs {
			if next = append(next, job); len(next) == portion && !send() {
				return
			}
		}
		if len(next) > 0 {
			send()
		}
	}()
	var workers sync.WaitGroup
	for range processes {
		workers.Go(func() {
			for portion := range queue {
				runWorker(t, portion, outcomes)
			}
		})
	}
	go func() {
		workers.Wait()
		close(outcomes)
	}()
	return func(yield func(outcome) bool) {
		going := true
		for got := range outcomes {
			if going && !yield(got) {
				going = false
				close(stopped)
			}
		}
	}
}

// runWorker runs jobs in a separate process.
func runWorker(t *testing.T, jobs []string, outcomes chan<- outcome) {
	// Run at low priority: tests beside it have real timeouts, fake time has none.
	command := exec.Command("nice", "-n", "10", os.Args[0], "-test.run=^TestWorker$", "-test.timeout=20m", "-jobs="+strings.Join(jobs, ","))
	pipe, err := command.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	command.Stderr = command.Stdout
	command.Env = append(os.Environ(), "GOGC=300") // memory is not what they lack
	if err := command.Start(); err != nil {
		t.Error(err)
		return
	}
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 64<<20)
	current, rest := "", []string{}
	for lines.Scan() {
		line := lines.Text()
		if job, is := strings.CutPrefix(line, "begin "); is {
			current, rest = job, nil
		} else if text, is := strings.CutPrefix(line, "done "); is {
			var got outcome
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Error(err)
			}
			current = ""
			outcomes <- got
		} else if len(rest) < 60 {
			rest = append(rest, line)
		}
	}
	// A history that ends its process is a violation too: a deadlock, an uncaught
	// panic, a leaked goroutine or a data race.
	if err := command.Wait(); err != nil && current != "" {
		seed, _ := strconv.ParseUint(current, 10, 64)
		outcomes <- outcome{Job: current, Seed: seed, Violations: []string{"the process ended: " + err.Error() + "\n" + strings.Join(rest, "\n")}}
	} else if err != nil {
		outcomes <- outcome{Job: strings.Join(jobs, ","), Violations: []string{"the process ended: " + err.Error() + "\n" + strings.Join(rest, "\n")}}
	}
}

// explain describes a failed history, with the commands that replay it whole and
// reduced.
func explain(got outcome) string {
	report := fmt.Sprintf("seed %d violates an invariant:\n  %s\n\nreplay it with\n  %s\n", got.Seed, strings.Join(got.Violations, "\n  "), replayCommand(got.Seed, wholeProgram()))
	small, violations := shrink(got)
	if violations == "" {
		return report + "\nIt could not be made smaller: it does not fail again by itself."
	}
	return report + fmt.Sprintf("\nshrunk to %d actions:\n  %s\n%s", len(small.actions), replayCommand(got.Seed, small), violations)
}

func replayCommand(seed uint64, p program) string {
	command := fmt.Sprintf("go test ./internal/sim -run '^TestReplay$' -v -args -seed=%d", seed)
	if len(p.actions) < historyLength {
		numbers := []string{}
		for _, i := range p.actions {
			numbers = append(numbers, strconv.Itoa(i))
		}
		command += " -keep=" + strings.Join(numbers, ",")
	}
	if names := keys(p.without); len(names) > 0 {
		command += " -without='" + strings.Join(names, ",") + "'"
	}
	return command
}

// TestSeed_GivesTheSameTrace: a seed can be replayed only if it always does the same.
func TestSeed_GivesTheSameTrace(t *testing.T) {
	skipUnlessWhole(t)
	const histories = 5
	var jobs []string
	for seed := range histories {
		jobs = append(jobs, strconv.Itoa(seed+1), strconv.Itoa(seed+1))
	}
	first := map[uint64]string{}
	for got := range runWorkers(t, runtime.NumCPU(), slices.Values(jobs)) {
		if before, known := first[got.Seed]; known && before != got.Trace {
			t.Errorf("seed %d has the trace %s, and the next time %s", got.Seed, before, got.Trace)
		}
		first[got.Seed] = got.Trace
	}
	if len(first) != histories {
		t.Errorf("%d histories came to an end; want %d", len(first), histories)
	}
}
