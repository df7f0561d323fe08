package sim

import (
	"slices"
	"time"
)

// chance is where every decision of a history comes from. A decision depends on
// the seed and on what is decided, and on nothing that was decided before: taking
// an action out of a history leaves what the others do as it was, which is what
// makes a failing history small.
type chance uint64

// of hashes the seed and the decision's labels to a number. Renaming a label changes
// every history that uses it, and with it the seeds in regressions_test.go.
func (c chance) of(what ...string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset) ^ uint64(c)*0x9E3779B97F4A7C15
	for _, text := range what {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * prime
		}
		h = (h ^ 0xff) * prime
	}
	// FNV's low bits are weak; these are splitmix's last steps.
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>27) * 0x94D049BB133111EB
	return h ^ h>>31
}

func (c chance) below(n int, what ...string) int { return int(c.of(what...) % uint64(n)) }

// odds is true perMille times in a thousand.
func (c chance) odds(perMille int, what ...string) bool { return c.below(1000, what...) < perMille }

func (c chance) between(least, most time.Duration, what ...string) time.Duration {
	return least + time.Duration(c.of(what...)%uint64(most-least+1)).Truncate(time.Millisecond)
}

func pick[T any](c chance, from []T, what ...string) T { return from[c.below(len(from), what...)] }

// weighted picks a name by its weight.
func weighted(c chance, weights []weight, what ...string) string {
	total := 0
	for _, one := range weights {
		total += one.weight
	}
	n := c.below(total, what...)
	for _, one := range weights {
		if n -= one.weight; n < 0 {
			return one.name
		}
	}
	panic("unreachable")
}

type weight struct {
	name   string
	weight int
}

// keys returns a map's keys, sorted.
func keys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
