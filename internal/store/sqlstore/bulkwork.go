package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
)

// BulkJobsDue reports whether a job waits to be claimed.
func (db *Store) BulkJobsDue(ctx context.Context, now time.Time) (due bool, err error) {
	err = db.engine.Read(ctx).QueryRow(`SELECT EXISTS (SELECT 1 FROM bulk_jobs WHERE due_at <= $1)`, now.UnixMilli()).Scan(&due)
	if err != nil {
		return false, fmt.Errorf("look for bulk renewals that are due: %w", err)
	}
	return due, nil
}

// ClaimBulkJob takes the job that has been due for longest. Nodes share the work
// without a leader: a job that another node is claiming is skipped.
func (db *Store) ClaimBulkJob(ctx context.Context, c bulk.Claim) (job bulk.Job, found bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		var err error
		job, err = readBulkJob(tx.QueryRow(`
			UPDATE bulk_jobs SET epoch = epoch + 1, node = $2, due_at = $3
			 WHERE (operator_id, id) = (SELECT operator_id, id FROM bulk_jobs WHERE due_at <= $1 ORDER BY due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
			RETURNING `+bulkJobColumns, c.Now.UnixMilli(), c.Node, c.Until.UnixMilli()))
		if found = err == nil; found || errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return fmt.Errorf("claim a bulk renewal: %w", err)
	})
	return job, found, err
}

// TakeOverBulkJobs makes every job due at once. The caller must know that no other node
// is running: the store cannot tell.
func (db *Store) TakeOverBulkJobs(ctx context.Context, now time.Time) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`UPDATE bulk_jobs SET due_at = $1 WHERE due_at > $1`, now.UnixMilli())
		return err
	})
}

// TakeBulkRows takes rows of a job whose lease the caller still has.
func (db *Store) TakeBulkRows(ctx context.Context, h bulk.Lease, limit int) (job bulk.Job, taken []bulk.Row, held bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		taken, held = nil, false
		var err error
		job, err = readBulkJob(tx.QueryRow(`
			UPDATE bulk_jobs SET due_at = $4, pause_reason = ''
			 WHERE operator_id = $1 AND id = $2 AND epoch = $3 AND state = 'running' AND interrupted = ''
			RETURNING `+bulkJobColumns, h.OperatorID, h.JobID, h.Epoch, h.Until.UnixMilli()))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("extend the lease of bulk renewal %s: %w", h.JobID, err)
		}
		held = true
		// The job's row is locked until the commit, so that no other node takes its rows.
		for _, condition := range []string{`state = 'running' AND epoch < $3`, `state = 'queued'`} {
			some, err := tx.Dialect().TakeBulkRows(tx, h, condition, limit-len(taken))
			if err != nil {
				return fmt.Errorf("take rows of bulk renewal %s: %w", h.JobID, err)
			}
			taken = append(taken, some...)
		}
		return nil
	})
	return job, taken, held, err
}

// SettleBulkRow writes the outcome of a row.
func (db *Store) SettleBulkRow(ctx context.Context, h bulk.Lease, o bulk.Outcome) (settled bool, err error) {
	var operation any
	if o.OperationID != "" {
		operation = o.OperationID
	}
	ended := Millis(h.Now)
	if o.State == bulk.RowInReview {
		ended = nil
	}
	err = db.engine.Write(ctx, func(tx Tx) error {
		changed, err := tx.Exec(`
			UPDATE bulk_rows SET state = $5, code = $6, message = $7, operation_id = $8, amount_paise = $9, expiry = $10, ended_at = $11
			 WHERE operator_id = $1 AND job_id = $2 AND number = $3
			   AND ((state = 'running' OR state = 'in_review')
			        AND (SELECT j.epoch FROM bulk_jobs j WHERE j.operator_id = $1 AND j.id = $2) = $4
			        OR operation_id IS NULL AND $8::text IS NOT NULL)`,
			h.OperatorID, h.JobID, o.Number, h.Epoch, o.State, o.Code, o.Message, operation, o.Amount.Paise(), Millis(o.Expiry), ended)
		if err != nil {
			return fmt.Errorf("settle row %d of bulk renewal %s: %w", o.Number, h.JobID, err)
		}
		if settled = changed > 0; !settled || o.State != bulk.RowInReview {
			return nil
		}
		// A finished job is open again.
		_, err = tx.Exec(`UPDATE bulk_jobs SET due_at = $3 WHERE operator_id = $1 AND id = $2 AND due_at IS NULL`, h.OperatorID, h.JobID, h.Now.UnixMilli())
		return err
	})
	return settled && err == nil, err
}

