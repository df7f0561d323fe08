package login

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var noon = time.Date(2027, 3, 1, 6, 30, 0, 0, time.UTC)

func home(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(n >> 8), byte(n)}) }

func TestAUsernameMayBeTriedTenTimesInAQuarterOfAnHour(t *testing.T) {
	a := newAttempts(100)
	for i := range attemptsPerName {
		if _, wait := a.begin(noon.Add(time.Duration(i)*time.Second), "asha", home(i)); wait != 0 {
			t.Fatalf("attempt %d has to wait for %s", i, wait)
		}
	}
	if _, wait := a.begin(noon.Add(time.Minute), "asha", home(99)); wait != 14*time.Minute {
		t.Errorf("the next one waits for %s; want until the first is a quarter of an hour old", wait)
	}
	if _, wait := a.begin(noon.Add(time.Minute), "other", home(0)); wait != 0 {
		t.Errorf("somebody else waits for %s", wait)
	}
	if _, wait := a.begin(noon.Add(attemptsWindow), "asha", home(99)); wait != 0 {
		t.Errorf("when the first has aged, the next waits for %s", wait)
	}
	if _, wait := a.begin(noon.Add(attemptsWindow), "asha", home(99)); wait != time.Second {
		t.Errorf("and the one after it for %s; want a second", wait)
	}
}

func TestAnAddressMayTryFiftyTimesWhateverTheNames(t *testing.T) {
	a := newAttempts(1000)
	six := netip.MustParseAddr("2001:db8:1:2::1")
	for i := range attemptsPerAddress {
		name := fmt.Sprintf("name-%d", i)
		if i%2 == 0 {
			name = "" // nobody's: only the address counts
		}
		if _, wait := a.begin(noon, name, six); wait != 0 {
			t.Fatalf("attempt %d has to wait for %s", i, wait)
		}
	}
	for address, want := range map[string]bool{
		"2001:db8:1:2::1": true, "2001:db8:1:2:ffff::9": true, "2001:db8:1:3::1": false, "192.0.2.1": false,
	} {
		if _, wait := a.begin(noon, "", netip.MustParseAddr(address)); (wait > 0) != want {
			t.Errorf("%s waits for %s; want it throttled: %v", address, wait, want)
		}
	}
	if network(netip.MustParseAddr("::ffff:192.0.2.1")) != network(netip.MustParseAddr("192.0.2.1")) {
		t.Error("one address in two spellings counts as two")
	}
}

func TestWhatSucceedsIsTakenBack(t *testing.T) {
	a := newAttempts(100)
	for i := range 5 * attemptsPerAddress {
		takeBack, wait := a.begin(noon, "asha", home(1))
		if wait != 0 {
			t.Fatalf("attempt %d has to wait for %s although all before it succeeded", i, wait)
		}
		takeBack()
	}
	if len(a.byKey) != 0 || a.recent.Len() != 0 {
		t.Errorf("%d keys are kept of what succeeded", len(a.byKey))
	}
}

func TestThoseUnderWayCount(t *testing.T) {
	a := newAttempts(100)
	var begun atomic.Int32
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, wait := a.begin(noon, "asha", home(1)); wait == 0 {
				begun.Add(1)
			}
		})
	}
	all.Wait()
	if begun.Load() != attemptsPerName {
		t.Errorf("%d of a hundred at once were let through; want %d", begun.Load(), attemptsPerName)
	}
}

func TestAClockThatIsSetBackLocksNobodyOut(t *testing.T) {
	a := newAttempts(100)
	for range attemptsPerName {
		a.begin(noon, "asha", home(1))
	}
	if _, wait := a.begin(noon.Add(-time.Minute), "asha", home(1)); wait != attemptsWindow {
		t.Errorf("a minute back: %s; want no more than the window", wait)
	}
	if _, wait := a.begin(noon.Add(-time.Hour), "asha", home(1)); wait != 0 {
		t.Errorf("an hour back: %s; want none", wait)
	}
}

func TestAttemptsTakeABoundedAmountOfMemory(t *testing.T) {
	a := newAttempts(50)
	for i := range 1000 {
		a.begin(noon, fmt.Sprintf("name-%d", i), home(i))
	}
	if len(a.byKey) > 50 || len(a.byKey) != a.recent.Len() {
		t.Errorf("%d keys are kept, %d in line; want at most 50", len(a.byKey), a.recent.Len())
	}
	for range attemptsPerName {
		a.begin(noon, "asha", home(1))
	}
	if _, wait := a.begin(noon, "asha", home(2)); wait == 0 {
		t.Error("whoever was counted last is forgotten first")
	}
}
