//go:build long

package linearizability_test

import "github.com/coaxhq/coax/internal/fault"

var admissionFalsifications = []falsification{
	{"nonce", "let in twice", func(r *record) bool {
		burned := map[string]bool{}
		for _, k := range r.authAttempts {
			burned[k.nonce] = burned[k.nonce] || k.code == fault.OK
		}
		i, found := first(r.authAttempts, func(k authAttempt) bool { return k.code == fault.ReplayDetected && burned[k.nonce] })
		if found {
			r.authAttempts[i].code = fault.OK
		}
		return found
	}},
	{"nonce", "refused unused", func(r *record) bool {
		carried := map[string]int{}
		for _, k := range r.authAttempts {
			carried[k.nonce]++
		}
		i, found := first(r.authAttempts, func(k authAttempt) bool { return k.code == fault.OK && carried[k.nonce] == 1 })
		if found {
			r.authAttempts[i].code = fault.ReplayDetected
		}
		return found
	}},
	{"admission", "one place given twice", func(r *record) bool {
		i, found := first(r.authAttempts, func(k authAttempt) bool { return k.code == fault.OK })
		if found {
			r.authAttempts = append(r.authAttempts, r.authAttempts[i])
		}
		return found
	}},
	{"admission", "one more than the limit", func(r *record) bool {
		// One more request is admitted after the last, with a remaining count below zero.
		i, found := first(r.authAttempts, func(k authAttempt) bool { return k.code == fault.OK && k.remaining == 0 })
		if found {
			more := r.authAttempts[i]
			more.remaining = -1
			r.authAttempts = append(r.authAttempts, more)
		}
		return found
	}},
	{"admission", "refused while there were places", func(r *record) bool {
		// Without the first request of a minute, the second cannot be the second.
		uncertain, seconds := map[int64]bool{}, map[int64]bool{}
		for _, k := range r.authAttempts {
			uncertain[k.minute] = uncertain[k.minute] || k.admissionResult.unsure
			seconds[k.minute] = seconds[k.minute] || k.code == fault.OK && k.limit-k.remaining == 2
		}
		i, found := first(r.authAttempts, func(k authAttempt) bool {
			return k.code == fault.OK && k.limit-k.remaining == 1 && seconds[k.minute] && !uncertain[k.minute]
		})
		if found {
			r.authAttempts[i].code = fault.RateLimited
		}
		return found
	}},
	{"admission", "let in on terms that were never set", func(r *record) bool {
		i, found := first(r.authAttempts, func(k authAttempt) bool { return k.code == fault.OK })
		if found {
			r.authAttempts[i].limit += 1000
			r.authAttempts[i].remaining += 1000
		}
		return found
	}},
	{"admission", "let in while blocked", func(r *record) bool {
		// Access is blocked after the end, and a later request is admitted.
		i, found := first(r.authAttempts, func(k authAttempt) bool { return k.code == fault.OK })
		if found {
			r.termsChanges = append(r.termsChanges, termsChange{r.afterwards(), r.authAttempts[i].limit, true})
			late, minute := r.afterwards(), int64(0)
			late.begun, late.ended = late.ended+1, late.ended+2
			r.authAttempts = append(r.authAttempts, authAttempt{late, "another", minute, fault.OK, r.authAttempts[i].limit, r.authAttempts[i].limit - 1, admissionResult{}})
		}
		return found
	}},
}