// OrphanedBulkRows reads refused or cancelled rows that have an operation nevertheless. The operation is
// looked up row by row, because the planner may choose a slow join.
func (db *Store) OrphanedBulkRows(ctx context.Context, operatorID int64, id string, limit int) (orphaned []bulk.Row, err error) {
	for _, state := range []bulk.RowState{bulk.RowRefused, bulk.RowCancelled} {
		rows, err := db.engine.Read(ctx).Query(`
			SELECT `+BulkRowColumns+` FROM bulk_rows r
			 WHERE operator_id = $1 AND job_id = $2 AND state = $3 AND begun_at IS NOT NULL AND operation_id IS NULL
			   AND (SELECT o.id FROM operations o WHERE o.operator_id = $1 AND o.idempotency_key = r.idempotency_key) IS NOT NULL
			 ORDER BY number LIMIT $4`, operatorID, id, state, limit-len(orphaned))
		some, err := Collect(rows, err, ReadBulkRow)
		if err != nil {
			return nil, fmt.Errorf("look for charged rows of bulk renewal %s: %w", id, err)
		}
		orphaned = append(orphaned, some...)
	}
	return orphaned, nil
}

// OpenBulkJobs counts the jobs that are or will be due.
func (db *Store) OpenBulkJobs(ctx context.Context) (open int, err error) {
	err = db.engine.Read(ctx).QueryRow(`SELECT count(*) FROM bulk_jobs WHERE due_at >= 0`).Scan(&open)
	if err != nil {
		return 0, fmt.Errorf("count the bulk renewals that are open: %w", err)
	}
	return open, nil
}

// ReleaseBulkJob gives up a lease that the caller still has.
func (db *Store) ReleaseBulkJob(ctx context.Context, h bulk.Lease, r bulk.Release) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		// Cancelling changes rows under the same lock.
		if _, err := tx.Exec(`SELECT epoch FROM bulk_jobs WHERE operator_id = $1 AND id = $2 FOR NO KEY UPDATE`, h.OperatorID, h.JobID); err != nil {
			return fmt.Errorf("lock bulk renewal %s: %w", h.JobID, err)
		}
		var open, review bool
		err := tx.QueryRow(`
			SELECT EXISTS (SELECT 1 FROM bulk_rows WHERE operator_id = $1 AND job_id = $2 AND state = 'queued')
			    OR EXISTS (SELECT 1 FROM bulk_rows WHERE operator_id = $1 AND job_id = $2 AND state = 'running'),
			       EXISTS (SELECT 1 FROM bulk_rows WHERE operator_id = $1 AND job_id = $2 AND state = 'in_review')`, h.OperatorID, h.JobID).Scan(&open, &review)
		if err != nil {
			return fmt.Errorf("look for open rows of bulk renewal %s: %w", h.JobID, err)
		}
		state, due, why, ended := bulk.Running, Millis(r.Again), r.Why, any(nil)
		if !open {
			state, due, why, ended = bulk.Finished, nil, "", Millis(h.Now)
			if review {
				due = Millis(r.Review)
			}
		}
		_, err = tx.Exec(`
			UPDATE bulk_jobs SET state = $4, due_at = $5, pause_reason = $6, ended_at = coalesce(ended_at, $7),
			       interrupted = CASE WHEN $4 = 'finished' THEN '' ELSE interrupted END
			 WHERE operator_id = $1 AND id = $2 AND epoch = $3`, h.OperatorID, h.JobID, h.Epoch, state, due, why, ended)
		if err != nil {
			return fmt.Errorf("release bulk renewal %s: %w", h.JobID, err)
		}
		return nil
	})
}

// PurgeBulkDrafts removes drafts that were never started.
func (db *Store) PurgeBulkDrafts(ctx context.Context, before time.Time, limit int) (purged int, err error) {
	type draft struct {
		operatorID int64
		id         string
	}
	err = db.engine.Write(ctx, func(tx Tx) error {
		rows, err := tx.Query(`
			SELECT operator_id, id FROM bulk_jobs WHERE state = 'draft' AND created_at < $1 ORDER BY created_at LIMIT $2`, before.UnixMilli(), limit)
		old, err := Collect(rows, err, func(row Row) (d draft, err error) {
			err = row.Scan(&d.operatorID, &d.id)
			return d, err
		})
		if err != nil {
			return fmt.Errorf("look for old drafts of bulk renewals: %w", err)
		}
		for _, d := range old {
			if _, err := tx.Exec(`DELETE FROM bulk_rows WHERE operator_id = $1 AND job_id = $2`, d.operatorID, d.id); err != nil {
				return fmt.Errorf("delete the rows of a draft: %w", err)
			}
			if _, err := tx.Exec(`DELETE FROM bulk_jobs WHERE operator_id = $1 AND id = $2`, d.operatorID, d.id); err != nil {
				return fmt.Errorf("delete a draft: %w", err)
			}
		}
		purged = len(old)
		return nil
	})
	return purged, err
}
