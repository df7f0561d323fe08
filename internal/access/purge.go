package access

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/subscription"
)

const (
	// NonceRetention is how long a used nonce is stored. A timestamp is accepted for ten
	// minutes; the rest is a margin for clocks that jump.
	NonceRetention = 24 * time.Hour

	// countersKept is for how many past windows the rate counters are kept. Only a node whose
	// clock lags counts a request in one of them.
	countersKept = 5

	// purgeBatch is small because requests wait for the store's writer meanwhile.
	purgeBatch = 500
)

// Purge removes nonces and rate counters that are no longer needed, in small batches, until there
// are none left or ctx ends. It returns the number of rows removed, also beside an error.
func (a *Authorizer) Purge(ctx context.Context, now time.Time) (removed int, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return removed, fmt.Errorf("purge admissions: %w", err)
		}
		batch, err := a.store.PurgeAdmissions(ctx, now.Add(-NonceRetention), subscription.RateWindowAt(now)-countersKept, purgeBatch)
		if err != nil {
			return removed, fmt.Errorf("purge admissions: %w", err)
		}
		removed += batch
		if batch < purgeBatch {
			return removed, nil
		}
	}
}
