//go:build long

package linearizability_test

import (
	"slices"

	"github.com/coaxhq/coax/internal/fault"
)

// nonce reports whether a nonce has been used.
type nonce bool

// burned is a request that used up the nonce, whatever its answer.
type burned struct{}

func (burned) from(used nonce) (nonce, bool) { return true, !bool(used) }

// replayed is REPLAY_DETECTED.
type replayed struct{}

func (replayed) from(used nonce) (nonce, bool) { return used, bool(used) }

// maybeBurned is a request that may have used up the nonce. If it did not, it is
// ordered last, where it changes nothing.
type maybeBurned struct{}

func (maybeBurned) from(nonce) (nonce, bool) { return true, true }

// nonces returns the nonces with every request that carried one.
func (r *record) nonces() []subject[nonce] {
	all := map[string]*subject[nonce]{}
	for _, k := range r.authAttempts {
		if all[k.nonce] == nil {
			all[k.nonce] = &subject[nonce]{name: "nonce " + k.nonce}
		}
		unanswered := k.code == fault.ServiceUnavailable
		switch s := all[k.nonce]; {
		case k.code == fault.ReplayDetected, unanswered && k.admissionResult.replayed:
			s.add(k.span, replayed{})
		case !unanswered, k.admissionResult.burned:
			s.add(k.span, burned{})
		case k.admissionResult.unsure:
			k.ended = never
			s.add(k.span, maybeBurned{})
		}
	}
	var nonces []subject[nonce]
	for _, s := range all {
		nonces = append(nonces, *s)
	}
	return nonces
}

// admissionState is an operator's rate limit, whether its access is blocked, and how
// many requests were counted in each minute.
type admissionState struct {
	limit   int
	blocked bool
	used    [stepsPerClient * clients]uint8 // there are no more minutes than requests
}

// admitted is a request that was counted.
type admitted struct{ minute, limit, remaining int }

func (l admitted) from(d admissionState) (admissionState, bool) {
	d.used[l.minute]++
	used := int(d.used[l.minute])
	return d, !d.blocked && l.limit == d.limit && used <= d.limit && l.remaining == d.limit-used
}

// rateLimited is RATE_LIMITED.
type rateLimited struct{ minute, limit int }

func (l rateLimited) from(d admissionState) (admissionState, bool) {
	return d, !d.blocked && l.limit == d.limit && int(d.used[l.minute]) >= d.limit
}

// accessBlocked is API_ACCESS_BLOCKED.
type accessBlocked struct{}

func (accessBlocked) from(d admissionState) (admissionState, bool) { return d, d.blocked }

// maybeAdmitted is a request that may have been counted. If it was not, it is ordered
// last, where it changes nothing.
type maybeAdmitted struct{ minute int }

func (l maybeAdmitted) from(d admissionState) (admissionState, bool) {
	if !d.blocked && int(d.used[l.minute]) < d.limit {
		d.used[l.minute]++
	}
	return d, true
}

// newTerms is a change of limit or access by staff.
type newTerms struct {
	limit   int
	blocked bool
}

func (n newTerms) from(d admissionState) (admissionState, bool) {
	d.limit, d.blocked = n.limit, n.blocked
	return d, true
}

// admissions returns the admission state of the operator that all clients sign for.
func (r *record) admissions() []subject[admissionState] {
	s := subject[admissionState]{name: "admission", start: admissionState{limit: r.limit}}
	var minutes []int64
	for _, k := range r.authAttempts {
		minutes = append(minutes, k.minute)
	}
	slices.Sort(minutes)
	minutes = slices.Compact(minutes)
	for _, k := range r.authAttempts {
		minute, _ := slices.BinarySearch(minutes, k.minute)
		switch k.code {
		case fault.OK:
			s.add(k.span, admitted{minute, k.limit, k.remaining})
		case fault.RateLimited:
			s.add(k.span, rateLimited{minute, k.limit})
		case fault.APIAccessBlocked:
			s.add(k.span, accessBlocked{})
		case fault.ServiceUnavailable:
			switch {
			case k.admissionResult.counted:
				s.add(k.span, admitted{minute, k.admissionResult.limit, k.admissionResult.limit - k.admissionResult.used})
			case k.admissionResult.unsure:
				k.ended = never
				s.add(k.span, maybeAdmitted{minute})
			}
		}
	}
	for _, c := range r.termsChanges {
		s.add(c.span, newTerms{c.limit, c.blocked})
	}
	return []subject[admissionState]{s}
}
