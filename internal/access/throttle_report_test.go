package access

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

func TestThrottle_CountsIPv6ByNetwork(t *testing.T) {
	th := newThrottle(3)
	for _, addr := range []string{"2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:1:ffff:ffff:ffff:ffff"} {
		th.Failed(netip.MustParseAddr(addr), noon, attempt{})
	}
	for addr, want := range map[string]bool{
		"2001:db8:0:1:abcd::7": true, "2001:db8:0:1::1%eth0": true, "2001:db8:0:2::1": false, "192.0.2.1": false,
	} {
		if _, throttled := th.Check(netip.MustParseAddr(addr), noon); throttled != want {
			t.Errorf("%s throttled: %t; want %t", addr, throttled, want)
		}
	}
	// Two neighbours of IPv4 are two addresses, however they are written.
	for _, addr := range []string{"192.0.2.1", "::ffff:192.0.2.2", "192.0.2.3"} {
		th.Failed(netip.MustParseAddr(addr), noon, attempt{})
	}
	if _, throttled := th.Check(netip.MustParseAddr("192.0.2.1"), noon); throttled {
		t.Error("an IPv4 address is throttled for its neighbours")
	}
}

var (
	ours   = NamedKey{OperatorID: 7, CredentialID: 70, Hint: "cxk_ours"}
	others = NamedKey{OperatorID: 8, CredentialID: 80, Hint: "cxk_others"}
)

func TestThrottle_ReportsWhoseFailures(t *testing.T) {
	th := newThrottle(5)
	shared := netip.MustParseAddr("2001:db8::1")
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	th.Failed(shared, at(0), attempt{ours, fault.InvalidSignature})
	th.Failed(shared, at(1), attempt{NamedKey{}, fault.InvalidAPIKey})
	th.Failed(shared, at(2), attempt{others, fault.ReplayDetected})
	th.Failed(shared, at(3), attempt{ours, fault.TimestampExpired})
	th.Failed(netip.MustParseAddr("192.0.2.9"), at(3), attempt{others, fault.InvalidSignature})
	if got := th.reportAll(at(3)); len(got.Past) != 0 || len(got.Failing) != 2 || got.Failing[0].Throttled(at(3)) {
		t.Errorf("before the limit: %+v; want two addresses, none throttled", got)
	}
	if !th.Failed(shared, at(4), attempt{ours, fault.InvalidSignature}) {
		t.Fatal("the fifth failure does not throttle")
	}

	network := netip.MustParsePrefix("2001:db8::/64")
	keys := []FailingKey{
		{ours, 3, fault.InvalidSignature, at(4)}, {NamedKey{}, 1, fault.InvalidAPIKey, at(1)}, {others, 1, fault.ReplayDetected, at(2)},
	}
	got := th.reportAll(at(4))
	for _, one := range []FailingAddress{got.Failing[0], got.Past[0]} {
		if one.Network != network || one.String() != "2001:db8::/64" || one.Failures != 5 || !one.Until.Equal(at(60)) || !slices.Equal(one.Keys, keys) {
			t.Errorf("reported %+v; want %v until %v by %+v", one, network, at(60), keys)
		}
	}
	if got.Past[0].Times != 1 || len(got.Past) != 1 {
		t.Errorf("throttled in the past: %+v; want once", got.Past)
	}

	// To an operator only its own share; an address of its whitelist that waits, with none.
	own := th.reportTo(7, nil, at(4))
	if len(own.Failing) != 1 || own.Failing[0].Failures != 3 || !slices.Equal(own.Failing[0].Keys, keys[:1]) || !own.Failing[0].Throttled(at(4)) || len(own.Past) != 1 || own.Past[0].Failures != 3 {
		t.Errorf("to operator 7: %+v; want its own three failures", own)
	}
	if none := th.reportTo(9, nil, at(4)); len(none.Failing)+len(none.Past) != 0 {
		t.Errorf("to an operator without failures: %+v; want nothing", none)
	}
	listed := th.reportTo(9, []netip.Prefix{netip.MustParsePrefix("2001:db8::7/128")}, at(4))
	if len(listed.Failing) != 1 || listed.Failing[0].Failures != 0 || listed.Failing[0].Keys != nil || !listed.Failing[0].Until.Equal(at(60)) || len(listed.Past) != 0 {
		t.Errorf("to an operator whose address waits: %+v; want that it waits, and nothing else", listed)
	}

	// A minute later nobody fails any more, and what was is told for a day.
	if later := th.reportAll(at(100)); len(later.Failing) != 0 || len(later.Past) != 1 || later.Past[0].Throttled(at(100)) {
		t.Errorf("after the minute: %+v; want the past only", later)
	}
	for i := range 5 {
		th.Failed(shared, at(200+i), attempt{others, fault.InvalidSignature})
	}
	if again := th.reportAll(at(205)); len(again.Past) != 1 || again.Past[0].Times != 2 || again.Past[0].Keys[0].NamedKey != others {
		t.Errorf("throttled again: %+v; want twice, by the latest failures", again.Past)
	}
	if tomorrow := th.reportAll(at(205).Add(historyKept)); len(tomorrow.Past) != 0 {
		t.Errorf("a day later: %+v; want nothing", tomorrow.Past)
	}
}

