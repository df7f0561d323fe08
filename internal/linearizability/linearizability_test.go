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
	// defaultHistories is how many histories run by default. Under the race detector
	// each takes ten times as long, and a few are enough.
	defaultHistories  = 40
	historiesRaced    = 3
	historiesVariable = "COAX_TEST_LINEAR_HISTORIES" // `make linear` sets it
	seedVariable      = "COAX_TEST_LINEAR_SEED"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.StopShared()
	os.Exit(code)
}

func TestTwoNodes_AreLinearizable(t *testing.T) {
	count := uint64(defaultHistories)
	if raced {
		count = historiesRaced
	}
	count = numberFrom(t, historiesVariable, count)
	seed := numberFrom(t, seedVariable, rand.Uint64N(1<<32))
	for _, kind := range storeKinds {
		t.Run(kind.name, func(t *testing.T) {
			env := newEnvironment(t, kind)
			counts, began, reported := tally{}, time.Now(), time.Now()
			for i := range count {
				h := env.prepare(t, int(i), seed+i)
				h.run(t)
				counts.add(h.record)
				for _, s := range h.subjects() {
					s.mustBeLinearizable(t)
				}
				if t.Failed() {
					// The seed determines what clients do, but not when.
					t.Fatalf("history %d of %d; its clients do the same again with %s=%d, if not at the same moments",
						i+1, count, seedVariable, seed+i)
				}
				if time.Since(reported) > 10*time.Second {
					reported = time.Now()
					t.Logf("%d of %d histories in %s, all linearizable", i+1, count, time.Since(began).Round(time.Second))
				}
			}
			t.Logf("%d histories from seed %d in %s, all linearizable; in them:\n%s", count, seed, time.Since(began).Round(time.Second), counts)
			if count >= defaultHistories {
				counts.requireAll(t)
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
