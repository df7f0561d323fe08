package access

import (
	"container/list"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	defaultFailedAuthPerMinute = 30

	throttleWindow = time.Minute

	// throttleAddresses bounds how many addresses are remembered. An address
	// costs about 250 bytes and 8 for each failure: at the default limit some
	// 50 MB if all of them fail as often as they may.
	throttleAddresses = 100_000

	// sweepStep is how many forgotten addresses each call clears away. A call
	// adds one at most, so that two are enough to catch up.
	sweepStep = 2
)

// throttle counts failed authentications per address over a sliding minute. It
// lives in memory: it shields the store from strangers, so it must not need it.
//
// When it is full, the address whose last failure is longest ago is dropped.
// An attacker with more addresses than that is not stopped by counting them.
type throttle struct {
	limit    int
	capacity int

	mu       sync.Mutex
	failures map[netip.Addr]*list.Element
	// recent holds an *offender for each address, the one that failed last in
	// front.
	recent *list.List
}

// offender is an address and when it failed, in Unix nanoseconds (a third of a
// time.Time), oldest first, never more often than the limit.
type offender struct {
	addr  netip.Addr
	times []int64
}

func newThrottle(limit int) *throttle {
	if limit <= 0 {
		limit = defaultFailedAuthPerMinute
	}
	return &throttle{
		limit:    limit,
		capacity: throttleAddresses,
		failures: map[netip.Addr]*list.Element{},
		recent:   list.New(),
	}
}

// Check reports whether an address has to wait, and for how long: until the
// oldest of its last failures, as many as the limit, is a minute old.
func (t *throttle) Check(addr netip.Addr, now time.Time) (wait time.Duration, throttled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.sweep(now)
	element, found := t.failures[addr.Unmap()]
	if !found {
		return 0, false
	}
	oldest, counted := time.Duration(0), 0
	for _, at := range t.recall(element, now) {
		if age := age(at, now); counts(age) {
			oldest, counted = max(oldest, age), counted+1
		}
	}
	if counted < t.limit {
		return 0, false
	}
	return throttleWindow - oldest, true
}

// Failed counts a failure, and reports whether the address has to wait because of it.
// Being throttled is not one: whoever keeps knocking gets in again as soon as the
// failures have aged.
func (t *throttle) Failed(addr netip.Addr, now time.Time) (began bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.sweep(now)
	addr = addr.Unmap()
	element, found := t.failures[addr]
	if !found {
		if len(t.failures) >= t.capacity {
			t.drop(t.recent.Back())
		}
		element = t.recent.PushFront(&offender{addr: addr})
		t.failures[addr] = element
	}
	t.recent.MoveToFront(element)

	o := element.Value.(*offender)
	o.forget(now)
	already := len(o.times) == t.limit
	if already {
		// More requests were on their way when the limit was reached. The
		// latest failures count.
		o.times = slices.Delete(o.times, 0, 1)
	}
	o.times = append(o.times, now.UnixNano())
	return !already && len(o.times) == t.limit
}

// recall returns the failures of an address that are not over, and drops an
// address that has none left.
func (t *throttle) recall(element *list.Element, now time.Time) []int64 {
	o := element.Value.(*offender)
	o.forget(now)
	if len(o.times) == 0 {
		t.drop(element)
	}
	return o.times
}

// sweep gives back the memory of addresses that do not come again. Only the
// longest silent ones need a look; what they leave is cleared a little with
// each call, so that no call has to clear it all.
func (t *throttle) sweep(now time.Time) {
	for range sweepStep {
		last := t.recent.Back()
		if last == nil || len(t.recall(last, now)) > 0 {
			return
		}
	}
}

func (t *throttle) drop(element *list.Element) {
	t.recent.Remove(element)
	delete(t.failures, element.Value.(*offender).addr)
}

// forget removes the failures that no longer count. Those from the future stay: a
// request that began before the others, or before the clock was set forward, must
// not wipe out what they have done.
func (o *offender) forget(now time.Time) {
	o.times = slices.DeleteFunc(o.times, func(at int64) bool { return age(at, now) >= throttleWindow })
}

func age(at int64, now time.Time) time.Duration { return time.Duration(now.UnixNano() - at) }

// counts reports whether a failure of that age lies within the window. One from
// the future does, by a little, when two requests overtake each other; but a
// clock that was set back must not lock anybody out for long.
func counts(age time.Duration) bool { return age < throttleWindow && age > -throttleWindow }
