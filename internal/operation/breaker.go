package operation

import (
	"context"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/fault"
)

const (
	// breakerLimit is how many failures in a row make an outage.
	breakerLimit = 3
	// probeEvery is how often a provider that is in doubt, or out, is probed;
	// probePatience is how long it has to answer. Together they bound how long
	// money is reserved into an outage that nobody has noticed.
	probeEvery    = 100 * time.Millisecond
	probePatience = 2 * time.Second
)

// Breaker notices that the provider as a whole is down, and keeps money from
// being reserved for nothing. It opens on what concerns everybody: connections
// that do not come about, probes that fail one after the other. An operation whose
// outcome is not known makes it look, and nothing more.
type Breaker struct {
	probe func(context.Context) error

	mu        sync.Mutex
	open      bool
	suspect   bool
	unreached int // calls in a row that never left
	unprobed  int // probes in a row that failed
}

// NewBreaker returns a closed breaker that finds out by the given probe.
func NewBreaker(probe func(context.Context) error) *Breaker { return &Breaker{probe: probe} }

// Allow refuses while the provider is known to be down.
func (b *Breaker) Allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return nil
	}
	return fault.New(fault.ServiceUnavailable, "The provider is out of service, so nothing was reserved. Retry with backoff and the same Idempotency-Key.")
}

// Record takes in how a call ended.
func (b *Breaker) Record(answer Reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case answer.NotSent:
		b.suspect = true
		if b.unreached++; b.unreached >= breakerLimit {
			b.open = true
		}
	case answer.Outcome == Unknown:
		b.suspect = true
	default:
		b.well()
	}
}

// well is called when the provider has answered something.
func (b *Breaker) well() { b.open, b.suspect, b.unreached, b.unprobed = false, false, 0, 0 }

// Run probes a provider that is in doubt, until ctx ends.
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
	doubt := b.open || b.suspect
	b.mu.Unlock()
	if !doubt {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	err := b.probe(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.well()
		return
	}
	if b.unprobed++; b.unprobed >= breakerLimit {
		b.open = true
	}
}
