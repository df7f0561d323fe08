package access

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// nth is the n-th of many addresses.
func nth(n int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 0x0a000000+uint32(n))
	return netip.AddrFrom4(b)
}

func TestThrottle_SlidingMinute(t *testing.T) {
	th := newThrottle(3)
	addr := nth(1)
	at := func(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }
	free := func(seconds float64) {
		t.Helper()
		if wait, throttled := th.Check(addr, at(seconds)); throttled || wait != 0 {
			t.Errorf("at %v s: throttled for %v; want free", seconds, wait)
		}
	}
	waits := func(seconds float64, want time.Duration) {
		t.Helper()
		if wait, throttled := th.Check(addr, at(seconds)); !throttled || wait != want {
			t.Errorf("at %v s: wait %v, throttled %t; want %v", seconds, wait, throttled, want)
		}
	}

	free(0)
	th.Failed(addr, at(0), attempt{})
	th.Failed(addr, at(20), attempt{})
	free(20)
	th.Failed(addr, at(40), attempt{})
	waits(40, 20*time.Second)
	waits(59.999, time.Millisecond)
	free(60) // the failure at 0 is a minute old
	th.Failed(addr, at(61), attempt{})
	waits(61, 19*time.Second) // until the one at 20 is
	free(80)
	free(200)
	if len(th.failures) != 0 || th.recent.Len() != 0 {
		t.Errorf("%d addresses are remembered after all failures have aged; want none", len(th.failures))
	}
}

func TestThrottle_KeepsLatestFailures(t *testing.T) {
	th := newThrottle(3)
	for i := range 50 { // all on their way when the limit was reached
		th.Failed(nth(1), noon.Add(time.Duration(i)*time.Second), attempt{})
	}
	o := th.recent.Front().Value.(*failingAddr)
	if len(o.failed) != 3 {
		t.Errorf("%d failures are kept; want 3", len(o.failed))
	}
	if wait, throttled := th.Check(nth(1), noon.Add(50*time.Second)); !throttled || wait != 57*time.Second {
		t.Errorf("wait %v, throttled %t; want 57s, a minute from the third last failure", wait, throttled)
	}
}

func TestThrottle_SeparatesAddresses(t *testing.T) {
	th := newThrottle(2)
	v4, mapped := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.1")
	th.Failed(v4, noon, attempt{})
	th.Failed(mapped, noon, attempt{})
	for _, addr := range []netip.Addr{v4, mapped} {
		if _, throttled := th.Check(addr, noon); !throttled {
			t.Errorf("%v is not throttled; it is one address in two spellings", addr)
		}
	}
	if _, throttled := th.Check(netip.MustParseAddr("192.0.2.2"), noon); throttled {
		t.Error("a neighbour is throttled")
	}

	// Callers whose address is not known share one fate; none of them can be
	// whitelisted anyway.
	th.Failed(netip.Addr{}, noon, attempt{})
	th.Failed(netip.Addr{}, noon, attempt{})
	if _, throttled := th.Check(netip.Addr{}, noon); !throttled {
		t.Error("failures from an unknown address are not counted")
	}
}

func TestThrottle_DefaultLimit(t *testing.T) {
	for _, limit := range []int{0, -1} {
		th := newThrottle(limit)
		for i := range 30 {
			if _, throttled := th.Check(nth(1), noon); throttled {
				t.Fatalf("limit %d: throttled after %d failures; want 30", limit, i)
			}
			th.Failed(nth(1), noon, attempt{})
		}
		if _, throttled := th.Check(nth(1), noon); !throttled {
			t.Errorf("limit %d: not throttled after 30 failures", limit)
		}
	}
}

func TestThrottle_ClockSetBack(t *testing.T) {
	th := newThrottle(2)
	th.Failed(nth(1), noon, attempt{})
	th.Failed(nth(1), noon, attempt{})
	if wait, throttled := th.Check(nth(1), noon.Add(-time.Second)); !throttled || wait != time.Minute {
		t.Errorf("a second back: wait %v, throttled %t; want a minute, never more", wait, throttled)
	}
	if wait, throttled := th.Check(nth(1), noon.Add(-time.Hour)); throttled {
		t.Errorf("an hour back: throttled for %v; want free", wait)
	}
}

// A request that began long ago, or before the clock was set forward, fails last.
// What failed meanwhile still counts.
func TestThrottle_EarlierRequestClearsNothing(t *testing.T) {
	for _, straggler := range []netip.Addr{nth(1), nth(2)} {
		th := newThrottle(3)
		for range 3 {
			th.Failed(nth(1), noon.Add(10*time.Minute), attempt{})
		}
		th.Check(straggler, noon)
		if straggler != nth(1) {
			th.Failed(straggler, noon, attempt{})
		}
		if _, throttled := th.Check(nth(1), noon.Add(10*time.Minute)); !throttled {
			t.Errorf("after a straggler at %s: free; want it throttled as before", straggler)
		}
		if _, throttled := th.Check(nth(1), noon); throttled {
			t.Error("a clock that is set back locks the address out")
		}
	}
}

