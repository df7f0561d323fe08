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
	// Times is how often it came to wait, in a report of that.
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
	own := FailingAddress{Network: f.Network, Until: f.Until, Times: f.Times}
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
func (g *Gate) FailedAuthentications(now time.Time) ThrottleReport {
	return g.throttle.reportAll(now)
}

// FailedAuthenticationsOf reports the same to one operator: of each address only the failures
// with the operator's own keys. An address of its whitelist that has to wait is there even if
// none of the failures were its own.
func (g *Gate) FailedAuthenticationsOf(operatorID int64, whitelist []netip.Prefix, now time.Time) ThrottleReport {
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
		report.Past = append(report.Past, past.since(now.Add(-historyKept))...)
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
			own := one.of(operatorID)
			if own.Failures > 0 {
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
	seen := map[netip.Prefix]bool{} // an address may be in both histories: the latest counts
	r.Past = slices.DeleteFunc(r.Past, func(one FailingAddress) bool {
		before := seen[one.Network]
		seen[one.Network] = true
		return before
	})
}

// throttleHistory is the addresses that came to wait, each once, the latest in front.
type throttleHistory struct {
	capacity int
	byAddr   map[netip.Prefix]*list.Element
	recent   *list.List // of FailingAddress
}

func newThrottleHistory(capacity int) *throttleHistory {
	return &throttleHistory{capacity: capacity, byAddr: map[netip.Prefix]*list.Element{}, recent: list.New()}
}

func (h *throttleHistory) add(one FailingAddress) {
	one.Times = 1
	if before, found := h.byAddr[one.Network]; found {
		earlier := h.recent.Remove(before).(FailingAddress)
		if one.Last.Sub(earlier.Last) < historyKept {
			one.Times += earlier.Times
		}
	} else if h.recent.Len() >= h.capacity {
		oldest := h.recent.Remove(h.recent.Back()).(FailingAddress)
		delete(h.byAddr, oldest.Network)
	}
	h.byAddr[one.Network] = h.recent.PushFront(one)
}

// since returns those that came to wait after a moment.
func (h *throttleHistory) since(moment time.Time) []FailingAddress {
	var list []FailingAddress
	for element := h.recent.Front(); element != nil; element = element.Next() {
		if one := element.Value.(FailingAddress); one.Last.After(moment) {
			list = append(list, one)
		}
	}
	return list
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
