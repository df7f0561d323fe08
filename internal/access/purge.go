package access

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/subscription"
)

const (
	// NonceRetention is how long a used nonce is remembered. A timestamp is
	// accepted for ten minutes at most; the rest is room for clocks that jump.
	NonceRetention = 24 * time.Hour

	// countersKept is how many past minutes keep their counters: no request
	// is counted in one that is over, save by a node whose clock lags.
	countersKept = 5

	// purgeBatch is small because a batch keeps the store's writer busy, and
	// requests wait behind it.
	purgeBatch = 500
)

// Purge removes the nonces and rate counters that nobody asks for any more, in
// small batches, until there are none left or ctx ends. It says how many rows
// went, also beside an error.
func (g *Authorizer) Purge(ctx context.Context, now time.Time) (removed int, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return removed, fmt.Errorf("purge admissions: %w", err)
		}
		batch, err := g.store.PurgeAdmissions(ctx, now.Add(-NonceRetention), subscription.RateWindowAt(now)-countersKept, purgeBatch)
		if err != nil {
			return removed, fmt.Errorf("purge admissions: %w", err)
		}
		removed += batch
		if batch < purgeBatch {
			return removed, nil
		}
	}
}
