package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

// BeginPasswordReset finds the mobile of an operator's own subscriber, and writes
// down who is about to reset the app password.
func (db *DB) BeginPasswordReset(ctx context.Context, act admin.Act, reset admin.PasswordReset) (string, error) {
	var mobile string
	err := db.writer.do(ctx, func(tx *tx) error {
		if _, err := livingOperator(tx, reset.OperatorID); err != nil {
			return err
		}
		var expires sql.NullInt64
		err := tx.queryRow(`SELECT mobile, expires_at FROM subscribers WHERE id = ?1 AND operator_id = ?2`,
			reset.SubscriberID, reset.OperatorID).Scan(&mobile, &expires)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return admin.Refuse("there is no subscriber %s under this account", reset.SubscriberID)
		case err != nil:
			return fmt.Errorf("find subscriber %s: %w", reset.SubscriberID, err)
		case !expires.Valid:
			return admin.Refuse("subscriber %s has no password yet: the activation is not settled", reset.SubscriberID)
		}
		return logAct(tx, act, reset.OperatorID, reset.Subject(), nil, reset.State("asked"))
	})
	if err != nil {
		return "", err
	}
	return mobile, nil
}

// EndPasswordReset writes down what came of a reset.
func (db *DB) EndPasswordReset(ctx context.Context, act admin.Act, reset admin.PasswordReset, verdict operation.Verdict) error {
	return db.writer.do(ctx, func(tx *tx) error {
		return logAct(tx, act, reset.OperatorID, reset.Subject(), reset.State("asked"), reset.State(verdict.String()))
	})
}
