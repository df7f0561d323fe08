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

	// throttleAddresses limits the addresses in memory. An address takes about 350 bytes and
	// 16 for each failure: at most some 85 MB with the default limit.
	throttleAddresses = 100_000

	// sweepStep is how many expired addresses each call removes. A call adds at most one, so
	// two are enough to catch up.
	sweepStep = 2
)

// throttle counts failed authentications per address in a sliding minute; IPv6 per /64, because a
// client usually has all addresses of one. It is in memory, because it protects the store.
//
// When it is full, the address that failed least recently is dropped. An attacker with more
// addresses than that cannot be stopped by counting.
type throttle struct {
	limit    int
	capacity int

	mu       sync.Mutex
	failures map[netip.Addr]*list.Element
	// recent holds a *failingAddr for each address, the most recent failure in front.
	recent *list.List
	// named holds those that failed with an existing key, the most recent in front. Requests
	// with invented keys cannot displace them.
	named *list.List
	// past are the addresses that were throttled: with an existing key, and without.
	past [2]*throttleHistory
}

// failingAddr is an address with its failures, oldest first, at most as many as the limit.
type failingAddr struct {
	addr   netip.Addr
	failed []failure
	named  *list.Element // in throttle.named; nil if it is not there
	// unknown are the failures without an existing key. They share one count, because anyone
	// can invent keys.
	unknown keyFailures
}

// failure is the time of a failed authentication, in Unix nanoseconds (a third of the size of a
// time.Time), and its key.
type failure struct {
	at  int64
	key *keyFailures
}

// keyFailures is the latest failure of one key from one address.
type keyFailures struct {
	key  NamedKey
	code fault.Code // of the latest
	at   int64
}

// NamedKey is the existing key that a failed request named; zero if it named none. Anyone who knows a
// key can name it, so it does not prove who called.
type NamedKey struct {
	OperatorID   int64
	CredentialID int64
	Hint         string
}

// attempt is a failed authentication.
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

// throttleKey is the address under which failures are counted: for IPv6 the first of its /64.
func throttleKey(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if addr.Is6() {
		return prefixOf(addr.WithZone(""), 64).Addr()
	}
	return addr
}

// Check reports whether an address is throttled, and for how long: until fewer failures than the
// limit are within the last minute.
func (t *throttle) Check(addr netip.Addr, now time.Time) (wait time.Duration, throttled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.sweep(now)
	element, found := t.failures[throttleKey(addr)]
	if !found {
		return 0, false
	}
	t.expire(element, now)
	return t.wait(element.Value.(*failingAddr), now)
}

// wait returns how long an address is throttled, if it is.
func (t *throttle) wait(o *failingAddr, now time.Time) (wait time.Duration, throttled bool) {
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

// Failed counts a failure, and reports whether the address is throttled from now on. Requests that
// are refused by Check do not count as failures.
func (t *throttle) Failed(addr netip.Addr, now time.Time, by attempt) (began bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.sweep(now)
	addr = throttleKey(addr)
	element, found := t.failures[addr]
	if !found {
		if len(t.failures) >= t.capacity {
			t.drop(t.recent.Back())
		}
		element = t.recent.PushFront(&failingAddr{addr: addr})
		t.failures[addr] = element
	}
	t.recent.MoveToFront(element)

	o := element.Value.(*failingAddr)
	o.forget(now)
	already := len(o.failed) == t.limit
	if already {
		// More requests were being processed when the limit was reached. The latest
		// failures count.
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

// failuresOf returns the entry of a key, a new one if the key has not failed within the window.
func (o *failingAddr) failuresOf(key NamedKey) *keyFailures {
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

// expire removes the failures of an address that are over, returns the rest, and drops an address
// that has none left.
func (t *throttle) expire(element *list.Element, now time.Time) []failure {
	o := element.Value.(*failingAddr)
	o.forget(now)
	if len(o.failed) == 0 {
		t.drop(element)
	}
	return o.failed
}

// sweep drops addresses whose failures are over, starting with the least recent, a few with each
// call so that none takes long.
func (t *throttle) sweep(now time.Time) {
	for range sweepStep {
		last := t.recent.Back()
		if last == nil || len(t.expire(last, now)) > 0 {
			return
		}
	}
}

func (t *throttle) drop(element *list.Element) {
	o := element.Value.(*failingAddr)
	t.recent.Remove(element)
	delete(t.failures, o.addr)
	if o.named != nil {
		t.named.Remove(o.named)
		o.named = nil
	}
}

// forget removes the failures that are over. Those with a later time than now stay: a request that
// began before others, or before the clock was set forward, must not erase their failures.
func (o *failingAddr) forget(now time.Time) {
	o.failed = slices.DeleteFunc(o.failed, func(f failure) bool { return age(f.at, now) >= throttleWindow })
}

func age(at int64, now time.Time) time.Duration { return time.Duration(now.UnixNano() - at) }

// counts reports whether a failure of that age is within the window. A slightly negative age counts,
// because requests overtake each other; but a clock that was set back must not throttle an address
// for long.
func counts(age time.Duration) bool { return age < throttleWindow && age > -throttleWindow }
