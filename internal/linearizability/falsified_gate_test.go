//go:build long

package linearizability_test

import "github.com/coaxhq/coax/internal/fault"

var liesAtTheGate = []lie{
	{"nonce", "let in twice", func(r *record) bool {
		burned := map[string]bool{}
		for _, k := range r.knocked {
			burned[k.nonce] = burned[k.nonce] || k.code == fault.OK
		}
		i, found := first(r.knocked, func(k knocked) bool { return k.code == fault.ReplayDetected && burned[k.nonce] })
		if found {
			r.knocked[i].code = fault.OK
		}
		return found
	}},
	{"nonce", "refused unused", func(r *record) bool {
		carried := map[string]int{}
		for _, k := range r.knocked {
			carried[k.nonce]++
		}
		i, found := first(r.knocked, func(k knocked) bool { return k.code == fault.OK && carried[k.nonce] == 1 })
		if found {
			r.knocked[i].code = fault.ReplayDetected
		}
		return found
	}},
	{"the gate", "one place given twice", func(r *record) bool {
		i, found := first(r.knocked, func(k knocked) bool { return k.code == fault.OK })
		if found {
			r.knocked = append(r.knocked, r.knocked[i])
		}
		return found
	}},
	{"the gate", "one more than the limit", func(r *record) bool {
		// The last place goes once more, and the word on it is that none was below none.
		i, found := first(r.knocked, func(k knocked) bool { return k.code == fault.OK && k.remaining == 0 })
		if found {
			more := r.knocked[i]
			more.remaining = -1
			r.knocked = append(r.knocked, more)
		}
		return found
	}},
	{"the gate", "refused while there were places", func(r *record) bool {
		// Without the first of a minute, the second has nobody to come after.
		doubt, seconds := map[int64]bool{}, map[int64]bool{}
		for _, k := range r.knocked {
			doubt[k.minute] = doubt[k.minute] || k.entry.unsure
			seconds[k.minute] = seconds[k.minute] || k.code == fault.OK && k.limit-k.remaining == 2
		}
		i, found := first(r.knocked, func(k knocked) bool {
			return k.code == fault.OK && k.limit-k.remaining == 1 && seconds[k.minute] && !doubt[k.minute]
		})
		if found {
			r.knocked[i].code = fault.RateLimited
		}
		return found
	}},
	{"the gate", "let in on terms that were never set", func(r *record) bool {
		i, found := first(r.knocked, func(k knocked) bool { return k.code == fault.OK })
		if found {
			r.knocked[i].limit += 1000
			r.knocked[i].remaining += 1000
		}
		return found
	}},
	{"the gate", "let in while blocked", func(r *record) bool {
		// Blocked for good after the end, and somebody is let in later still.
		i, found := first(r.knocked, func(k knocked) bool { return k.code == fault.OK })
		if found {
			r.switched = append(r.switched, switched{r.afterwards(), r.knocked[i].limit, true})
			late, minute := r.afterwards(), int64(0)
			late.begun, late.ended = late.ended+1, late.ended+2
			r.knocked = append(r.knocked, knocked{late, "another", minute, fault.OK, r.knocked[i].limit, r.knocked[i].limit - 1, entry{}})
		}
		return found
	}},
}