func TestThrottle_AddressCapacity(t *testing.T) {
	th := newThrottle(30)
	now := noon
	const strangers = throttleAddresses + 20_000
	for i := range strangers {
		th.Failed(nth(i), now, attempt{})
		if i == 10 {
			th.Failed(nth(0), now, attempt{}) // so that 1, not 0, has been silent the longest
		}
	}
	if len(th.failures) != throttleAddresses || th.recent.Len() != throttleAddresses {
		t.Fatalf("%d addresses are remembered, %d in line; want %d", len(th.failures), th.recent.Len(), throttleAddresses)
	}
	for i, want := range map[int]bool{0: false, 1: false, 19_999: false, 20_000: true, strangers - 1: true} {
		if _, found := th.failures[nth(i)]; found != want {
			t.Errorf("address %d remembered: %t; want %t", i, found, want)
		}
	}

	// Half of them age; each call of anybody clears two of those away.
	now = noon.Add(30 * time.Second)
	for i := range throttleAddresses / 2 {
		th.Failed(nth(strangers-1-i), now, attempt{})
	}
	now = noon.Add(time.Minute)
	for range throttleAddresses / 2 / sweepStep {
		th.Check(nth(strangers), now)
	}
	if got := len(th.failures); got != throttleAddresses/2 || th.recent.Len() != got {
		t.Errorf("%d addresses are remembered, %d in line; want the %d that failed within the minute", got, th.recent.Len(), throttleAddresses/2)
	}
	if _, found := th.failures[nth(strangers-1)]; !found {
		t.Error("an address was swept although it failed within the minute")
	}
}

func TestThrottle_EvictsLeastRecent(t *testing.T) {
	th := newThrottle(1)
	th.capacity = 3
	for _, n := range []int{1, 2, 3, 1, 4} {
		th.Failed(nth(n), noon, attempt{})
	}
	for n, want := range map[int]bool{1: true, 2: false, 3: true, 4: true} {
		if _, throttled := th.Check(nth(n), noon); throttled != want {
			t.Errorf("address %d throttled: %t; want %t", n, throttled, want)
		}
	}
}

// The model keeps every failure for ever and counts again each time.
func TestThrottle_AgreesWithModel(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + random.IntN(5)
		th := newThrottle(limit)
		model := map[netip.Addr][]time.Time{}
		now := noon
		for range 2000 {
			now = now.Add(time.Duration(random.IntN(9000)) * time.Millisecond)
			addr := nth(random.IntN(4))

			within := slices.Clone(model[addr])
			within = slices.DeleteFunc(within, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
			wantThrottled, wantWait := len(within) >= limit, time.Duration(0)
			if wantThrottled {
				wantWait = within[len(within)-limit].Add(time.Minute).Sub(now)
			}
			wait, throttled := th.Check(addr, now)
			if throttled != wantThrottled || wait != wantWait {
				t.Fatalf("seed %d, limit %d: Check = %v, %t; want %v, %t", seed, limit, wait, throttled, wantWait, wantThrottled)
			}
			if !throttled || random.IntN(10) == 0 { // some slip through while others fail
				th.Failed(addr, now, attempt{})
				model[addr] = append(model[addr], now)
			}
		}
	}
}

func TestThrottle_Concurrent(t *testing.T) {
	th := newThrottle(5)
	th.capacity = 50
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 2000 {
				now := noon.Add(time.Duration(i) * 50 * time.Millisecond)
				addr := nth((i*7 + worker) % 100)
				if _, throttled := th.Check(addr, now); !throttled {
					th.Failed(addr, now, attempt{})
				}
			}
		})
	}
	all.Wait()
	if len(th.failures) > 50 || len(th.failures) != th.recent.Len() {
		t.Errorf("%d addresses remembered, %d in line; want the same, at most 50", len(th.failures), th.recent.Len())
	}
}

func BenchmarkThrottleCheck(b *testing.B) {
	th := newThrottle(30)
	for i := range throttleAddresses {
		th.Failed(nth(i), noon, attempt{})
	}
	for i := 0; b.Loop(); i++ {
		th.Check(nth(i%(2*throttleAddresses)), noon)
	}
}

func BenchmarkThrottleFailed(b *testing.B) {
	th := newThrottle(30)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		th.Failed(nth(i%(2*throttleAddresses)), noon, attempt{})
	}
}

func TestThrottle_CountsWithinOneMinute(t *testing.T) {
	for age, want := range map[time.Duration]bool{
		0: true, time.Minute - 1: true, time.Minute: false, time.Minute + 1: false,
		-1: true, -time.Minute + 1: true, -time.Minute: false, -time.Minute - 1: false, -time.Hour: false,
	} {
		if got := counts(age); got != want {
			t.Errorf("a failure of age %s counts: %t; want %t", age, got, want)
		}
	}
}
