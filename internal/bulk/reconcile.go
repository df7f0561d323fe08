package bulk

import (
	"context"
	"fmt"
	"time"
)

// A node that stalls past its lease may charge a row after another node settled it as
// refused. It corrects the row when it settles it, but may crash before that. Therefore
// refused and cancelled rows are checked for an operation again, when the job ends and
// whenever it is shown: an operation takes precedence over a refusal.

// reconcile gives rows that were refused or cancelled, but have an operation, the outcome
// of that operation.
func reconcile(ctx context.Context, store Store, operations Operations, job Job, now func() time.Time) (reconciled []RowState, err error) {
	for {
		rows, err := store.OrphanedBulkRows(ctx, job.OperatorID, job.ID, pageRows)
		if err != nil {
			return reconciled, fmt.Errorf("look for charged rows of bulk renewal %s: %w", job.ID, err)
		}
		for _, row := range rows {
			op, err := operations.Transaction(ctx, job.OperatorID, "", row.IdempotencyKey)
			if err != nil {
				return reconciled, fmt.Errorf("look up row %d of bulk renewal %s: %w", row.Number, job.ID, err)
			}
			outcome := outcomeOf(row, op)
			lease := Lease{OperatorID: job.OperatorID, JobID: job.ID, Epoch: job.Epoch, Now: now()}
			settled, err := store.SettleBulkRow(ctx, lease, outcome)
			if err != nil {
				return reconciled, fmt.Errorf("reconcile row %d of bulk renewal %s: %w", row.Number, job.ID, err)
			}
			if settled {
				reconciled = append(reconciled, outcome.State)
			}
		}
		if len(rows) < pageRows {
			return reconciled, nil
		}
	}
}
