package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

const bulkJobColumns = `operator_id, id, actor, title, state, created_at, started_at, cancelled_at, ended_at, pause_reason, epoch, node, due_at,
	interrupted, interrupted_at, continued_by, continued_at`

func readBulkJob(row Row) (bulk.Job, error) {
	var j bulk.Job
	var created, started, cancelled, ended, due, interrupted, continued sql.NullInt64
	err := row.Scan(&j.OperatorID, &j.ID, &j.Actor, &j.Title, &j.State, &created, &started, &cancelled, &ended, &j.PauseReason, &j.Epoch, &j.Node, &due,
		&j.Interrupted, &interrupted, &j.ContinuedBy, &continued)
	j.CreatedAt, j.StartedAt, j.CancelledAt, j.EndedAt, j.DueAt = Time(created), Time(started), Time(cancelled), Time(ended), Time(due)
	j.InterruptedAt, j.ContinuedAt = Time(interrupted), Time(continued)
	return j, err
}

const BulkRowColumns = `number, line, subscriber_id, mobile, customer_name, plan_id, kind, idempotency_key, quoted_paise, expiry_quoted,
	state, code, message, operation_id, amount_paise, expiry, begun_at, ended_at, not_renewed_since`

func ReadBulkRow(row Row) (bulk.Row, error) {
	var r bulk.Row
	var quoted, amount int64
	var transaction sql.NullString
	var expiryQuoted, expiry, begun, ended, notRenewed sql.NullInt64
	err := row.Scan(&r.Number, &r.Line, &r.SubscriberID, &r.Mobile, &r.CustomerName, &r.PlanID, &r.Kind, &r.IdempotencyKey, &quoted, &expiryQuoted,
		&r.State, &r.Code, &r.Message, &transaction, &amount, &expiry, &begun, &ended, &notRenewed)
	r.Quoted, r.Amount, r.OperationID = money.Paise(quoted), money.Paise(amount), transaction.String
	r.ExpiryQuoted, r.Expiry, r.BegunAt, r.EndedAt = Time(expiryQuoted), Time(expiry), Time(begun), Time(ended)
	r.NotRenewedSince = Time(notRenewed)
	return r, err
}

// StartBulkJob makes a draft available to workers.
func (db *Store) StartBulkJob(ctx context.Context, operatorID int64, id string, now time.Time) (started bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		started = false
		if err := refuseInMaintenance(tx); err != nil {
			return err
		}
		if err := refuseSuspended(tx, operatorID); err != nil {
			return err
		}
		var state bulk.JobState
		var another, outdated bool
		err := tx.QueryRow(`
			SELECT j.state,
			       EXISTS (SELECT 1 FROM bulk_jobs o WHERE o.operator_id = $1 AND o.state = 'running'),
			       EXISTS (SELECT 1 FROM bulk_jobs o WHERE o.operator_id = $1 AND o.started_at > j.created_at)
			  FROM bulk_jobs j WHERE j.operator_id = $1 AND j.id = $2
			   FOR NO KEY UPDATE OF j`, operatorID, id).Scan(&state, &another, &outdated)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err != nil:
			return err
		case state != bulk.Draft:
			return nil
		case another:
			return bulk.ErrAnotherRuns
		case outdated:
			return bulk.ErrOutdated
		}
		_, err = tx.Exec(`
			UPDATE bulk_jobs SET state = 'running', started_at = $3, due_at = $3
			 WHERE operator_id = $1 AND id = $2`, operatorID, id, now.UnixMilli())
		if db.engine.IsDuplicate(err) {
			return bulk.ErrAnotherRuns // another job was started meanwhile
		}
		started = err == nil
		return err
	})
	if err != nil && !errors.Is(err, bulk.ErrAnotherRuns) && !errors.Is(err, bulk.ErrOutdated) && !errors.Is(err, bulk.ErrSuspended) && !errors.Is(err, operation.ErrMaintenance) {
		err = fmt.Errorf("start bulk renewal %s: %w", id, err)
	}
	return started, err
}

// CancelBulkJob cancels the rows that have not begun.
func (db *Store) CancelBulkJob(ctx context.Context, operatorID int64, id string, now time.Time) (cancelled bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		changed, err := tx.Exec(`
			UPDATE bulk_jobs
			   SET cancelled_at = $3, pause_reason = '', interrupted = '', interrupted_at = NULL,
			       due_at = CASE WHEN interrupted <> '' THEN $3 ELSE due_at END,
			       ended_at = CASE WHEN state = 'draft' THEN $3::bigint END,
			       state = CASE WHEN state = 'draft' THEN 'finished' ELSE state END
			 WHERE operator_id = $1 AND id = $2 AND state <> 'finished' AND cancelled_at IS NULL`, operatorID, id, now.UnixMilli())
		if cancelled = changed > 0; err != nil || !cancelled {
			return err
		}
		_, err = tx.Exec(`
			UPDATE bulk_rows SET state = 'cancelled', ended_at = $3
			 WHERE operator_id = $1 AND job_id = $2 AND state = 'queued'`, operatorID, id, now.UnixMilli())
		return err
	})
	return cancelled, err
}

// BulkJob reads one of an operator's jobs with its progress, from one snapshot.
func (db *Store) BulkJob(ctx context.Context, operatorID int64, id string) (job bulk.Job, found bool, err error) {
	err = db.engine.Snapshot(ctx, func(from Querier) error {
		job, err = readBulkJob(from.QueryRow(`SELECT `+bulkJobColumns+` FROM bulk_jobs WHERE operator_id = $1 AND id = $2`, operatorID, id))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read bulk renewal %s: %w", id, err)
		}
		found = true
		jobs := []bulk.Job{job}
		err = addBulkProgress(from, jobs, `operator_id = $1 AND job_id = $2`, operatorID, id)
		job = jobs[0]
		return err
	})
	return job, found, err
}

