package operation

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

func TestBreaker_OpensOnOutageClosesByProbe(t *testing.T) {
	var down error
	probes := 0
	b := NewBreaker(func(context.Context) error { probes++; return down })
	closed := func(what string, want bool) {
		t.Helper()
		if err := b.Allow(); (err == nil) != want || err != nil && !fault.Is(err, fault.ServiceUnavailable) {
			t.Errorf("%s: %v; want closed %v", what, err, want)
		}
	}
	notSent := Reply{Outcome: Rejected, NotSent: true}

	b.probeOnce(t.Context())
	if probes != 0 {
		t.Error("probed without a reason")
	}
	for range 100 {
		b.Record(Reply{})
	}
	closed("after a hundred unknown outcomes", true)
	b.probeOnce(t.Context())
	closed("and a probe that is answered", true)

	b.Record(notSent)
	b.Record(notSent)
	b.Record(Reply{Outcome: Rejected})
	b.Record(notSent)
	b.Record(notSent)
	closed("after two in a row that were not sent, twice", true)
	b.Record(notSent)
	closed("after three in a row", false)
	b.probeOnce(t.Context())
	closed("after a probe that is answered", true)

	down = errors.New("no answer")
	b.Record(Reply{})
	b.probeOnce(t.Context())
	b.probeOnce(t.Context())
	closed("after two probes that failed", true)
	b.probeOnce(t.Context())
	closed("after three", false)
	b.probeOnce(t.Context())
	closed("still", false)
	down = nil
	b.probeOnce(t.Context())
	closed("when it answers again", true)
}

// A probe may take two seconds, the next starts 100 ms later, and the third failure opens the
// breaker. That limits how long money is reserved during an outage.
func TestBreaker_TimeToOpenAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var silent atomic.Bool
		silent.Store(true)
		b := NewBreaker(func(ctx context.Context) error {
			if !silent.Load() {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		go b.Run(ctx)
		b.Record(Reply{}) // an unknown outcome starts probing
		until := func(open bool) time.Duration {
			start := time.Now()
			for ; (b.Allow() != nil) != open; time.Sleep(10 * time.Millisecond) {
				if time.Since(start) > time.Minute {
					t.Fatalf("after a minute it is not open: %t", open)
				}
			}
			return time.Since(start)
		}
		if took := until(true); took < 6*time.Second || took > 7*time.Second {
			t.Errorf("opened after %s; want three probes of two seconds", took)
		}
		silent.Store(false)
		if took := until(false); took > 3*time.Second {
			t.Errorf("closed %s after the provider came back", took)
		}
		stop()
	})
}
