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
	// historyKept is how long it is remembered that an address had to wait.
	historyKept = 24 * time.Hour

	// historyNamed and historyUnknown bound of how many addresses that is
	// remembered: those that named a key of ours, and others.
	historyNamed   = 500
	historyUnknown = 100

	// historyWaits bounds how many waits of an address are remembered. A client that
	// fails all day waits about once a minute.
	historyWaits = 1_500

	// reportAddresses bounds how many failing addresses a report has, and
	// reportSearch how many are looked at for those of one operator: nobody waits
	// for the throttle meanwhile.
	reportAddresses = 200
	reportSearch    = 5_000
)

// FailingAddress is an address from which requests failed to authenticate, or the /64 of one
// of IPv6.
type FailingAddress struct {
	// Network is a whole address of IPv4, or a /64; zero if the address is not known.
	Network netip.Prefix
	// Failures are those within the last minute, or those by which the address came
	// to wait; Keys are the keys they named, those that failed most first.
	Failures int
	Keys     []FailingKey
	// Last is when the latest failed.
	Last time.Time
	// Until is when the address is let in again; zero if it does not wait.
	Until time.Time
	// Times is how often it came to wait within 24 hours, in a report of that; to an
	// operator, how often with failures of its own keys. At most historyWaits.
	Times int
}

// Throttled reports whether the address has to wait.
func (f FailingAddress) Throttled(now time.Time) bool { return now.Before(f.Until) }

// String writes the address as people know it.
func (f FailingAddress) String() string {
	switch {
	case !f.Network.IsValid():
		return "unknown"
	case f.Network.IsSingleIP():
		return f.Network.Addr().String()
	}
	return f.Network.String()
}

// of returns what a report says to one operator: its own keys' failures only.
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

// FailingKey is the failures that named one key. Without a credential it is those that
// named none of ours.
type FailingKey struct {
	NamedKey
	Failures int
	Code     fault.Code // of the latest
	Last     time.Time
}

// ThrottleReport is what a node knows about failed authentications. Every node counts for
// itself.
type ThrottleReport struct {
	Limit int
	// Failing are the addresses with failures in the last minute, those that have to wait
	// first.
	Failing []FailingAddress
	// Past are the addresses that came to wait within the last 24 hours, the latest first,
	// with the failures that led to it the last time.
	Past []FailingAddress
}

// FailedAuthentications reports which addresses failed to authenticate and with which keys.
func (g *Authorizer) FailedAuthentications(now time.Time) ThrottleReport {
	return g.throttle.reportAll(now)
}

// FailedAuthenticationsOf reports the same to one operator: of each address only the failures
// with the operator's own keys. An address of its whitelist that has to wait is there even if
// none of the failures were its own.
func (g *Authorizer) FailedAuthenticationsOf(operatorID int64, whitelist []netip.Prefix, now time.Time) ThrottleReport {
	return g.throttle.reportTo(operatorID, whitelist, now)
}

// failing reports one address; false if it has no failures.
func (t *throttle) failing(addr netip.Addr, now time.Time) (FailingAddress, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	element, found := t.failures[throttledAs(addr)]
	if !found {
		return FailingAddress{}, false
	}
	return t.report(element.Value.(*offender), now), true
}

// report is how an address stands.
func (t *throttle) report(o *offender, now time.Time) FailingAddress {
	report := FailingAddress{Network: networkThrottled(o.addr)}
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

// networkThrottled is what an offender's address stands for.
func networkThrottled(addr netip.Addr) netip.Prefix {
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
	// Those that named a key come first: of the others there may be any number.
	for _, offenders := range []*list.List{t.named, t.recent} {
		for element := offenders.Front(); element != nil && len(report.Failing) < reportAddresses; element = element.Next() {
			o := element.Value.(*offender)
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
		if one := t.report(element.Value.(*offender), now).of(operatorID); one.Failures > 0 {
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

// throttleHistory is the addresses that came to wait, each once, the latest in front.
type throttleHistory struct {
	capacity int
	byAddr   map[netip.Prefix]*list.Element
	recent   *list.List // of waited
}

// waited is an address that came to wait: the failures that led to it the last time, and
// every wait within historyKept, oldest first.
type waited struct {
	FailingAddress
	waits []wait
}

// wait is when an address came to wait, and which operators' keys had failed there.
type wait struct {
	at        time.Time
	operators []int64
}

// timesOf is how many of the waits had failures of one operator's keys.
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
		latest.operators = waits[n-1].operators // mostly they are the same: kept once
	}
	h.byAddr[one.Network] = h.recent.PushFront(waited{one, append(waits, latest)})
}

// since returns those that came to wait after a moment, with their waits after it.
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

// waitsSince returns the waits from the first one after a moment on.
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
