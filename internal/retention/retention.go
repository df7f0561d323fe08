// Package retention removes provider calls, events of operations and finished bulk renewals
// that are older than an installation wants to keep. It never removes an operation, a ledger
// line or a wallet entry: idempotency keys, duplicates and expiries rest on those.
//
// Only what an uneventful operation left is removed. Each transaction that removes rows also
// adds an integrity.Closing, so that the audit can tell them from rows deleted by hand.
package retention

import (
	"context"
	"fmt"
	"time"
)

// What is a table that rows are removed from.
type What string

// The tables. ProviderCalls and OperationEvents are removed by operation, BulkJobs with their rows.
const (
	ProviderCalls   What = "provider_calls"
	OperationEvents What = "operation_events"
	BulkJobs        What = "bulk_jobs"
)

// Tables are all of them, in the order in which Run goes through them.
var Tables = []What{ProviderCalls, OperationEvents, BulkJobs}

const day = 24 * time.Hour

// Minimum is the shortest time that rows can be kept for, and Why the reason.
var (
	Minimum = map[What]time.Duration{ProviderCalls: 90 * day, OperationEvents: 90 * day, BulkJobs: 30 * day}
	Why     = map[What]string{
		ProviderCalls:   "late replies, the provider's invoice and the comparison after a restore are settled with them",
		OperationEvents: "complaints about an order are answered from them",
		BulkJobs:        "rows that failed are tried again from them",
	}
)

// SettledWithin is how long after its order an operation must have been settled for its rows to be
// removed. What took longer was disputed, and keeps them for good.
const SettledWithin = 7 * day

// batch is how many operations one transaction looks at: requests wait for it on SQLite.
const batch = 50

// Removed is what one transaction removed.
type Removed struct {
	Rows int
	// More: there may be more to remove.
	More bool
}

// Store removes old rows, each method in one transaction together with a closing. Several nodes may call
// them at a time.
type Store interface {
	// RemoveOperationRows removes the rows of a table of the next operations that were ordered
	// before a moment, at most limit operations. It keeps all rows of an operation that is open, was
	// settled later than SettledWithin, was decided by a person, was adopted, has an exception, is
	// still followed up, or is not what its rows say.
	RemoveOperationRows(ctx context.Context, what What, before, now time.Time, limit int) (Removed, error)
	// RemoveBulkJob removes the bulk renewal that was finished first, if that was before a moment.
	RemoveBulkJob(ctx context.Context, before, now time.Time) (Removed, error)
}

// Config is how long rows are kept; zero is for good.
type Config struct{ ProviderCalls, OperationEvents, BulkJobs time.Duration }

// Run removes what is older than configured, a batch at a time. It calls after with the number of
// rows after each batch, which pauses for requests, and counts.
func (c Config) Run(ctx context.Context, store Store, now time.Time, after func(what What, rows int)) error {
	for i, keep := range []time.Duration{c.ProviderCalls, c.OperationEvents, c.BulkJobs} {
		what := Tables[i]
		if keep == 0 {
			continue
		}
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return err
			}
			var removed Removed
			var err error
			if what == BulkJobs {
				removed, err = store.RemoveBulkJob(ctx, now.Add(-keep), now)
			} else {
				removed, err = store.RemoveOperationRows(ctx, what, now.Add(-keep), now, batch)
			}
			if err != nil {
				return fmt.Errorf("remove old %s: %w", what, err)
			}
			after(what, removed.Rows)
			more = removed.More
		}
	}
	return nil
}
