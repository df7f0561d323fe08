package bulk

import (
	"context"
	"fmt"
	"time"
)

// A node that took rows and then slept past its lease may wake up after another one
// was told no in its place, and have a row charged after all. It says so when it
// settles the row; but it may die before it does. Therefore an operation is looked
// for once more where a row was given up, when the job ends and whenever it is shown:
// what the books say outweighs what anybody was told.

// mend gives the rows that were given up, and have an operation all the same, the
// outcome of that operation.
func mend(ctx context.Context, store Store, operations Operations, job Job, now func() time.Time) (mended []RowState, err error) {
	for {
		rows, err := store.AstrayBulkRows(ctx, job.OperatorID, job.ID, pageRows)
		if err != nil {
			return mended, fmt.Errorf("look for charged rows of bulk renewal %s: %w", job.ID, err)
		}
		for _, row := range rows {
			op, err := operations.Transaction(ctx, job.OperatorID, "", row.IdempotencyKey)
			if err != nil {
				return mended, fmt.Errorf("look up row %d of bulk renewal %s: %w", row.Number, job.ID, err)
			}
			outcome := outcomeOf(row, op)
			hold := Hold{OperatorID: job.OperatorID, JobID: job.ID, Epoch: job.Epoch, Now: now()}
			settled, err := store.SettleBulkRow(ctx, hold, outcome)
			if err != nil {
				return mended, fmt.Errorf("mend row %d of bulk renewal %s: %w", row.Number, job.ID, err)
			}
			if settled {
				mended = append(mended, outcome.State)
			}
		}
		if len(rows) < pageRows {
			return mended, nil
		}
	}
}
