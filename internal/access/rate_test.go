package access

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

func TestRate_CountsToLimit(t *testing.T) {
	s := newFixture(t)
	// A refusal before the rate is not counted; one behind it is.
	foreign := s.draft()
	foreign.req.Address = netip.MustParseAddr("198.51.100.1")
	s.send(foreign)
	s.store.change(s.hash, func(r *Record) { r.Credential.Permissions = PermissionsOf(Renew) })
	denied := s.draft()
	denied.req.Needs = GetPlans
	caller, err := s.send(denied)
	expect(t, err, fault.PermissionDenied)
	if caller.Rate.Remaining != testLimit-1 {
		t.Errorf("remaining %d after a request without permission; want %d", caller.Rate.Remaining, testLimit-1)
	}
	if !strings.Contains(err.Error(), "Get Plans") {
		t.Errorf("error = %v; want the permission's name in it", err)
	}

	for used := 2; used <= testLimit; used++ {
		caller, err := s.send(s.draft())
		expect(t, err, fault.OK)
		if caller.Rate.Remaining != testLimit-used {
			t.Errorf("request %d: remaining %d; want %d", used, caller.Rate.Remaining, testLimit-used)
		}
	}
	for range 3 {
		d := s.draft()
		caller, err := s.send(d)
		refusal := expect(t, err, fault.RateLimited)
		want := Rate{Limit: testLimit, Remaining: 0, ResetAt: noon.Add(time.Minute)}
		if caller.Rate != want || refusal.RetryAfter != 55*time.Second {
			t.Errorf("rate = %+v, retry after %v; want %+v, 55s", caller.Rate, refusal.RetryAfter, want)
		}
		if !s.nonceUsed(d.nonce) {
			t.Error("a request over the limit kept its nonce")
		}
	}
	if s.counted() != testLimit {
		t.Errorf("counted %d; want %d: a request over the limit is not counted", s.counted(), testLimit)
	}
	if s.failures(home) != 0 {
		t.Error("being over the limit was held against the address as a failure to authenticate")
	}

	next := s.draft()
	next.req.Now = noon.Add(time.Minute)
	caller, err = s.send(next)
	expect(t, err, fault.OK)
	if caller.Rate.Remaining != testLimit-1 || !caller.Rate.ResetAt.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("rate in the next minute = %+v", caller.Rate)
	}
}

func TestRate_RetryAfterIsRestOfWindow(t *testing.T) {
	tests := []struct {
		name    string
		into    time.Duration
		seconds int
	}{
		{"the minute's first moment", 0, 60},
		{"within its first second", 999 * time.Millisecond, 60},
		{"a second in", time.Second, 59},
		{"its last second", 59 * time.Second, 1},
		{"its last moment", time.Minute - time.Nanosecond, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := noon.Add(tt.into)
			rate := rateAt(60, 60, at)
			refusal := expect(t, rateLimited(rate, at), fault.RateLimited)
			if want := time.Duration(tt.seconds) * time.Second; refusal.RetryAfter != want || !rate.ResetAt.Equal(noon.Add(time.Minute)) {
				t.Errorf("retry after %v, reset at %v; want %v, 12:01", refusal.RetryAfter, rate.ResetAt, want)
			}
		})
	}
}

func TestRate_LimitLoweredWithinWindow(t *testing.T) {
	s := newFixture(t)
	for range 5 {
		s.warm()
	}
	s.store.change(s.hash, func(r *Record) { r.Operator.RateLimit = 3 })
	caller, err := s.send(s.draft())
	expect(t, err, fault.RateLimited)
	if caller.Rate.Limit != 3 || caller.Rate.Remaining != 0 {
		t.Errorf("rate = %+v; want limit 3, nothing remaining", caller.Rate)
	}
}

func TestRate_ConcurrentRequestsFillLimitExactly(t *testing.T) {
	s := newFixture(t)
	requests := make([]Request, 4*testLimit)
	for i := range requests {
		requests[i] = s.draft().sign()
	}
	var mu sync.Mutex
	answers := map[fault.Code]int{}
	var all sync.WaitGroup
	for _, req := range requests {
		for _, id := range []string{req.ID, req.ID + "-again"} {
			req := req
			req.ID = id
			all.Go(func() {
				_, err := s.authorizer.Authorize(context.Background(), req)
				mu.Lock()
				defer mu.Unlock()
				answers[fault.CodeOf(err)]++
			})
		}
	}
	for range 20 { // and the account changes all the while, for nothing
		s.store.change(s.hash, func(*Record) {})
	}
	all.Wait()
	if answers[fault.ReplayDetected] != len(requests) || answers[fault.OK] != testLimit {
		t.Errorf("answers = %v; want %d replays and %d let in", answers, len(requests), testLimit)
	}
}