// BulkJobs reads the latest of an operator's jobs that were started.
func (db *Store) BulkJobs(ctx context.Context, operatorID int64, before time.Time, limit int) (jobs []bulk.Job, err error) {
	end := int64(math.MaxInt64)
	if !before.IsZero() {
		end = before.UnixMilli()
	}
	err = db.engine.Snapshot(ctx, func(from Querier) error {
		rows, err := from.Query(`
			SELECT `+bulkJobColumns+` FROM bulk_jobs
			 WHERE operator_id = $1 AND started_at < $3 ORDER BY started_at DESC LIMIT $2`, operatorID, limit, end)
		if jobs, err = Collect(rows, err, readBulkJob); err != nil {
			return fmt.Errorf("read bulk renewals: %w", err)
		}
		return addBulkProgress(from, jobs, `operator_id = $1 AND job_id IN (
			SELECT id FROM bulk_jobs WHERE operator_id = $1 AND started_at < $3 ORDER BY started_at DESC LIMIT $2)`, operatorID, limit, end)
	})
	return jobs, err
}

// BulkDrafts reads the latest of an operator's drafts. Drafts live for an hour, so the index of all
// operators' drafts by time has few rows; the plus sign keeps SQLite from sorting all jobs of the operator.
func (db *Store) BulkDrafts(ctx context.Context, operatorID int64, since time.Time, limit int) (jobs []bulk.Job, err error) {
	err = db.engine.Snapshot(ctx, func(from Querier) error {
		rows, err := from.Query(`
			SELECT `+bulkJobColumns+` FROM bulk_jobs
			 WHERE state = 'draft' AND created_at > $2 AND +operator_id = $1 ORDER BY created_at DESC LIMIT $3`, operatorID, since.UnixMilli(), limit)
		if jobs, err = Collect(rows, err, readBulkJob); err != nil {
			return fmt.Errorf("read drafts of bulk renewals: %w", err)
		}
		return addBulkProgress(from, jobs, `operator_id = $1 AND job_id IN (
			SELECT id FROM bulk_jobs WHERE state = 'draft' AND created_at > $2 AND +operator_id = $1 ORDER BY created_at DESC LIMIT $3)`,
			operatorID, since.UnixMilli(), limit)
	})
	return jobs, err
}

// addBulkProgress counts the rows that a condition, a literal of this file, selects, and
// adds the counts to their jobs.
func addBulkProgress(from Querier, jobs []bulk.Job, condition string, args ...any) error {
	rows, err := from.Query(`
		SELECT job_id, state, count(*), min(quoted_paise), sum(quoted_paise)::bigint, sum(amount_paise)::bigint FROM bulk_rows
		 WHERE `+condition+` GROUP BY job_id, state`, args...)
	_, err = Collect(rows, err, func(row Row) (struct{}, error) {
		var id string
		var state bulk.RowState
		var count int
		var cheapest, quoted, amount int64
		err := row.Scan(&id, &state, &count, &cheapest, &quoted, &amount)
		if i := slices.IndexFunc(jobs, func(j bulk.Job) bool { return j.ID == id }); i >= 0 {
			jobs[i].Progress.Add(state, count, money.Paise(cheapest), money.Paise(quoted), money.Paise(amount))
		}
		return struct{}{}, err
	})
	if err != nil {
		return fmt.Errorf("count the rows of bulk renewals: %w", err)
	}
	return nil
}

// BulkRows reads rows of a job in their order.
func (db *Store) BulkRows(ctx context.Context, operatorID int64, id string, page bulk.Page) ([]bulk.Row, error) {
	var found Rows
	var err error
	if page.State == "" {
		found, err = db.engine.Read(ctx).Query(`
			SELECT `+BulkRowColumns+` FROM bulk_rows
			 WHERE operator_id = $1 AND job_id = $2 AND number > $3 ORDER BY number LIMIT $4`, operatorID, id, page.After, page.Limit)
	} else {
		found, err = db.engine.Read(ctx).Query(`
			SELECT `+BulkRowColumns+` FROM bulk_rows
			 WHERE operator_id = $1 AND job_id = $2 AND state = $5 AND number > $3 ORDER BY number LIMIT $4`,
			operatorID, id, page.After, page.Limit, page.State)
	}
	all, err := Collect(found, err, ReadBulkRow)
	if err != nil {
		return nil, fmt.Errorf("read the rows of bulk renewal %s: %w", id, err)
	}
	return all, nil
}

// RecentlyRenewedRows reads the queued rows of a job whose subscribers were renewed after a moment.
func (db *Store) RecentlyRenewedRows(ctx context.Context, operatorID int64, id string, since time.Time) ([]bulk.RenewedRow, error) {
	found, err := db.engine.Read(ctx).Query(`
		SELECT r.number, s.renewed_at, s.expires_at
		  FROM bulk_rows r `+db.dialect.OrderedJoin+` subscribers s ON s.id = r.subscriber_id
		 WHERE r.operator_id = $1 AND r.job_id = $2 AND r.state = 'queued' AND s.operator_id = $1 AND s.renewed_at > $3
		 ORDER BY r.number`, operatorID, id, since.UnixMilli())
	all, err := Collect(found, err, func(row Row) (r bulk.RenewedRow, err error) {
		var renewed, expires sql.NullInt64
		err = row.Scan(&r.Number, &renewed, &expires)
		r.RenewedAt, r.Expires = Time(renewed), Time(expires)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read who of bulk renewal %s was renewed: %w", id, err)
	}
	return all, nil
}
