package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

// guardOwner refuses an action of an operator's owner unless the operator is active. The
// operator is locked, which serializes the actions of its owners.
func guardOwner(tx Tx, action admin.StaffAction) error {
	if action.OperatorScope == 0 {
		return nil
	}
	operator, err := undeletedOperator(tx, action.OperatorScope)
	if err == nil && operator.Status != subscription.OperatorActive {
		err = admin.RefuseSuspended(action.OperatorScope)
	}
	return err
}

// refuseLastOwner refuses to remove an owner if the operator has no other one who can sign
// in.
func refuseLastOwner(tx Tx, owner login.Account) error {
	var others int
	err := tx.QueryRow(`
		SELECT count(*) FROM logins WHERE operator_id = $1 AND id <> $2 AND role = $3 AND disabled = 0`,
		owner.OperatorID, owner.ID, login.Owner).Scan(&others)
	if err != nil {
		return fmt.Errorf("count the owners of operator %d: %w", owner.OperatorID, err)
	}
	if others == 0 {
		return admin.RefuseLastOwner(owner.Username)
	}
	return nil
}

// interruptSuspended interrupts the running bulk renewal of an operator that is not
// active, until its own people continue it.
func interruptSuspended(tx Tx, operatorID int64, at time.Time) error {
	_, err := tx.Exec(`
		UPDATE bulk_jobs SET interrupted = $3, interrupted_at = $2
		 WHERE operator_id = $1 AND state = 'running' AND cancelled_at IS NULL AND interrupted = ''`,
		operatorID, at.UnixMilli(), bulk.BySuspension)
	if err != nil {
		return fmt.Errorf("interrupt the bulk renewals of operator %d: %w", operatorID, err)
	}
	return nil
}

// refuseSuspended refuses unless the operator is active, and prevents a change of its
// status until the commit.
func refuseSuspended(tx Tx, operatorID int64) error {
	var status subscription.OperatorStatus
	err := tx.QueryRow(`SELECT status FROM operators WHERE id = $1 FOR SHARE`, operatorID).Scan(&status)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil // it has no jobs either
	case err != nil:
		return fmt.Errorf("read the status of operator %d: %w", operatorID, err)
	case status != subscription.OperatorActive:
		return bulk.ErrSuspended
	}
	return nil
}

// InterruptSuspendedBulkJobs interrupts the running job of an operator that is not
// active; false if the operator is active.
func (db *Store) InterruptSuspendedBulkJobs(ctx context.Context, operatorID int64, now time.Time) (suspended bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		err := refuseSuspended(tx, operatorID)
		if suspended = errors.Is(err, bulk.ErrSuspended); suspended {
			return interruptSuspended(tx, operatorID, now)
		}
		return err
	})
	return suspended && err == nil, err
}
