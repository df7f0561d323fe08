//go:build long

package linearizability_test

import (
	"slices"

	"github.com/coaxhq/coax/internal/fault"
)

// nonce is whether one has been used.
type nonce bool

// burned is a request that the nonce was used up by, whatever was answered later.
type burned struct{}

func (burned) from(used nonce) (nonce, bool) { return true, !bool(used) }

// replayed is REPLAY_DETECTED.
type replayed struct{}

func (replayed) from(used nonce) (nonce, bool) { return used, bool(used) }

// perhapsBurned is a request of which nobody knows whether it got that far. If it
// did not, it comes last, where nothing rests on it.
type perhapsBurned struct{}

func (perhapsBurned) from(nonce) (nonce, bool) { return true, true }

// nonces are the nonces with every request that carried one.
func (r *record) nonces() []subject[nonce] {
	all := map[string]*subject[nonce]{}
	for _, k := range r.knocked {
		if all[k.nonce] == nil {
			all[k.nonce] = &subject[nonce]{name: "nonce " + k.nonce}
		}
		untold := k.code == fault.ServiceUnavailable
		switch s := all[k.nonce]; {
		case k.code == fault.ReplayDetected, untold && k.entry.replayed:
			s.add(k.span, replayed{})
		case !untold, k.entry.burned:
			s.add(k.span, burned{})
		case k.entry.unsure:
			k.ended = never
			s.add(k.span, perhapsBurned{})
		}
	}
	var nonces []subject[nonce]
	for _, s := range all {
		nonces = append(nonces, *s)
	}
	return nonces
}

// door is on what terms an operator is let in, and how many places of each minute
// are taken.
type door struct {
	limit   int
	blocked bool
	used    [stepsPerClient * clients]uint8 // more minutes than requests there cannot be
}

// letIn is a request that was counted.
type letIn struct{ minute, limit, remaining int }

func (l letIn) from(d door) (door, bool) {
	d.used[l.minute]++
	used := int(d.used[l.minute])
	return d, !d.blocked && l.limit == d.limit && used <= d.limit && l.remaining == d.limit-used
}

// tooMany is RATE_LIMITED.
type tooMany struct{ minute, limit int }

func (l tooMany) from(d door) (door, bool) {
	return d, !d.blocked && l.limit == d.limit && int(d.used[l.minute]) >= d.limit
}

// keptOut is API_ACCESS_BLOCKED.
type keptOut struct{}

func (keptOut) from(d door) (door, bool) { return d, d.blocked }

// perhapsLetIn is a request of which nobody knows whether it was counted. If it
// was not, it comes last, where nobody counts.
type perhapsLetIn struct{ minute int }

func (l perhapsLetIn) from(d door) (door, bool) {
	if !d.blocked && int(d.used[l.minute]) < d.limit {
		d.used[l.minute]++
	}
	return d, true
}

// newTerms is a change that staff made.
type newTerms struct {
	limit   int
	blocked bool
}

func (n newTerms) from(d door) (door, bool) {
	d.limit, d.blocked = n.limit, n.blocked
	return d, true
}

// gate is the door of the one operator whom everybody calls as.
func (r *record) gate() []subject[door] {
	s := subject[door]{name: "the gate", start: door{limit: r.limit}}
	var minutes []int64
	for _, k := range r.knocked {
		minutes = append(minutes, k.minute)
	}
	slices.Sort(minutes)
	minutes = slices.Compact(minutes)
	for _, k := range r.knocked {
		minute, _ := slices.BinarySearch(minutes, k.minute)
		switch k.code {
		case fault.OK:
			s.add(k.span, letIn{minute, k.limit, k.remaining})
		case fault.RateLimited:
			s.add(k.span, tooMany{minute, k.limit})
		case fault.APIAccessBlocked:
			s.add(k.span, keptOut{})
		case fault.ServiceUnavailable:
			switch {
			case k.entry.counted:
				s.add(k.span, letIn{minute, k.entry.limit, k.entry.limit - k.entry.used})
			case k.entry.unsure:
				k.ended = never
				s.add(k.span, perhapsLetIn{minute})
			}
		}
	}
	for _, c := range r.switched {
		s.add(c.span, newTerms{c.limit, c.blocked})
	}
	return []subject[door]{s}
}
