package access

import (
	"cmp"
	"container/list"
	"net/netip"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

const (
	// historyKept is how long it is remembered that an address was throttled.
	historyKept = 24 * time.Hour

	// historyNamed and historyUnknown limit the number of those addresses: with an existing
	// key, and without.
	historyNamed   = 500
	historyUnknown = 100

	// historyWaits limits how many waits of an address are remembered. A client that fails all
	// day is throttled about once a minute.
	historyWaits = 1_500

	// reportAddresses limits the failing addresses of a report, reportSearch how many are
	// searched for those of one operator: a report must not lock the throttle for long.
	reportAddresses = 200
	reportSearch    = 5_000
)

// FailingAddress is an address, for IPv6 a /64, from which requests failed to authenticate.
type FailingAddress struct {
	// Network is one IPv4 address or an IPv6 /64; zero if the address is unknown.
	Network netip.Prefix
	// Failures is the number within the last minute or, in the history, before the address
	// was throttled. Keys are the keys that they named, those with the most failures first.
	Failures int
	Keys     []FailingKey
	// Last is the time of the latest failure.
	Last time.Time
	// Until is the end of the throttling; zero if the address is not throttled.
	Until time.Time
	// Times is how often the address was throttled within 24 hours, in a history; in a report
	// to an operator, how often with failures of its own keys. At most historyWaits.
	Times int
}

// Throttled reports whether the address is throttled.
func (f FailingAddress) Throttled(now time.Time) bool { return now.Before(f.Until) }

// String returns the address, or the range of a /64.
func (f FailingAddress) String() string {
	switch {
	case !f.Network.IsValid():
		return "unknown"
	case f.Network.IsSingleIP():
		return f.Network.Addr().String()
	}
	return f.Network.String()
}

// of returns the failures of one operator's keys only.
func (f FailingAddress) of(operatorID int64) FailingAddress {
	own := FailingAddress{Network: f.Network, Until: f.Until}
	for _, key := range f.Keys {
		if key.OperatorID == operatorID {
			own.Keys = append(own.Keys, key)
			own.Failures += key.Failures
			own.Last = latest(own.Last, key.Last)
		}
	}
	return own
}

// FailingKey is the failures that named one key; with a zero NamedKey, those that named no existing
// key.
type FailingKey struct {
	NamedKey
	Failures int
	Code     fault.Code // of the latest
	Last     time.Time
}

// ThrottleReport lists failed authentications on one node. Every node counts for itself.
type ThrottleReport struct {
	Limit int
	// Failing are the addresses with failures in the last minute, throttled ones first.
	Failing []FailingAddress
	// Past are the addresses that were throttled within the last 24 hours, the latest first,
	// with the failures that led to it the last time.
	Past []FailingAddress
}

// FailedAuthentications reports which addresses failed to authenticate and with which keys.
func (a *Authorizer) FailedAuthentications(now time.Time) ThrottleReport {
	return a.throttle.reportAll(now)
}

// FailedAuthenticationsOf reports the same to one operator, with only the failures of the operator's
// own keys. A throttled address of its whitelist is listed even without such failures.
func (a *Authorizer) FailedAuthenticationsOf(operatorID int64, whitelist []netip.Prefix, now time.Time) ThrottleReport {
	return a.throttle.reportTo(operatorID, whitelist, now)
}

// failing returns the report on one address; false if it has no failures.
func (t *throttle) failing(addr netip.Addr, now time.Time) (FailingAddress, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	element, found := t.failures[throttleKey(addr)]
	if !found {
		return FailingAddress{}, false
	}
	return t.report(element.Value.(*failingAddr), now), true
}

// report returns the current failures of an address.
func (t *throttle) report(o *failingAddr, now time.Time) FailingAddress {
	report := FailingAddress{Network: throttledNetwork(o.addr)}
	counted := map[*keyFailures]int{}
	for _, f := range o.failed {
		if counts(age(f.at, now)) {
			counted[f.key]++
			report.Failures++
		}
	}
	for key, failures := range counted {
		last := time.Unix(0, key.at).UTC()
		report.Keys = append(report.Keys, FailingKey{key.key, failures, key.code, last})
		report.Last = latest(report.Last, last)
	}
	slices.SortFunc(report.Keys, func(a, b FailingKey) int {
		return cmp.Or(cmp.Compare(b.Failures, a.Failures), cmp.Compare(a.CredentialID, b.CredentialID))
	})
	if wait, throttled := t.wait(o, now); throttled {
		report.Until = now.Add(wait)
	}
	return report
}

// throttledNetwork returns the network that a throttle key stands for.
func throttledNetwork(addr netip.Addr) netip.Prefix {
	if addr.Is6() {
		return prefixOf(addr, 64)
	}
	return prefixOf(addr, 32)
}

func (t *throttle) reportAll(now time.Time) ThrottleReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	report := ThrottleReport{Limit: t.limit}
	seen := map[netip.Addr]bool{}
	// Those that named a key come first: the others may be very many.
	for _, addresses := range []*list.List{t.named, t.recent} {
		for element := addresses.Front(); element != nil && len(report.Failing) < reportAddresses; element = element.Next() {
			o := element.Value.(*failingAddr)
			if seen[o.addr] {
				continue
			}
			seen[o.addr] = true
			if one := t.report(o, now); one.Failures > 0 {
				report.Failing = append(report.Failing, one)
			}
		}
	}
	for _, past := range t.past {
		for _, one := range past.since(now.Add(-historyKept)) {
			report.Past = append(report.Past, one.FailingAddress)
		}
	}
	report.sort(now)
	return report
}

