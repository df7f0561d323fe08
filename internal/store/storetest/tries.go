package storetest

import (
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

var tryTests = []test{
	{"a window of tries begins with the first, and survives a restart", triesInWindow},
	{"a try refused by one counter is counted under none", triesAllOrNone},
	{"a counter's limit is exact under concurrency", triesTogether},
	{"a try is taken back only from its own window", triesTakenBack},
	{"old counters are purged in batches", triesPurged},
	{"a browser epoch grows with a new password and when disabled", browserEpoch},
}

const tryWindow = 15 * time.Minute

func counter(name string, limit int) login.TryCounter {
	c := login.TryCounter{Limit: limit}
	copy(c.Key[:], name)
	return c
}

// try counts a try and checks the counters.
func (h *harness) try(what string, at time.Time, counted bool, counters []login.TryCounter, want ...int) []login.TryCount {
	h.Helper()
	counts, got, err := h.CountTries(h.Context(), at, tryWindow, counters)
	h.must(err)
	if got != counted || len(counts) != len(counters) {
		h.Fatalf("%s: counted %v, %+v; want %v", what, got, counts, counted)
	}
	for i, count := range counts {
		if count.Tries != want[i] || count.Key != counters[i].Key {
			h.Errorf("%s: counter %d stands at %+v; want %d tries", what, i, count, want[i])
		}
	}
	return counts
}

func triesInWindow(h *harness) {
	one := []login.TryCounter{counter("one", 3)}
	for i := range 3 {
		counts := h.try("a try", noon.Add(time.Duration(i)*time.Minute), true, one, i+1)
		if !counts[0].Since.Equal(noon) {
			h.Errorf("the window begins at %s; want with the first try", counts[0].Since)
		}
	}
	h.reopen()
	last := noon.Add(tryWindow - time.Millisecond)
	if counts := h.try("the fourth", last, false, one, 3); !counts[0].Since.Equal(noon) {
		h.Errorf("refused, its window begins at %s", counts[0].Since)
	}
	h.try("when the window is over", noon.Add(tryWindow), true, one, 1)
	// A clock that was set back by more than the window starts a new one.
	h.try("in the future's window", noon, true, one, 1)

	endless := []login.TryCounter{counter("endless", 0)}
	for i := range 20 {
		h.try("without a limit", noon, true, endless, i+1)
	}
}

func triesAllOrNone(h *harness) {
	z, a, m := counter("z", 5), counter("a", 1), counter("m", 0)
	h.try("the first", noon, true, []login.TryCounter{z, a, m}, 1, 1, 1)
	h.try("refused by one", noon, false, []login.TryCounter{z, a, m}, 1, 1, 1)
	h.try("without that one", noon, true, []login.TryCounter{m, z}, 2, 2)
}

func triesTogether(h *harness) {
	shared := counter("shared", 10)
	var counted atomic.Int64
	concurrently(30, func(i int) {
		own := counter(name("own", i), 5)
		counters := []login.TryCounter{shared, own}
		if i%2 == 0 {
			counters = []login.TryCounter{own, shared}
		}
		_, ok, err := h.CountTries(h.Context(), noon, tryWindow, counters)
		if err != nil {
			h.Errorf("try %d: %v", i, err)
		}
		if ok {
			counted.Add(1)
		}
	})
	if counted.Load() != 10 {
		h.Errorf("%d of 30 were counted; want 10", counted.Load())
	}
	h.try("one more", noon, false, []login.TryCounter{shared}, 10)
}

func triesTakenBack(h *harness) {
	one, two := counter("one", 3), counter("two", 0)
	both := []login.TryCounter{one, two}
	first := h.try("the first", noon, true, both, 1, 1)
	h.try("the second", noon, true, both, 2, 2)
	h.must(h.UncountTries(h.Context(), first))
	h.try("after one was taken back", noon, true, both, 2, 2)
	later := noon.Add(tryWindow)
	h.try("in the next window", later, true, both, 1, 1)
	h.must(h.UncountTries(h.Context(), first))
	h.try("after one of the window before was taken back", later, true, both, 2, 2)
	unused := h.try("another", noon, true, []login.TryCounter{counter("unused", 1)}, 1)
	for range 2 {
		h.must(h.UncountTries(h.Context(), unused))
	}
	h.try("taken back twice", noon, true, []login.TryCounter{counter("unused", 1)}, 1)
}

func triesPurged(h *harness) {
	for i := range 5 {
		h.try("a try", noon.Add(time.Duration(i)*time.Minute), true, []login.TryCounter{counter(name("of", i), 9)}, 1)
	}
	for _, want := range []int{2, 1, 0} {
		removed, err := h.PurgeTries(h.Context(), noon.Add(2*time.Minute), 2)
		h.must(err)
		if removed != want {
			h.Errorf("%d were removed; want %d", removed, want)
		}
	}
	for i := range 5 {
		h.try("afterwards", noon.Add(5*time.Minute), true, []login.TryCounter{counter(name("of", i), 9)}, 1+i/3)
	}
}

func browserEpoch(h *harness) {
	asha := h.account(newAccount("asha"))
	if asha.BrowserEpoch != 0 || !asha.PasswordEnds.Equal(noon.Add(72*time.Hour)) {
		h.Errorf("at first it is %d, and the password ends at %s", asha.BrowserEpoch, asha.PasswordEnds)
	}
	want := int64(0)
	grows := func(what string, by int64) {
		h.Helper()
		if want += by; h.known("asha").BrowserEpoch != want {
			h.Errorf("%s: it is %d; want %d", what, h.known("asha").BrowserEpoch, want)
		}
	}
	token := h.signIn(asha, noon)
	grows("a sign-in", 0)
	h.must(h.ChangePassword(h.Context(), ownAction("password change"), login.PasswordChange{
		PersonID: asha.ID, Version: 1, Hash: "$new", Old: token, New: login.HashToken("fresh"), SteppedUpAt: noon,
	}))
	grows("a password of her own", 1)
	if ends := h.known("asha").PasswordEnds; !ends.IsZero() {
		h.Errorf("a password of her own ends at %s", ends)
	}
	yes, no, renamed := true, false, "Asha R."
	for what, row := range map[string]struct {
		change admin.LoginChange
		by     int64
	}{"a name": {admin.LoginChange{Name: &renamed}, 0}, "disabled": {admin.LoginChange{Disabled: &yes}, 1}} {
		_, err := h.ChangeLogin(h.Context(), staffAction("login set"), asha.ID, row.change)
		h.must(err)
		grows(what, row.by)
		_, err = h.ChangeLogin(h.Context(), staffAction("login set"), asha.ID, admin.LoginChange{Disabled: &no})
		h.must(err)
		grows("enabled", 0)
	}
	_, err := h.ResetPassword(h.Context(), staffAction("login reset-password"), asha.ID, "$reset")
	h.must(err)
	grows("a reset", 1)
}
