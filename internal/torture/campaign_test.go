//go:build long

package torture

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// points are all the places where a node can be made to die; a test holds them
// against those in the code.
var points = []string{
	"N.before", "N.after", "R.before", "R.in", "P.before", "P.sent", "P.after", "S.in", "S.after",
	"V.claimed", "V.answered", "V.settled",
}

// blows are what else can happen to an installation, by its store.
var blows = map[string][]string{
	"sqlite":   {"kill", "kill", "kill", "terminate"},
	"postgres": {"kill one", "kill two", "kill all", "cut connections", "restart the database", "sleep"},
}

const (
	cyclesOfAWorld = 10
	// enough is from how many cycles on every blow must have been dealt.
	enough = 20
)

// campaign is a run of cycles over several worlds, and what it came to.
type campaign struct {
	t      *testing.T
	store  string
	cycles int
	seed   uint64

	mu         sync.Mutex
	deck       []string
	missed     []string
	done       int
	dealt      map[string]int // blows, by place or kind
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
		dealt: map[string]int{}, codes: map[string]int{},
	}
	order := rand.New(rand.NewPCG(c.seed, 0))
	for len(c.deck) < c.cycles {
		round := slices.Concat(points, blows[store])
		order.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		c.deck = append(c.deck, round...)
	}
	return c
}

func number(t testing.TB, variable string, standard int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a number from 1 on", variable, text)
	}
	return n
}

// replay is the command that runs this campaign again.
func (c *campaign) replay() string {
	target := "torture"
	if c.store == "postgres" {
		target = "torture-postgres"
	}
	return fmt.Sprintf("make %s CYCLES=%d SEED=%d", target, c.cycles, c.seed)
}

// run has several worlds at once go through their cycles: they wait more than they
// work.
func (c *campaign) run(t *testing.T) {
	t.Logf("seed %d: %s", c.seed, c.replay())
	t.Run("world", func(t *testing.T) {
		for first := 0; first < c.cycles; first += cyclesOfAWorld {
			t.Run(fmt.Sprint(first/cyclesOfAWorld+1), func(t *testing.T) {
				t.Parallel()
				c.live(t, first/cyclesOfAWorld, min(cyclesOfAWorld, c.cycles-first))
			})
		}
	})
	t.Log(c.standing())
	t.Logf("codes: %v", sortedCounts(c.codes))
	if c.cycles >= enough && !t.Failed() {
		for _, blow := range slices.Concat(points, blows[c.store]) {
			if c.dealt[blow] == 0 {
				t.Errorf("in %d cycles, nothing was dealt %s", c.cycles, blow)
			}
		}
	}
	if t.Failed() {
		t.Logf("again: %s", c.replay())
	}
}

// draw takes the next blow; first those that missed.
func (c *campaign) draw() (blow string, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.missed) > 0 {
		blow, c.missed = c.missed[0], c.missed[1:]
		return blow, true
	}
	blow, c.deck = c.deck[0], c.deck[1:]
	return blow, false
}

// note counts a blow that struck, or puts it back.
func (c *campaign) note(blow string, struck bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if struck {
		c.dealt[blow]++
		return
	}
	c.missed = append(c.missed, blow)
}

// noteWhileRecovering counts a death of a node that was cleaning up after another.
func (c *campaign) noteWhileRecovering(point string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dealt[point]++
	c.inRecovery++
}

func (c *campaign) noteSettled(settled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if settled {
		c.settled++
	}
}

// report adds what a cycle came to, and says now and then how things stand.
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
	for blow, times := range c.dealt {
		place, _, _ := strings.Cut(blow, ".")
		places[place] += times
	}
	return fmt.Sprintf("%s: cycle %d of %d; blows: %s (%d while recovering); %d settled at once; %d orders, %d answers, %d violations",
		c.store, c.done, c.cycles, sortedCounts(places), c.inRecovery, c.settled, c.orders, c.answers, c.violations)
}

func sortedCounts(counts map[string]int) string {
	var words []string
	for _, name := range slices.SortedFunc(maps.Keys(counts), cmp.Compare[string]) {
		words = append(words, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(words, ", ")
}