func TestThrottle_CountsWaitsOfTheLastDay(t *testing.T) {
	th := newThrottle(1)
	shared := netip.MustParseAddr("192.0.2.1")
	at := func(hours int) time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
	waits := func(now time.Time, operator int64) int {
		t.Helper()
		past := th.reportAll(now).Past
		if operator != 0 {
			past = th.reportTo(operator, nil, now).Past
		}
		if len(past) != 1 {
			t.Fatalf("%d addresses had to wait; want 1", len(past))
		}
		return past[0].Times
	}
	for hour := range 60 { // an operator every hour, another every third, a stranger between
		if hour%3 == 0 {
			th.Failed(shared, at(hour).Add(-20*time.Minute), attempt{others, fault.InvalidSignature})
		}
		th.Failed(shared, at(hour).Add(-10*time.Minute), attempt{NamedKey{}, fault.InvalidAPIKey})
		th.Failed(shared, at(hour), attempt{ours, fault.InvalidSignature})
	}
	if got := waits(at(59), 0); got != 24+24+8 {
		t.Errorf("all waits within a day: %d; want %d", got, 24+24+8)
	}
	if got := waits(at(59), ours.OperatorID); got != 24 {
		t.Errorf("to the operator: %d waits; want 24, those with its own failures", got)
	}
	if got := waits(at(59+20), ours.OperatorID); got != 4 {
		t.Errorf("20 hours later: %d waits; want the 4 within a day", got)
	}
	history := newThrottleHistory(1)
	for i := range historyWaits + 50 {
		history.add(FailingAddress{Network: netip.MustParsePrefix("192.0.2.2/32"), Last: at(0).Add(time.Duration(i) * time.Second)})
	}
	if got := history.since(at(0)); len(got) != 1 || got[0].Times != historyWaits {
		t.Errorf("remembered %+v; want %d waits", got, historyWaits)
	}
}

// Strangers who make up keys from many addresses hide nobody's failures, and take no more
// memory than others.
func TestThrottle_UnknownKeysDoNotDisplaceKnown(t *testing.T) {
	th := newThrottle(1)
	th.Failed(nth(0), noon, attempt{ours, fault.InvalidSignature})
	for i := range 3 * (reportAddresses + historyNamed) {
		th.Failed(nth(1+i), noon, attempt{NamedKey{}, fault.InvalidAPIKey})
	}
	all := th.reportAll(noon)
	named := func(one FailingAddress) bool { return one.String() == "10.0.0.0" && one.Keys[0].NamedKey == ours }
	if len(all.Failing) != reportAddresses || !slices.ContainsFunc(all.Failing, named) {
		t.Errorf("%d addresses are reported; want %d, the one with a known key among them", len(all.Failing), reportAddresses)
	}
	if len(all.Past) != 1+historyUnknown || !slices.ContainsFunc(all.Past, named) {
		t.Errorf("%d addresses are remembered as throttled; want %d, the one with a known key among them", len(all.Past), 1+historyUnknown)
	}
	if own := th.reportTo(7, nil, noon); len(own.Failing) != 1 || len(own.Past) != 1 {
		t.Errorf("to the key's operator: %+v; want its failure", own)
	}
	th.sweep(noon.Add(time.Hour))
	for range 3 * (reportAddresses + historyNamed) {
		th.sweep(noon.Add(time.Hour))
	}
	if th.named.Len()+th.recent.Len() != 0 {
		t.Errorf("%d named and %d addresses are left after an hour; want none", th.named.Len(), th.recent.Len())
	}
}

