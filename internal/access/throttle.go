package access

import (
	"container/list"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

const (
	defaultFailedAuthPerMinute = 30

	throttleWindow = time.Minute

	// throttleAddresses bounds how many addresses are remembered. An address
	// costs about 350 bytes and 16 for each failure: at the default limit some
	// 85 MB if all of them fail as often as they may.
	throttleAddresses = 100_000

	// sweepStep is how many forgotten addresses each call clears away. A call
	// adds one at most, so that two are enough to catch up.
	sweepStep = 2
)

// throttle counts failed authentications per address over a sliding minute, those
// of IPv6 per /64: whoever has one address there has all of it. It lives in
// memory: it shields the store from strangers, so it must not need it.
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
	// named holds those of them that failed with a key of ours, the one that did
	// so last in front: strangers who make up keys cannot crowd them out.
	named *list.List
	// past is which addresses had to wait: with a key of ours, and without.
	past [2]*throttleHistory
}

// offender is an address and its failures, oldest first, never more than the limit.
type offender struct {
	addr   netip.Addr
	failed []failure
	named  *list.Element // in the throttle's list of that name; nil if it is not there
	// unknown is the failures without a key, or with none of ours. They share one
	// count, because anybody can make up keys.
	unknown keyFailures
}

// failure is when an authentication failed, in Unix nanoseconds (a third of a
// time.Time), and with which key.
type failure struct {
	at  int64
	key *keyFailures
}

// keyFailures is one key's failures from one address.
type keyFailures struct {
	key  NamedKey
	code fault.Code // of the latest
	at   int64
}

// NamedKey is the key of ours that a failed request named; zero if it named none. Anybody
// who knows a key can name it, so it does not prove who called.
type NamedKey struct {
	OperatorID   int64
	CredentialID int64
	Hint         string
}

// attempt is what is known about a request that failed to authenticate.
type attempt struct {
	key  NamedKey
	code fault.Code
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
		named:    list.New(),
		past:     [2]*throttleHistory{newThrottleHistory(historyNamed), newThrottleHistory(historyUnknown)},
	}
}

// throttledAs is what an address is counted as: IPv4 as it is, IPv6 as the beginning of
// its /64.
func throttledAs(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if addr.Is6() {
		return prefixOf(addr.WithZone(""), 64).Addr()
	}
	return addr
}

// Check reports whether an address has to wait, and for how long: until the
// oldest of its last failures, as many as the limit, is a minute old.
func (t *throttle) Check(addr netip.Addr, now time.Time) (wait time.Duration, throttled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.sweep(now)
	element, found := t.failures[throttledAs(addr)]
	if !found {
		return 0, false
	}
	t.recall(element, now)
	return t.wait(element.Value.(*offender), now)
}

// wait is how long an address has to wait, if it has to.
func (t *throttle) wait(o *offender, now time.Time) (wait time.Duration, throttled bool) {
	oldest, counted := time.Duration(0), 0
	for _, f := range o.failed {
		if age := age(f.at, now); counts(age) {
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
func (t *throttle) Failed(addr netip.Addr, now time.Time, by attempt) (began bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.sweep(now)
	addr = throttledAs(addr)
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
	already := len(o.failed) == t.limit
	if already {
		// More requests were on their way when the limit was reached. The
		// latest failures count.
		o.failed = slices.Delete(o.failed, 0, 1)
	}
	key := o.failuresOf(by.key)
	key.code, key.at = by.code, now.UnixNano()
	o.failed = append(o.failed, failure{now.UnixNano(), key})
	if by.key.CredentialID != 0 {
		if o.named == nil {
			o.named = t.named.PushFront(o)
		}
		t.named.MoveToFront(o.named)
	}
	if already || len(o.failed) < t.limit {
		return false
	}
	past := t.past[0]
	if o.named == nil {
		past = t.past[1]
	}
	past.add(t.report(o, now))
	return true
}

// failuresOf returns where the failures of a key are noted, made anew if the key has not
// failed here within the window.
func (o *offender) failuresOf(key NamedKey) *keyFailures {
	if key.CredentialID == 0 {
		return &o.unknown
	}
	for _, f := range o.failed {
		if f.key.key.CredentialID == key.CredentialID {
			return f.key
		}
	}
	return &keyFailures{key: key}
}

// recall returns the failures of an address that are not over, and drops an
// address that has none left.
func (t *throttle) recall(element *list.Element, now time.Time) []failure {
	o := element.Value.(*offender)
	o.forget(now)
	if len(o.failed) == 0 {
		t.drop(element)
	}
	return o.failed
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
	o := element.Value.(*offender)
	t.recent.Remove(element)
	delete(t.failures, o.addr)
	if o.named != nil {
		t.named.Remove(o.named)
		o.named = nil
	}
}

// forget removes the failures that no longer count. Those from the future stay: a
// request that began before the others, or before the clock was set forward, must
// not wipe out what they have done.
func (o *offender) forget(now time.Time) {
	o.failed = slices.DeleteFunc(o.failed, func(f failure) bool { return age(f.at, now) >= throttleWindow })
}

func age(at int64, now time.Time) time.Duration { return time.Duration(now.UnixNano() - at) }

// counts reports whether a failure of that age lies within the window. One from
// the future does, by a little, when two requests overtake each other; but a
// clock that was set back must not lock anybody out for long.
func counts(age time.Duration) bool { return age < throttleWindow && age > -throttleWindow }
