package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
)

// StoreMark reads the store's mark.
func (db *Store) StoreMark(ctx context.Context) (admin.StoreMark, error) {
	return ReadStoreMark(db.engine.Read(ctx))
}

// ReadStoreMark reads the store's mark.
func ReadStoreMark(from RowQuerier) (m admin.StoreMark, err error) {
	var at sql.NullInt64
	err = from.QueryRow(`
		SELECT store_id, previous_id, value, state, marked_at,
		       EXISTS (SELECT 1 FROM operators), coalesce((SELECT max(id) FROM staff_acts), 0)
		  FROM store_mark WHERE one = 1`).Scan(&m.StoreID, &m.PreviousID, &m.Value, (*string)(&m.State), &at, &m.Operators, &m.LastAction)
	if err != nil {
		return m, fmt.Errorf("read the store's mark: %w", err)
	}
	m.At = Time(at)
	return m, nil
}

// AdvanceMark adds to the mark's value, and returns it once that is durable.
func (db *Store) AdvanceMark(ctx context.Context, a admin.MarkAdvance) (value int64, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		err := tx.QueryRow(`
			UPDATE store_mark SET value = value + $3, marked_at = $4, state = 'marked'
			 WHERE one = 1 AND store_id = $1 AND value >= $2
			RETURNING value`, a.StoreID, a.AtLeast, a.By, a.At.UnixMilli()).Scan(&value)
		if errors.Is(err, sql.ErrNoRows) {
			return admin.ErrBehindMark
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("mark the store: %w", err)
	}
	return value, nil
}

// LastKnown reads when the newest operation or staff action began.
func (db *Store) LastKnown(ctx context.Context) (time.Time, error) {
	return readLastKnown(db.engine.Read(ctx))
}

func readLastKnown(from RowQuerier) (time.Time, error) {
	var operation, action sql.NullInt64
	err := from.QueryRow(`
		SELECT (SELECT max(created_at) FROM operations), (SELECT at FROM staff_acts ORDER BY id DESC LIMIT 1)`).Scan(&operation, &action)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the newest operation: %w", err)
	}
	if action.Int64 > operation.Int64 {
		operation = action
	}
	return Time(operation), nil
}

// OpenRestore reads the restore that has not been dealt with; its Open is false if there
// is none.
func (db *Store) OpenRestore(ctx context.Context) (admin.Restore, error) {
	return readOpenRestore(db.engine.Read(ctx))
}

func readOpenRestore(from RowQuerier) (r admin.Restore, err error) {
	var found, since sql.NullInt64
	err = from.QueryRow(`SELECT found_at, since, how FROM store_restores WHERE outcome = ''`).Scan(&found, &since, &r.How)
	if errors.Is(err, sql.ErrNoRows) {
		return admin.Restore{}, nil
	}
	if err != nil {
		return r, fmt.Errorf("read the open restore: %w", err)
	}
	r.Open, r.FoundAt, r.Since = true, Time(found), Time(since)
	return r, nil
}

// RecordRestore records a restore with its staff action, at the action's time, unless one
// is open already; and the staff action of an open one that has none.
func (db *Store) RecordRestore(ctx context.Context, action admin.StaffAction, r admin.Restore, above int64) (mode admin.Maintenance, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		r.FoundAt = action.At
		before, now, err := MarkRestored(tx, action.Actor, r, above)
		if err != nil {
			return err
		}
		mode = now
		return logRestore(tx, action, before, now)
	})
	return mode, err
}

// LogRestore writes the staff action of an open restore that has none, because no master
// key was there when it was recorded.
func (db *Store) LogRestore(ctx context.Context, action admin.StaffAction) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		if err := tx.Dialect().LockMaintenance(tx); err != nil {
			return fmt.Errorf("lock the maintenance mode: %w", err)
		}
		mode, err := readMaintenance(tx)
		if err != nil {
			return err
		}
		return logRestore(tx, action, admin.Maintenance{}, mode)
	})
}

func logRestore(tx Tx, action admin.StaffAction, before, now admin.Maintenance) error {
	restore, err := readOpenRestore(tx)
	if err != nil || !restore.Open {
		return err
	}
	changed, err := tx.Exec(`UPDATE store_restores SET logged_at = $1 WHERE outcome = '' AND logged_at IS NULL`, action.At.UnixMilli())
	if err != nil {
		return fmt.Errorf("record the restore: %w", err)
	}
	if changed == 0 {
		return nil
	}
	action.Reason = admin.RestoreReason(restore)
	return logAction(tx, action, 0, admin.MaintenanceSubject, admin.MaintenanceState(before, false), admin.RestoredState(now, restore))
}

// MarkRestored records a restore without its staff action, unless one is open: it switches
// maintenance mode on, interrupts running bulk renewals, ends every login session, because
// those that were signed out since would come back, and moves the mark above a value.
func MarkRestored(tx Tx, actor string, r admin.Restore, above int64) (before, now admin.Maintenance, err error) {
	if err := tx.Dialect().LockMaintenance(tx); err != nil {
		return before, now, fmt.Errorf("lock the maintenance mode: %w", err)
	}
	if before, err = readMaintenance(tx); err != nil {
		return before, now, err
	}
	open, err := readOpenRestore(tx)
	if err != nil {
		return before, now, err
	}
	if open.Open {
		r.How = open.How // the older one covers this one, too
	} else if _, err := tx.Exec(`INSERT INTO store_restores (found_at, since, how) VALUES ($1, $2, $3)`,
		r.FoundAt.UnixMilli(), Millis(r.Since), r.How); err != nil {
		return before, now, fmt.Errorf("record the restore: %w", err)
	}
	now = admin.Maintenance{On: true, Since: r.FoundAt, Actor: actor, Reason: admin.RestoreReason(r)}
	if err := switchOn(tx, before, &now, r.FoundAt); err != nil {
		return before, now, err
	}
	if _, err := tx.Exec(`DELETE FROM login_sessions`); err != nil {
		return before, now, fmt.Errorf("end the login sessions: %w", err)
	}
	if _, err := tx.Exec(`UPDATE store_mark SET value = greatest(value, $1) + $2 WHERE one = 1`, above, int64(admin.RestoreLeap)); err != nil {
		return before, now, fmt.Errorf("mark the store: %w", err)
	}
	return before, now, nil
}

// closeRestore ends the open restore, if there is one. It has to be accepted, or compared
// with the provider.
func closeRestore(tx Tx, action admin.StaffAction, accepted, compared bool) error {
	restore, err := readOpenRestore(tx)
	if err != nil || !restore.Open {
		return err
	}
	outcome := "compared"
	switch {
	case compared:
	case accepted:
		outcome = "accepted"
	default:
		return admin.ErrRestored
	}
	_, err = tx.Exec(`UPDATE store_restores SET outcome = $1, ended_at = $2, ended_by = $3, end_reason = $4 WHERE outcome = ''`,
		outcome, action.At.UnixMilli(), action.Actor, action.Reason)
	if err != nil {
		return fmt.Errorf("end the restore: %w", err)
	}
	return nil
}

// interruptBulkJobs interrupts the running bulk renewals.
func interruptBulkJobs(tx Tx, at int64) error {
	_, err := tx.Exec(`
		UPDATE bulk_jobs SET interrupted = $2, interrupted_at = $1
		 WHERE due_at >= 0 AND state = 'running' AND cancelled_at IS NULL AND interrupted = ''`, at, bulk.ByMaintenance)
	if err != nil {
		return fmt.Errorf("interrupt the bulk renewals: %w", err)
	}
	return nil
}
