//go:build long

package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// gently is the pause between two rounds of questions: nodes that are asked
// without one would have no time to do anything.
const gently = 25 * time.Millisecond

// settle has every client ask about its open orders, with the same keys, and
// reports whether each has its end by now, or nobody can know it.
func (w *world) settle() bool {
	w.t.Helper()
	open := make([]int, len(w.software))
	var asking sync.WaitGroup
	for i, s := range w.software {
		asking.Go(func() {
			for _, o := range s.orders {
				if s.awaited(o) {
					s.send(o)
				}
				if s.awaited(o) {
					open[i]++
				}
			}
		})
	}
	asking.Wait()
	return slices.Max(open) == 0
}

// awaited reports whether an order still has to come to an end by itself. What the
// provider will not say a word about waits for a person; which order that is, only
// the provider knows, since two that overlap may have changed places with it.
func (s *software) awaited(o *order) bool {
	state, refused := s.w.record.stateOf(o)
	switch {
	case rank[state] == 3 || refused:
		return false
	case state == "needs_review" && !o.unknowable:
		for _, call := range s.w.provider.calls(o.mobile) {
			o.unknowable = o.unknowable || call.Reference == o.id && call.Outcome == "unknowable"
		}
	}
	return !o.unknowable
}

// compare holds the service's and the provider's books against what the clients
// were told. Settled is whether every order has come to its end; thorough asks
// about everything there ever was.
func (w *world) compare(settled, thorough bool) {
	w.t.Helper()
	w.lookUp((*software).uncertain)
	if thorough {
		w.lookUpEverything()
	} else {
		w.lookUp((*software).everyTenth)
	}
	w.compareWallets()
	w.compareProvider(settled)
	if thorough {
		w.compareExpiries()
	}
	w.audit()
}

// lookUp has every client look up those of its orders that fit; the record judges
// what is answered.
func (w *world) lookUp(fits func(*software, *order) bool) {
	w.t.Helper()
	var asking sync.WaitGroup
	for _, s := range w.software {
		asking.Go(func() {
			for _, o := range s.orders {
				if fits(s, o) {
					s.lookAt(s.speaker(), o)
				}
			}
		})
	}
	asking.Wait()
}

// uncertain reports whether more may be there of an order than its client was
// told: it has no end yet, or was refused while another request for it may have
// got through.
func (s *software) uncertain(o *order) bool {
	s.w.record.mu.Lock()
	defer s.w.record.mu.Unlock()
	last := o.last()
	return rank[o.state()] < 3 && (last == nil || last.state != "" || o.unheard > 0)
}

func (s *software) everyTenth(*order) bool { return s.rand.IntN(10) == 0 }

// lookUpEverything asks for all there ever was, and sends a third of it again. What
// was refused is not: its key is free, and would be good for an operation now.
func (w *world) lookUpEverything() {
	w.t.Helper()
	w.lookUp(func(s *software, o *order) bool {
		if s.hasOperation(o) && s.rand.IntN(3) == 0 {
			s.send(o)
		}
		return true
	})
	for id, key := range w.record.transactions() {
		if w.record.byTransaction[id] == nil {
			// It was only mentioned, by a refusal: anybody of the operator's may ask.
			s := w.clientOf(w.record.orders[key].by)
			_, _ = s.speaker().Transaction(context.Background(), id)
		}
	}
}

func (w *world) clientOf(o *operator) *software {
	return w.software[slices.IndexFunc(w.software, func(s *software) bool { return s.by == o })]
}

// compareWallets: what was paid in, less what succeeded, less what is held.
func (w *world) compareWallets() {
	w.t.Helper()
	for _, operator := range w.operators {
		var has, want int64
		var err error
		// A request whose client has hung up may still be under way, and a refund
		// may come between two look-ups.
		agree := within(patience/4, gently, func() bool {
			if has, err = w.balance(operator); err != nil {
				return false
			}
			want = operator.paidIn
			for _, o := range w.record.all() {
				if state, _ := w.record.stateOf(o); o.by == operator && state != "" && state != "failed" {
					want -= prices[o.plan]
				}
			}
			if has != want {
				w.lookUp((*software).uncertain)
			}
			return has == want
		})
		if !agree {
			w.record.violation(nil, "the wallet of operator %d holds %d paise (%v); by its clients' records it is %d", operator.id, has, err, want)
		}
	}
}

func (w *world) balance(of *operator) (int64, error) {
	balance, err := w.clientOf(of).speaker().Balance(context.Background())
	if err != nil {
		return 0, err
	}
	return int64(balance.WalletBalance), nil
}

// compareProvider: what the provider carried out is what succeeded, each once.
// What is not settled yet may be either.
func (w *world) compareProvider(settled bool) {
	w.t.Helper()
	succeeded, open := map[string]*order{}, map[string]bool{}
	for _, o := range w.record.all() {
		switch state, _ := w.record.stateOf(o); state {
		case "success":
			succeeded[o.id] = o
		case "failed":
		default:
			open[o.id] = true
		}
	}
	mayBe := func(reference string) bool {
		return !settled && (open[reference] || w.record.byTransaction[reference] == nil)
	}
	addons := map[string]int{}
	// Read after the states, so that what happens meanwhile is not missed here.
	for reference, times := range w.provider.effects() {
		if times > 1 {
			w.record.violation(nil, "the provider carried out %s %d times", reference, times)
		}
		// An add-on's reference is the operation's with something behind.
		if id, _, addon := strings.Cut(reference, "-2"); addon {
			addons[id]++
			continue
		}
		if succeeded[reference] == nil && !mayBe(reference) {
			w.record.violation(w.record.byTransaction[reference], "the provider carried out %s, which did not succeed", reference)
		}
		delete(succeeded, reference)
	}
	for id, o := range succeeded {
		w.record.violation(o, "%s succeeded, and the provider has not carried it out", id)
	}
	for id, times := range addons {
		if times > 1 {
			w.record.violation(w.record.byTransaction[id], "the provider carried out the add-on of %s %d times", id, times)
		}
	}
}

// compareExpiries: a subscriber runs until the last of the ends that its
// operations were answered with.
func (w *world) compareExpiries() {
	w.t.Helper()
	ends := map[string]string{}
	for _, o := range w.record.all() {
		if state, _ := w.record.stateOf(o); state == "success" {
			expiry, _ := w.record.finalData(o)["expiry"].(map[string]any)
			ends[o.mobile] = max(ends[o.mobile], fmt.Sprint(expiry["new"]))
		}
	}
	for _, mobile := range slices.Sorted(maps.Keys(ends)) {
		for _, s := range w.software {
			if !strings.HasPrefix(mobile, fmt.Sprintf("98%02d", s.number)) {
				continue
			}
			response, err := s.speaker().Send(context.Background(), "GET", "subscription?mobile="+mobile, nil, nil)
			var shown struct {
				Data struct {
					Expiry string `json:"expiry_date"`
				} `json:"data"`
			}
			if err == nil {
				err = json.Unmarshal(response.Body, &shown)
			}
			if err != nil || shown.Data.Expiry != ends[mobile] {
				w.record.violation(nil, "the subscriber %s runs until %q (%v); its operations were answered with %q", mobile, shown.Data.Expiry, err, ends[mobile])
			}
		}
	}
}
