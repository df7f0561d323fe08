package sqlstore

import (
	"context"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
)

// MovedWithoutApproval adds up the amounts that were moved without approval.
func (db *Store) MovedWithoutApproval(ctx context.Context, q admin.MovedQuery) (admin.MovedWithoutApproval, error) {
	return movedWithoutApproval(db.engine.Read(ctx), q)
}

func movedWithoutApproval(from Querier, q admin.MovedQuery) (admin.MovedWithoutApproval, error) {
	var person, operator int64
	err := from.QueryRow(`
		SELECT (SELECT coalesce(sum(amount_paise), 0)::bigint FROM staff_amounts WHERE person = ANY ($1) AND at > $3 AND at <= $4),
		       (SELECT coalesce(sum(amount_paise), 0)::bigint FROM staff_amounts WHERE operator_id = $2 AND at > $3 AND at <= $4)`,
		q.People, q.OperatorID, q.After.UnixMilli(), q.Until.UnixMilli()).Scan(&person, &operator)
	if err != nil {
		return admin.MovedWithoutApproval{}, fmt.Errorf("add up the amounts moved without approval: %w", err)
	}
	return admin.MovedWithoutApproval{ByPerson: money.Paise(person), ForOperator: money.Paise(operator)}, nil
}

// countUnapproved adds an amount that was moved without approval to the sums, and
// returns an error if they are above the actor's limit. It is called after logAction,
// whose lock on the end of the chain serializes staff actions: no other one adds to the
// sums between the check and the commit, and the last staff action is the one that moved
// the amount.
func countUnapproved(tx Tx, action admin.StaffAction, operatorID int64, amount money.Amount) error {
	if amount.IsNegative() {
		amount = amount.Neg()
	}
	if action.Limited() {
		staff, err := staffAccess(tx)
		if err != nil {
			return err
		}
		moved, err := movedWithoutApproval(tx, action.MovedBefore(staff, operatorID))
		if err != nil {
			return err
		}
		if err := action.CheckAmount(operatorID, amount, moved); err != nil {
			return err
		}
	}
	_, err := tx.Exec(`
		INSERT INTO staff_amounts (act_id, at, person, operator_id, amount_paise)
		SELECT max(id), $1::bigint, $2::text, $3::bigint, $4::bigint FROM staff_acts`, action.At.UnixMilli(), admin.Person(action.Actor), operatorID, amount.Paise())
	if err != nil {
		return fmt.Errorf("record an amount moved without approval: %w", err)
	}
	return nil
}