func (t *throttle) reportTo(operatorID int64, whitelist []netip.Prefix, now time.Time) ThrottleReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	report := ThrottleReport{Limit: t.limit}
	seen := map[netip.Prefix]bool{}
	looked := 0
	for element := t.named.Front(); element != nil && looked < reportSearch; element = element.Next() {
		looked++
		if one := t.report(element.Value.(*failingAddr), now).of(operatorID); one.Failures > 0 {
			report.Failing = append(report.Failing, one)
			seen[one.Network] = true
		}
	}
	for _, past := range t.past {
		for _, one := range past.since(now.Add(-historyKept)) {
			if own := one.of(operatorID); own.Failures > 0 {
				own.Times = one.timesOf(operatorID)
				report.Past = append(report.Past, own)
			}
			if one.Throttled(now) && !seen[one.Network] && slices.ContainsFunc(whitelist, one.Network.Overlaps) {
				seen[one.Network] = true
				report.Failing = append(report.Failing, FailingAddress{Network: one.Network, Until: one.Until})
			}
		}
	}
	report.sort(now)
	return report
}

func (r *ThrottleReport) sort(now time.Time) {
	slices.SortStableFunc(r.Failing, func(a, b FailingAddress) int {
		if a, b := a.Throttled(now), b.Throttled(now); a != b {
			if a {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Failures, a.Failures)
	})
	slices.SortStableFunc(r.Past, func(a, b FailingAddress) int { return b.Until.Compare(a.Until) })
	// An address may be in both histories: the latest failures count, and all its waits.
	first := map[netip.Prefix]int{}
	past := r.Past[:0]
	for _, one := range r.Past {
		if i, before := first[one.Network]; before {
			past[i].Times += one.Times
			continue
		}
		first[one.Network] = len(past)
		past = append(past, one)
	}
	r.Past = past
}

// throttleHistory lists the addresses that were throttled, each once, the latest in front.
type throttleHistory struct {
	capacity int
	byAddr   map[netip.Prefix]*list.Element
	recent   *list.List // of waited
}

// waited is an address that was throttled: the failures that led to it the last time, and every wait
// within historyKept, oldest first.
type waited struct {
	FailingAddress
	waits []wait
}

// wait is when an address was throttled, and the operators whose keys had failed there.
type wait struct {
	at        time.Time
	operators []int64
}

// timesOf returns how many of the waits had failures of one operator's keys.
func (w waited) timesOf(operatorID int64) (times int) {
	for _, one := range w.waits {
		if slices.Contains(one.operators, operatorID) {
			times++
		}
	}
	return times
}

func newThrottleHistory(capacity int) *throttleHistory {
	return &throttleHistory{capacity: capacity, byAddr: map[netip.Prefix]*list.Element{}, recent: list.New()}
}

func (h *throttleHistory) add(one FailingAddress) {
	var waits []wait
	if before, found := h.byAddr[one.Network]; found {
		waits = h.recent.Remove(before).(waited).waits
		waits = slices.Delete(waits, 0, len(waits)-len(waitsSince(waits, one.Last.Add(-historyKept))))
	} else if h.recent.Len() >= h.capacity {
		oldest := h.recent.Remove(h.recent.Back()).(waited)
		delete(h.byAddr, oldest.Network)
	}
	if len(waits) == historyWaits {
		waits = slices.Delete(waits, 0, 1)
	}
	latest := wait{at: one.Last}
	for _, key := range one.Keys {
		if key.OperatorID != 0 && !slices.Contains(latest.operators, key.OperatorID) {
			latest.operators = append(latest.operators, key.OperatorID)
		}
	}
	slices.Sort(latest.operators)
	if n := len(waits); n > 0 && slices.Equal(waits[n-1].operators, latest.operators) {
		latest.operators = waits[n-1].operators // mostly they are the same, so share the memory
	}
	h.byAddr[one.Network] = h.recent.PushFront(waited{one, append(waits, latest)})
}

// since returns the addresses that were throttled after a moment, with their waits after it.
func (h *throttleHistory) since(moment time.Time) []waited {
	var list []waited
	for element := h.recent.Front(); element != nil; element = element.Next() {
		one := element.Value.(waited)
		if !one.Last.After(moment) {
			continue
		}
		one.waits = waitsSince(one.waits, moment)
		one.Times = len(one.waits)
		list = append(list, one)
	}
	return list
}

// waitsSince returns the waits after a moment.
func waitsSince(waits []wait, moment time.Time) []wait {
	i := slices.IndexFunc(waits, func(one wait) bool { return one.at.After(moment) })
	if i < 0 {
		return nil
	}
	return waits[i:]
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
