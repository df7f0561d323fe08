package generator

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
)

func TestSchedule_IgnoresAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := schedule{begin: begin, end: begin.Add(time.Second), every: 10 * time.Millisecond, together: 1, now: time.Now, sleep: time.Sleep}
		due := make(chan time.Time, s.slots())
		// Nobody takes anything.
		s.run(due, func() bool { return false })
		if took := time.Since(begin); took != 990*time.Millisecond {
			t.Errorf("it ended after %s; want 990ms, when the last was due", took)
		}
		n := 0
		for at := range due {
			if want := begin.Add(time.Duration(n) * s.every); !at.Equal(want) {
				t.Errorf("request %d is due after %s; want %s", n, at.Sub(begin), want.Sub(begin))
			}
			n++
		}
		if n != 100 {
			t.Errorf("%d were due; want 100 in a second", n)
		}
	})
}

func TestSchedule_BurstsKeepTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := schedule{begin: begin, end: begin.Add(time.Second), every: 10 * time.Millisecond, together: 25, now: time.Now, sleep: time.Sleep}
		due := make(chan time.Time, s.slots())
		s.run(due, func() bool { return false })
		at := map[time.Duration]int{}
		for moment := range due {
			at[moment.Sub(begin)]++
		}
		want := map[time.Duration]int{0: 25, 250 * time.Millisecond: 25, 500 * time.Millisecond: 25, 750 * time.Millisecond: 25}
		if !maps.Equal(at, want) {
			t.Errorf("they come at %v; want %v", at, want)
		}
	})
}

func TestSchedule_EndsWithTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := schedule{begin: begin, end: begin.Add(time.Hour), every: time.Millisecond, together: 1, now: time.Now, sleep: time.Sleep}
		due := make(chan time.Time, s.slots())
		s.run(due, func() bool { return time.Since(begin) >= time.Second })
		if n := len(due); n != 1001 {
			t.Errorf("%d were due; want 1001, and none after the end", n)
		}
	})
}

// A service that stands still for a second keeps everybody waiting who would have
// come in that second. A generator that waits along with it would count one.
func TestSchedule_LatencyIncludesQueueing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := &run{load: Load{Rate: 100}, from: begin, measureFrom: begin, end: begin.Add(10 * time.Second)}
		served := 0
		c := &client{run: r, accounts: []*Account{NewAccount(1, "key", "secret")}, answers: map[string]uint64{}}
		c.ask = func(context.Context, shot) (load.Answer, error) {
			if served++; served == 500 {
				time.Sleep(time.Second)
			}
			return load.Answer{Status: 200, Code: "OK"}, nil
		}
		s := schedule{begin: r.from, end: r.end, every: 10 * time.Millisecond, together: 1, now: time.Now, sleep: time.Sleep}
		due := make(chan time.Time, s.slots())
		go s.run(due, func() bool { return r.stopped(t.Context()) })
		c.openLoop(t.Context(), due)

		result := r.result([]*client{c})
		if result.Requests != 1000 || result.Answers[okay] != 1000 || len(result.Problems) > 0 {
			t.Fatalf("%d requests, %v, %v; want 1000, all of them 200", result.Requests, result.Answers, result.Problems)
		}
		// A hundred were due while it stood still: a tenth of all, evenly from no
		// wait to a second.
		within := func(name string, got, least, most float64) {
			t.Helper()
			if got < least || got > most {
				t.Errorf("%s is %.1f ms; want %.0f to %.0f", name, got, least, most)
			}
		}
		within("the median", result.Latency.P50, 0, 0)
		within("p90", result.Latency.P90, 0, 20)
		within("p95", result.Latency.P95, 490, 520)
		within("p99", result.Latency.P99, 890, 920)
		within("the longest", result.Latency.Max, 1000, 1000)
	})
}

// In a closed loop the same second is one request's.
func TestClosedLoop_CountsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := &run{from: begin, measureFrom: begin.Add(time.Second), end: begin.Add(3 * time.Second)}
		c := &client{run: r, accounts: []*Account{NewAccount(1, "key", "secret")}, answers: map[string]uint64{}}
		c.ask = func(context.Context, shot) (load.Answer, error) {
			time.Sleep(100 * time.Millisecond)
			return load.Answer{Status: 200, Code: "OK"}, nil
		}
		c.closedLoop(t.Context())
		result := r.result([]*client{c})
		if result.Requests != 20 || result.Answers[okay] != 30 || result.Seconds != 2 || result.PerSecond != 10 {
			t.Errorf("%+v; want 20 requests in 2 seconds, after 10 of the warm-up", result)
		}
	})
}
