package operation

import (
	"context"
	"errors"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

func TestTheBreakerOpensOnAnOutageAndClosesByProbing(t *testing.T) {
	var down error
	probes := 0
	b := NewBreaker(func(context.Context) error { probes++; return down })
	closed := func(what string, want bool) {
		t.Helper()
		if err := b.Allow(); (err == nil) != want || err != nil && !fault.Is(err, fault.ServiceUnavailable) {
			t.Errorf("%s: %v; want closed %v", what, err, want)
		}
	}
	never := Answer{Verdict: Rejected, NeverLeft: true}

	b.probeOnce(t.Context())
	if probes != 0 {
		t.Error("a provider nobody doubts was probed")
	}
	for range 100 {
		b.Heard(Answer{})
	}
	closed("after a hundred unknown outcomes", true)
	b.probeOnce(t.Context())
	closed("and a probe that is answered", true)

	b.Heard(never)
	b.Heard(never)
	b.Heard(Answer{Verdict: Rejected})
	b.Heard(never)
	b.Heard(never)
	closed("after two in a row that never left, twice", true)
	b.Heard(never)
	closed("after three in a row", false)
	b.probeOnce(t.Context())
	closed("after a probe that is answered", true)

	down = errors.New("no answer")
	b.Heard(Answer{})
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
