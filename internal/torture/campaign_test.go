//go:build long

package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// crashPoints are all crash points of a node; a test compares them with the code.
var crashPoints = []string{
	"N.before", "N.after", "R.before", "R.in", "P.before", "P.sent", "P.after", "S.in", "S.after",
	"V.claimed", "V.answered", "V.settled",
}

// disruptions are what else can happen to an installation, by store.
var disruptions = map[string][]string{
	"sqlite":   {"kill", "kill", "kill", "terminate"},
	"postgres": {"kill one", "kill two", "kill all", "cut connections", "restart the database", "sleep"},
}

const (
	cyclesPerEnvironment = 10
	// coverageCycles is the number of cycles from which every disruption must have
	// occurred.
	coverageCycles = 20
)

// campaign is a run of cycles over several environments, with its counts.
type campaign struct {
	t      *testing.T
	store  string
	cycles int
	seed   uint64

	mu         sync.Mutex
	queue      []string
	missed     []string
	done       int
	applied    map[string]int // blows, by place or kind
	inRecovery int            // of which hit a node that was recovering
	settled    int            // cycles at whose end nothing was open
	answers    int64
	orders     int
	violations int64
	codes      map[string]int
}

func newCampaign(t *testing.T, store string, standard int) *campaign {
	t.Helper()
	c := &campaign{
		t: t, store: store, cycles: number(t, "COAX_TEST_TORTURE_CYCLES", standard), seed: uint64(number(t, "COAX_TEST_TORTURE_SEED", 1)),
		applied: map[string]int{}, codes: map[string]int{},
	}
	order := rand.New(rand.NewPCG(c.seed, 0))
	for len(c.queue) < c.cycles {
		round := slices.Concat(crashPoints, disruptions[store])
		order.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		c.queue = append(c.queue, round...)
	}
	return c
}

// replay is the command that runs this campaign again.
func (c *campaign) replay() string {
	target := "torture"
	if c.store == "postgres" {
		target = "torture-postgres"
	}
	return fmt.Sprintf("make %s CYCLES=%d SEED=%d", target, c.cycles, c.seed)
}

// run runs the cycles of several environments in parallel: they mostly wait.
func (c *campaign) run(t *testing.T) {
	t.Logf("seed %d: %s", c.seed, c.replay())
	t.Run("environment", func(t *testing.T) {
		for first := 0; first < c.cycles; first += cyclesPerEnvironment {
			t.Run(fmt.Sprint(first/cyclesPerEnvironment+1), func(t *testing.T) {
				t.Parallel()
				c.runCycles(t, first/cyclesPerEnvironment, min(cyclesPerEnvironment, c.cycles-first))
			})
		}
	})
	t.Log(c.standing())
	t.Logf("codes: %v", sortedCounts(c.codes))
	if c.cycles >= coverageCycles && !t.Failed() {
		for _, disruption := range slices.Concat(crashPoints, disruptions[c.store]) {
			if c.applied[disruption] == 0 {
				t.Errorf("%s did not occur in %d cycles", disruption, c.cycles)
			}
		}
	}
	if t.Failed() {
		t.Logf("again: %s", c.replay())
	}
}

// next returns the next disruption; first those that missed.
func (c *campaign) next() (disruption string, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.missed) > 0 {
		disruption, c.missed = c.missed[0], c.missed[1:]
		return disruption, true
	}
	disruption, c.queue = c.queue[0], c.queue[1:]
	return disruption, false
}

// note counts a disruption that took effect, or puts it back.
func (c *campaign) note(disruption string, hit bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if hit {
		c.applied[disruption]++
		return
	}
	c.missed = append(c.missed, disruption)
}

// noteWhileRecovering counts a crash of a node during recovery.
func (c *campaign) noteWhileRecovering(point string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied[point]++
	c.inRecovery++
}

func (c *campaign) noteSettled(settled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if settled {
		c.settled++
	}
}

// report adds the counts of a cycle, and logs progress every five cycles.
func (c *campaign) report(t testing.TB, answers int64, orders int, violations int64) {
	c.mu.Lock()
	c.done++
	c.answers += answers
	c.orders += orders
	c.violations += violations
	say := c.done%5 == 0
	c.mu.Unlock()
	if say {
		t.Log(c.standing())
	}
}

func (c *campaign) standing() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	places := map[string]int{}
	for disruption, times := range c.applied {
		placeOrder, _, _ := strings.Cut(disruption, ".")
		places[placeOrder] += times
	}
	return fmt.Sprintf("%s: cycle %d of %d; disruptions: %s (%d while recovering); %d settled at once; %d orders, %d answers, %d violations",
		c.store, c.done, c.cycles, sortedCounts(places), c.inRecovery, c.settled, c.orders, c.answers, c.violations)
}

// Whatever is killed at whatever point: answers stay true, no key is charged twice,
// every wallet is right to the paisa, and the provider has carried out what succeeded,
// once. COAX_TEST_STORE names one store; the default is both.
func TestKilledNodes_LoseNothing(t *testing.T) {
	stores := []string{"sqlite", "postgres"}
	if store := os.Getenv("COAX_TEST_STORE"); store != "" {
		stores = []string{store}
	}
	for _, store := range stores {
		t.Run(store, func(t *testing.T) { newCampaign(t, store, coverageCycles).run(t) })
	}
}
