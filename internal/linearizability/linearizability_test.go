//go:build long

package linearizability_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/store/pgtest"
)

const (
	// historiesOfThePlainTest is how many are run where nobody asks for another
	// number. The race detector makes them ten times as dear, and finds its races
	// in a few.
	historiesOfThePlainTest = 40
	historiesRaced          = 3
	historiesAskedFor       = "COAX_TEST_LINEAR_HISTORIES" // `make linear` sets it
	seedAskedFor            = "COAX_TEST_LINEAR_SEED"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.StopShared()
	os.Exit(code)
}

func TestTwoNodes_AreLinearizable(t *testing.T) {
	count := uint64(historiesOfThePlainTest)
	if raced {
		count = historiesRaced
	}
	count = numberFrom(t, historiesAskedFor, count)
	seed := numberFrom(t, seedAskedFor, rand.Uint64N(1<<32))
	for _, kind := range storeKinds {
		t.Run(kind.name, func(t *testing.T) {
			w := newWorld(t, kind)
			counts, began, reported := tally{}, time.Now(), time.Now()
			for i := range count {
				h := w.prepare(t, int(i), seed+i)
				h.run(t)
				counts.add(h.record)
				for _, s := range h.subjects() {
					s.mustBeInOrder(t)
				}
				if t.Failed() {
					// What clients do follows from the seed; when they do it, from nothing.
					t.Fatalf("history %d of %d; its clients do the same again with %s=%d, if not at the same moments",
						i+1, count, seedAskedFor, seed+i)
				}
				if time.Since(reported) > 10*time.Second {
					reported = time.Now()
					t.Logf("%d of %d histories in %s, all in order", i+1, count, time.Since(began).Round(time.Second))
				}
			}
			t.Logf("%d histories from seed %d in %s, all in order; in them:\n%s", count, seed, time.Since(began).Round(time.Second), counts)
			if count >= historiesOfThePlainTest {
				counts.mustHaveSeenEverything(t)
			}
		})
	}
}

func numberFrom(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil || number == 0 {
		t.Fatalf("%s=%q is not a number above zero", name, text)
	}
	return number
}