func TestAuthorizer_AttributesFailuresToKeys(t *testing.T) {
	s := newFixture(t)
	var told []FailingAddress
	s.authorizer.onThrottled = func(_ netip.Addr, failing FailingAddress) { told = append(told, failing) }
	for i := range 5 {
		d := s.draft()
		if i < 3 {
			d.secret = "wrong"
		} else {
			d.key = "cxk_" + "0123456789abcdef0123456789abcde" + string(rune('0'+i))
		}
		if _, err := s.send(d); err == nil {
			t.Fatal("a wrong request was let in")
		}
	}
	want := []FailingKey{
		{NamedKey{testOperator, testKeyID, Hint(s.key)}, 3, fault.InvalidSignature, now}, {NamedKey{}, 2, fault.InvalidAPIKey, now},
	}
	report := s.authorizer.FailedAuthentications(now)
	if len(report.Failing) != 1 || !slices.EqualFunc(report.Failing[0].Keys, want, equalKeys) || report.Limit != 5 {
		t.Errorf("reported %+v; want %+v", report.Failing, want)
	}
	if len(told) != 1 || !slices.EqualFunc(told[0].Keys, want, equalKeys) {
		t.Errorf("told %+v; want once, %+v", told, want)
	}
	own := s.authorizer.FailedAuthenticationsOf(testOperator, nil, now)
	if len(own.Failing) != 1 || own.Failing[0].Failures != 3 || len(own.Failing[0].Keys) != 1 {
		t.Errorf("to the operator: %+v; want its three failures", own.Failing)
	}
}

func TestAuthorizer_AttributesMissingHeaders(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(*fixture, *Request)
		named bool
	}{
		"no nonce":               {func(_ *fixture, r *Request) { r.Nonce = nil }, true},
		"the signature twice":    {func(_ *fixture, r *Request) { r.Signature = append(r.Signature, "more") }, true},
		"nothing but the key":    {func(_ *fixture, r *Request) { r.Nonce, r.Timestamp, r.Signature = nil, nil, nil }, true},
		"no key":                 {func(_ *fixture, r *Request) { r.Key = nil }, false},
		"the key twice":          {func(_ *fixture, r *Request) { r.Key = append(r.Key, r.Key...) }, false},
		"a key that is nobody's": {func(_ *fixture, r *Request) { r.Key, r.Nonce = []string{"cxk_" + strings.Repeat("0", 32)}, nil }, false},
		"a store that is not up": {func(s *fixture, r *Request) { s.store.readErr, r.Nonce = errors.New("not up"), nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			d := s.draft()
			d.sent = append(d.sent, func(r *Request) { tt.spoil(s, r) })
			_, err := s.send(d)
			expect(t, err, fault.MissingAuthHeaders)
			want := NamedKey{}
			if tt.named {
				want = NamedKey{testOperator, testKeyID, Hint(s.key)}
			}
			report := s.authorizer.FailedAuthentications(now)
			if len(report.Failing) != 1 || len(report.Failing[0].Keys) != 1 || report.Failing[0].Keys[0].NamedKey != want {
				t.Errorf("reported %+v; want one failure of %+v", report.Failing, want)
			}
		})
	}
}

func equalKeys(a, b FailingKey) bool {
	return a.NamedKey == b.NamedKey && a.Failures == b.Failures && a.Code == b.Code && a.Last.Equal(b.Last)
}

func TestNetworkOf(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.77": "192.0.2.0/24", "::ffff:192.0.2.77": "192.0.2.0/24",
		"2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := NetworkOf(netip.MustParseAddr(addr)); got.String() != want {
			t.Errorf("network of %s is %v; want %s", addr, got, want)
		}
	}
	if got := NetworkOf(netip.Addr{}); got.IsValid() {
		t.Errorf("network of an unknown address is %v; want none", got)
	}
}
