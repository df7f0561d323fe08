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

// pollPause is the pause between two rounds of queries, so that nodes have time for
// other work.
const pollPause = 25 * time.Millisecond

// settle has every client repeat its open orders with the same keys, and reports
// whether each is settled, or its outcome is unknowable.
func (env *environment) settle() bool {
	env.t.Helper()
	open := make([]int, len(env.clients))
	var asking sync.WaitGroup
	for i, s := range env.clients {
		asking.Go(func() {
			for _, o := range s.orders {
				if s.pending(o) {
					s.send(o)
				}
				if s.pending(o) {
					open[i]++
				}
			}
		})
	}
	asking.Wait()
	return slices.Max(open) == 0
}

// pending reports whether an order is still to be settled without a person. Orders with
// the outcome "unknowable" wait for a person; the provider's call list shows which they
// are, because overlapping orders may have swapped their scripted outcomes.
func (s *operatorClient) pending(o *order) bool {
	state, refused := s.env.record.stateOf(o)
	switch {
	case rank[state] == 3 || refused:
		return false
	case state == "needs_review" && !o.unknowable:
		for _, call := range s.env.provider.calls(o.mobile) {
			o.unknowable = o.unknowable || call.Reference == o.id && call.Outcome == "unknowable"
		}
	}
	return !o.unknowable
}

// compare compares the service's and the provider's state with the clients' records.
// settled: every order is settled. thorough: query all orders, not a sample.
func (env *environment) compare(settled, thorough bool) {
	env.t.Helper()
	env.lookUp((*operatorClient).uncertain)
	if thorough {
		env.lookUpEverything()
	} else {
		env.lookUp((*operatorClient).everyTenth)
	}
	env.compareWallets()
	env.compareProvider(settled)
	if thorough {
		env.compareExpiries()
	}
	env.audit()
}

// lookUp has every client look up its matching orders; the record checks the answers.
func (env *environment) lookUp(fits func(*operatorClient, *order) bool) {
	env.t.Helper()
	var asking sync.WaitGroup
	for _, s := range env.clients {
		asking.Go(func() {
			for _, o := range s.orders {
				if fits(s, o) {
					s.lookAt(s.apiClient(), o)
				}
			}
		})
	}
	asking.Wait()
}

// uncertain reports whether an order may have got further than its client was shown: it
// is not settled, or was refused while another request for it got no answer.
func (s *operatorClient) uncertain(o *order) bool {
	s.env.record.mu.Lock()
	defer s.env.record.mu.Unlock()
	last := o.last()
	return rank[o.state()] < 3 && (last == nil || last.state != "" || o.unanswered > 0)
}

func (s *operatorClient) everyTenth(*order) bool { return s.rand.IntN(10) == 0 }

// lookUpEverything looks up all orders, and sends a third again. Refused orders are not
// sent again: their keys are unused, and would create operations now.
func (env *environment) lookUpEverything() {
	env.t.Helper()
	env.lookUp(func(s *operatorClient, o *order) bool {
		if s.hasOperation(o) && s.rand.IntN(3) == 0 {
			s.send(o)
		}
		return true
	})
	for id, key := range env.record.transactions() {
		if env.record.byTransaction[id] == nil {
			// Known only from a refusal: any client of the operator may query it.
			s := env.clientOf(env.record.orders[key].by)
			_, _ = s.apiClient().Transaction(context.Background(), id)
		}
	}
}

func (env *environment) clientOf(o *operator) *operatorClient {
	return env.clients[slices.IndexFunc(env.clients, func(s *operatorClient) bool { return s.by == o })]
}

// compareWallets: a balance is the top-ups less what succeeded and what is held.
func (env *environment) compareWallets() {
	env.t.Helper()
	for _, operator := range env.operators {
		var has, want int64
		var err error
		// A request whose client has hung up may still be in progress, and a refund may
		// come between two lookups.
		agree := within(timeout/4, pollPause, func() bool {
			if has, err = env.balance(operator); err != nil {
				return false
			}
			want = operator.paidIn
			for _, o := range env.record.all() {
				if state, _ := env.record.stateOf(o); o.by == operator && state != "" && state != "failed" {
					want -= prices[o.plan]
				}
			}
			if has != want {
				env.lookUp((*operatorClient).uncertain)
			}
			return has == want
		})
		if !agree {
			env.record.violation(nil, "the wallet of operator %d holds %d paise (%v); by its clients' records it is %d", operator.id, has, err, want)
		}
	}
}

func (env *environment) balance(of *operator) (int64, error) {
	balance, err := env.clientOf(of).apiClient().Balance(context.Background())
	if err != nil {
		return 0, err
	}
	return int64(balance.WalletBalance), nil
}

// compareProvider: the provider carried out exactly what succeeded, each once. Orders
// that are not settled may be either.
func (env *environment) compareProvider(settled bool) {
	env.t.Helper()
	succeeded, open := map[string]*order{}, map[string]bool{}
	for _, o := range env.record.all() {
		switch state, _ := env.record.stateOf(o); state {
		case "success":
			succeeded[o.id] = o
		case "failed":
		default:
			open[o.id] = true
		}
	}
	mayBe := func(reference string) bool {
		return !settled && (open[reference] || env.record.byTransaction[reference] == nil)
	}
	addons := map[string]int{}
	// Read after the states, so that what happens meanwhile is not missed here.
	for reference, times := range env.provider.effects() {
		if times > 1 {
			env.record.violation(nil, "the provider carried out %s %d times", reference, times)
		}
		// An add-on's reference is the operation's with something behind.
		if id, _, addon := strings.Cut(reference, "-2"); addon {
			addons[id]++
			continue
		}
		if succeeded[reference] == nil && !mayBe(reference) {
			env.record.violation(env.record.byTransaction[reference], "the provider carried out %s, which did not succeed", reference)
		}
		delete(succeeded, reference)
	}
	for id, o := range succeeded {
		env.record.violation(o, "%s succeeded, and the provider has not carried it out", id)
	}
	for id, times := range addons {
		if times > 1 {
			env.record.violation(env.record.byTransaction[id], "the provider carried out the add-on of %s %d times", id, times)
		}
	}
}

// compareExpiries: a subscription's expiry is the latest that its operations were
// answered with.
func (env *environment) compareExpiries() {
	env.t.Helper()
	ends := map[string]string{}
	for _, o := range env.record.all() {
		if state, _ := env.record.stateOf(o); state == "success" {
			expiry, _ := env.record.finalData(o)["expiry"].(map[string]any)
			ends[o.mobile] = max(ends[o.mobile], fmt.Sprint(expiry["new"]))
		}
	}
	for _, mobile := range slices.Sorted(maps.Keys(ends)) {
		for _, s := range env.clients {
			if !strings.HasPrefix(mobile, fmt.Sprintf("98%02d", s.number)) {
				continue
			}
			response, err := s.apiClient().Send(context.Background(), "GET", "subscription?mobile="+mobile, nil, nil)
			var shown struct {
				Data struct {
					Expiry string `json:"expiry_date"`
				} `json:"data"`
			}
			if err == nil {
				err = json.Unmarshal(response.Body, &shown)
			}
			if err != nil || shown.Data.Expiry != ends[mobile] {
				env.record.violation(nil, "the subscriber %s runs until %q (%v); its operations were answered with %q", mobile, shown.Data.Expiry, err, ends[mobile])
			}
		}
	}
}
