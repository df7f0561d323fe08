package login

import (
	"container/list"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	attemptsWindow = 15 * time.Minute

	// attemptsPerName is few, because a code has only a million values; and people
	// who mistype more often than that within a quarter of an hour need help anyway.
	attemptsPerName = 10
	// attemptsPerAddress is more: an office has one.
	attemptsPerAddress = 50

	// attemptsKept bounds the memory: some 500 bytes each if all of them are at
	// their limit.
	attemptsKept = 50_000
)

// attempts counts failed attempts per username and per address over a sliding window.
// A username counts whether or not it is anybody's, so that being throttled tells
// nothing.
//
// An attempt is counted when it begins, and taken back if it succeeds: checking a
// password takes long enough for a thousand others to begin meanwhile. The counts
// are in memory, each node's own.
type attempts struct {
	most int

	mu     sync.Mutex
	byKey  map[string]*list.Element
	recent *list.List // of *tally, the one counted last in front
}

// tally is when attempts under one key began, oldest first, never more than its limit.
type tally struct {
	key   string
	times []time.Time
}

func newAttempts(most int) *attempts {
	return &attempts{most: most, byKey: map[string]*list.Element{}, recent: list.New()}
}

// begin counts an attempt, unless there were too many; then it says how long to wait.
// An empty username is nobody's, and only its address counts.
func (a *attempts) begin(now time.Time, username string, address netip.Addr) (takeBack func(), wait time.Duration) {
	limits := map[string]int{"from " + network(address): attemptsPerAddress}
	if username != "" {
		limits["as "+username] = attemptsPerName
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, limit := range limits {
		if element := a.byKey[key]; element != nil {
			wait = max(wait, element.Value.(*tally).wait(now, limit))
		}
	}
	if wait > 0 {
		return nil, wait
	}
	for key, limit := range limits {
		a.count(key, limit, now)
	}
	return func() { a.takeBack(limits, now) }, 0
}

func (a *attempts) count(key string, limit int, now time.Time) {
	element := a.byKey[key]
	if element == nil {
		if len(a.byKey) >= a.most {
			a.drop(a.recent.Back())
		}
		element = a.recent.PushFront(&tally{key: key})
		a.byKey[key] = element
	}
	a.recent.MoveToFront(element)
	t := element.Value.(*tally)
	t.times = append(t.times, now)
	if len(t.times) > limit {
		t.times = slices.Delete(t.times, 0, len(t.times)-limit)
	}
}

func (a *attempts) takeBack(keys map[string]int, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range keys {
		element := a.byKey[key]
		if element == nil {
			continue
		}
		t := element.Value.(*tally)
		if i := slices.IndexFunc(t.times, at.Equal); i >= 0 {
			t.times = slices.Delete(t.times, i, i+1)
		}
		if len(t.times) == 0 {
			a.drop(element)
		}
	}
}

func (a *attempts) drop(element *list.Element) {
	a.recent.Remove(element)
	delete(a.byKey, element.Value.(*tally).key)
}

// wait is how long it takes until one more is allowed; 0 if it is now. Attempts from
// the future count no longer than others: a clock that was set back must not lock
// anybody out.
func (t *tally) wait(now time.Time, limit int) time.Duration {
	var within []time.Time
	for _, at := range t.times {
		if age := now.Sub(at); age < attemptsWindow && age > -attemptsWindow {
			within = append(within, at)
		}
	}
	if len(within) < limit {
		return 0
	}
	return min(attemptsWindow, within[len(within)-limit].Add(attemptsWindow).Sub(now))
}

// network is what one caller has: an IPv4 address, or the /64 that every IPv6 line
// comes with.
func network(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if address.Is6() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}
