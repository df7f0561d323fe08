package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// BeginPasswordReset finds the mobile of an operator's own subscriber, and records who is
// about to reset the app password.
func (db *Store) BeginPasswordReset(ctx context.Context, action admin.StaffAction, reset admin.PasswordReset) (string, error) {
	var mobile string
	err := db.engine.Write(ctx, func(tx Tx) error {
		operator, err := undeletedOperator(tx, reset.OperatorID)
		if err != nil {
			return err
		}
		if reset.ByOperator {
			if err := refuseReset(tx, operator, action.At); err != nil {
				return err
			}
		}
		var expires sql.NullInt64
		err = tx.QueryRow(`SELECT mobile, expires_at FROM subscribers WHERE id = $1 AND operator_id = $2 FOR KEY SHARE`,
			reset.SubscriberID, reset.OperatorID).Scan(&mobile, &expires)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return admin.Refuse("there is no subscriber %s under this account", reset.SubscriberID)
		case err != nil:
			return fmt.Errorf("find subscriber %s: %w", reset.SubscriberID, err)
		case !expires.Valid:
			return admin.Refuse("subscriber %s has no password yet: the activation is not settled", reset.SubscriberID)
		}
		return logAction(tx, action, reset.OperatorID, reset.Subject(), nil, reset.State("asked"))
	})
	if err != nil {
		return "", err
	}
	return mobile, nil
}

// refuseReset refuses a reset by the people of an operator that is suspended, or that has
// had too many resets lately. The operator is locked: resets on other nodes wait.
func refuseReset(tx Tx, operator subscription.Operator, now time.Time) error {
	if operator.Status != subscription.OperatorActive {
		return admin.RefuseSuspended(operator.ID)
	}
	rows, err := tx.Query(`
		SELECT at FROM staff_acts
		 WHERE operator_id = $1 AND action = 'password reset' AND at > $2 AND at < $3
		 ORDER BY at DESC LIMIT $4`,
		operator.ID, now.Add(-time.Minute).UnixMilli(), now.Add(time.Minute).UnixMilli(), admin.ResetsAMinute)
	latest, err := Collect(rows, err, func(row Row) (time.Time, error) {
		var at sql.NullInt64
		err := row.Scan(&at)
		return Time(at), err
	})
	if err != nil {
		return fmt.Errorf("count the latest password resets: %w", err)
	}
	return admin.CheckResets(latest, now)
}

// EndPasswordReset records the outcome of a reset.
func (db *Store) EndPasswordReset(ctx context.Context, action admin.StaffAction, reset admin.PasswordReset, result operation.Outcome) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		return logAction(tx, action, reset.OperatorID, reset.Subject(), reset.State("asked"), reset.State(result.String()))
	})
}
