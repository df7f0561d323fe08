package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
)

// RefuseUnfinishedCopy returns an error if a copy has begun to fill the store: what a node adds
// would be in the copy's way.
func RefuseUnfinishedCopy(ctx context.Context, pool *sql.DB) error {
	var actor string
	err := pool.QueryRowContext(ctx, `SELECT actor FROM maintenance WHERE one = 1`).Scan(&actor)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil && actor == admin.CopyActor {
		err = admin.ErrUnfinishedCopy
	}
	return err
}

// refuseInMaintenance refuses unless maintenance mode is off, and keeps it off until the
// commit: FOR SHARE locks the table in ROW SHARE mode, with or without rows, so that the
// transaction that switches the mode on waits for this one.
func refuseInMaintenance(tx Tx) error {
	var one int
	err := tx.QueryRow(`SELECT 1 FROM maintenance WHERE one = 1 FOR SHARE`).Scan(&one)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("read the maintenance mode: %w", err)
	}
	return operation.ErrMaintenance
}

// Maintenance reads the maintenance mode.
func (db *Store) Maintenance(ctx context.Context) (admin.Maintenance, error) {
	return readMaintenance(db.engine.Read(ctx))
}

func readMaintenance(from Querier) (m admin.Maintenance, err error) {
	var since sql.NullInt64
	err = from.QueryRow(`SELECT since, actor, reason FROM maintenance WHERE one = 1`).Scan(&since, &m.Actor, &m.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return admin.Maintenance{}, nil
	}
	if err != nil {
		return m, fmt.Errorf("read the maintenance mode: %w", err)
	}
	m.On, m.Since = true, Time(since)
	return m, nil
}

// StartMaintenance switches the mode on, or changes its reason.
func (db *Store) StartMaintenance(ctx context.Context, action admin.StaffAction) (now admin.Maintenance, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		if err := tx.Dialect().LockMaintenance(tx); err != nil {
			return fmt.Errorf("lock the maintenance mode: %w", err)
		}
		before, err := readMaintenance(tx)
		if err != nil {
			return err
		}
		now = admin.Maintenance{On: true, Since: action.At, Actor: action.Actor, Reason: action.Reason}
		if err := switchOn(tx, before, &now, action.At); err != nil {
			return err
		}
		return logAction(tx, action, 0, admin.MaintenanceSubject, admin.MaintenanceState(before, false), admin.MaintenanceState(now, false))
	})
	return now, err
}

// switchOn writes the mode, or its new reason, and interrupts the running bulk renewals.
func switchOn(tx Tx, before admin.Maintenance, now *admin.Maintenance, at time.Time) error {
	if before.Actor == admin.CopyActor {
		return admin.ErrUnfinishedCopy
	}
	if before.On {
		now.Since = before.Since
	}
	_, err := tx.Exec(`
		INSERT INTO maintenance (one, since, actor, reason) VALUES (1, $1, $2, $3)
		ON CONFLICT (one) DO UPDATE SET actor = excluded.actor, reason = excluded.reason`, now.Since.UnixMilli(), now.Actor, now.Reason)
	if err != nil {
		return fmt.Errorf("switch maintenance mode on: %w", err)
	}
	return interruptBulkJobs(tx, at.UnixMilli())
}

// EndMaintenance switches the mode off; false if it was off.
func (db *Store) EndMaintenance(ctx context.Context, action admin.StaffAction, accepted, compared bool) (ended bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		ended = false
		if err := tx.Dialect().LockMaintenance(tx); err != nil {
			return fmt.Errorf("lock the maintenance mode: %w", err)
		}
		before, err := readMaintenance(tx)
		if err != nil || !before.On {
			return err
		}
		if before.Actor == admin.CopyActor {
			return admin.ErrUnfinishedCopy
		}
		if err := closeRestore(tx, action, accepted, compared); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM maintenance`); err != nil {
			return fmt.Errorf("switch maintenance mode off: %w", err)
		}
		ended = true
		return logAction(tx, action, 0, admin.MaintenanceSubject, admin.MaintenanceState(before, false), admin.MaintenanceState(admin.Maintenance{}, accepted))
	})
	return ended && err == nil, err
}

// InterruptIdleBulkJobs interrupts the running jobs that no node has worked on.
func (db *Store) InterruptIdleBulkJobs(ctx context.Context, since, now time.Time) (interrupted int, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		changed, err := tx.Exec(`
			UPDATE bulk_jobs SET interrupted = $3, interrupted_at = $2
			 WHERE due_at < $1 AND state = 'running' AND cancelled_at IS NULL AND interrupted = ''`,
			since.UnixMilli(), now.UnixMilli(), bulk.ByDowntime)
		interrupted = int(changed)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("interrupt idle bulk renewals: %w", err)
	}
	return interrupted, nil
}

// ContinueBulkJob makes an interrupted job available to workers again.
func (db *Store) ContinueBulkJob(ctx context.Context, operatorID int64, id, actor string, now time.Time) (continued bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		continued = false
		if err := refuseInMaintenance(tx); err != nil {
			return err
		}
		if err := refuseSuspended(tx, operatorID); err != nil {
			return err
		}
		changed, err := tx.Exec(`
			UPDATE bulk_jobs SET interrupted = '', interrupted_at = NULL, continued_by = $3, continued_at = $4, pause_reason = '', due_at = $4
			 WHERE operator_id = $1 AND id = $2 AND state = 'running' AND cancelled_at IS NULL AND interrupted <> ''`,
			operatorID, id, actor, now.UnixMilli())
		continued = changed > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("continue bulk renewal %s: %w", id, err)
	}
	return continued, nil
}

// InterruptedBulkJobs reads the jobs of all operators that wait for a person.
func (db *Store) InterruptedBulkJobs(ctx context.Context) ([]bulk.Job, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT ` + bulkJobColumns + ` FROM bulk_jobs
		 WHERE due_at >= 0 AND state = 'running' AND interrupted <> ''`)
	jobs, err := Collect(rows, err, readBulkJob)
	if err != nil {
		return nil, fmt.Errorf("read the interrupted bulk renewals: %w", err)
	}
	bulk.SortByInterruption(jobs)
	return jobs, nil
}
