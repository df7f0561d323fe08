package operation

import (
	"context"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

const (
	// breakerLimit is the number of failures in a row that opens the breaker.
	breakerLimit = 3
	// probeEvery is how often the provider is probed while the breaker is open or after a
	// suspicious call; probeTimeout limits one probe. Together they limit how long money is
	// reserved during an outage that was not noticed yet.
	probeEvery   = 100 * time.Millisecond
	probeTimeout = 2 * time.Second
)

// Breaker refuses operations while the provider as a whole is down, so that no money is
// reserved in vain. It opens on failures that do not depend on one order: connections that
// cannot be established, probes that fail. A call with an unknown outcome only starts probing.
type Breaker struct {
	probe func(context.Context) error

	mu           sync.Mutex
	open         bool
	probing      bool
	notSent      int // calls in a row that did not reach the provider
	failedProbes int // in a row
}

// NewBreaker returns a closed breaker. probe returns nil if the provider answers.
func NewBreaker(probe func(context.Context) error) *Breaker { return &Breaker{probe: probe} }

// Allow refuses while the breaker is open.
func (b *Breaker) Allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return nil
	}
	return fault.New(fault.ServiceUnavailable, "The provider is out of service, so nothing was reserved. Retry with backoff and the same Idempotency-Key.")
}

// Record evaluates the reply to a call.
func (b *Breaker) Record(reply Reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case reply.NotSent:
		b.probing = true
		if b.notSent++; b.notSent >= breakerLimit {
			b.open = true
		}
	case reply.Outcome == Unknown:
		b.probing = true
	default:
		b.reset()
	}
}

// reset closes the breaker after the provider has answered.
func (b *Breaker) reset() { b.open, b.probing, b.notSent, b.failedProbes = false, false, 0, 0 }

// Run probes the provider whenever that is needed, until ctx ends.
func (b *Breaker) Run(ctx context.Context) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			b.probeOnce(ctx)
		}
	}
}

func (b *Breaker) probeOnce(ctx context.Context) {
	b.mu.Lock()
	needed := b.open || b.probing
	b.mu.Unlock()
	if !needed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := b.probe(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.reset()
		return
	}
	if b.failedProbes++; b.failedProbes >= breakerLimit {
		b.open = true
	}
}
