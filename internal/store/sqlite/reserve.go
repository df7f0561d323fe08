package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// Reserve commits a draft. Everything that the draft depends on is checked in the same
// transaction: the unique idempotency key, the subscriber's version, that no other
// operation is open, the plan's version, the balance. If a check fails, nothing is
// written.
func (db *DB) Reserve(ctx context.Context, d operation.Draft) (operation.Operation, error) {
	if err := db.checkSpace(); err != nil {
		return operation.Operation{}, err
	}
	op := d.Operation
	err := db.writer.do(ctx, func(tx *tx) error {
		op = d.Operation
		if err := guardPlan(tx, d); err != nil {
			return err
		}
		if err := claimSubscriber(tx, d); err != nil {
			return err
		}
		seq, after, err := debit(tx, &op)
		if err != nil {
			return err
		}
		if err := insertOperation(tx, op); err != nil {
			return err
		}
		if err := writeReservation(tx, op, seq, after); err != nil {
			return err
		}
		return failpoint.Hit("R.in")
	})
	if err != nil {
		return operation.Operation{}, err
	}
	return op, nil
}

var selectSellable = newKeyStatements(4, func(adopted string) string {
	return `
		SELECT 1 FROM plans WHERE id = ?2 AND version = ?3 AND retired = 0
		   AND NOT EXISTS (SELECT 1 FROM maintenance WHERE one = 1) AND NOT EXISTS (SELECT 1 FROM ` + adopted + `)`
})

// guardPlan checks that the plan is still the version that the draft was priced from, that
// maintenance mode is off, and that no operation was adopted under the draft's key.
func guardPlan(tx *tx, d operation.Draft) error {
	var one int
	args := append(make([]any, 0, 8), d.OperatorID, d.PlanID, d.PlanVersion)
	for _, key := range d.AdoptedKeys {
		args = append(args, key)
	}
	err := tx.QueryRow(selectSellable.with(len(d.AdoptedKeys)), args...).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return operation.ErrStale
	}
	if err != nil {
		return fmt.Errorf("guard the plan: %w", err)
	}
	return nil
}

// claimSubscriber inserts a new subscriber, whose mobile number and id must be free, or
// checks that an existing one has not changed since the draft was made. That no other
// operation is open is checked by the unique index of operations.
func claimSubscriber(tx *tx, d operation.Draft) error {
	if d.Kind == operation.Activate {
		_, err := tx.Exec(`
			INSERT INTO subscribers (id, operator_id, mobile, name, email, address, connection_type, created_at, area, box_number, notes)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)`,
			d.SubscriberID, d.OperatorID, d.Mobile, d.CustomerName, d.Profile.Email, d.Profile.Address, d.Profile.ConnectionType, d.CreatedAt.UnixMilli(),
			d.Profile.Area, d.Profile.BoxNumber, d.Profile.Notes)
		if violates(err) {
			return operation.ErrStale
		}
		if err != nil {
			return fmt.Errorf("add the subscriber: %w", err)
		}
		return nil
	}
	// There is one writer, so reading is enough: a draft made at the same time fails on
	// the open operation, or, once that has ended, on the version. An UPDATE here would
	// change one more page for each renewal.
	var one int
	err := tx.QueryRow(`SELECT 1 FROM subscribers WHERE id = ?1 AND operator_id = ?2 AND version = ?3`,
		d.SubscriberID, d.OperatorID, d.SubscriberVersion).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return operation.ErrStale
	}
	if err != nil {
		return fmt.Errorf("claim the subscriber: %w", err)
	}
	return nil
}

// debit takes the price from the wallet. The balance is checked by the UPDATE, because
// two requests may have read the same balance before. The commission rate is the
// operator's at this moment.
func debit(tx *tx, op *operation.Operation) (seq, after int64, err error) {
	debited, err := tx.Exec(`
		UPDATE wallets SET balance_paise = balance_paise - ?2, entries = entries + 1
		 WHERE operator_id = ?1 AND balance_paise >= ?2`, op.OperatorID, op.Amount.Paise())
	if err == nil && debited == 0 {
		return 0, 0, operation.ErrStale
	}
	if err == nil {
		err = tx.QueryRow(`
			SELECT balance_paise, entries, (SELECT commission_bps FROM operators WHERE id = ?1)
			  FROM wallets WHERE operator_id = ?1`, op.OperatorID).Scan(&after, &seq, &op.CommissionBPS)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("debit the wallet: %w", err)
	}
	op.WalletBefore = money.Paise(after).Add(op.Amount)
	return seq, after, nil
}

func insertOperation(tx *tx, op operation.Operation) error {
	_, err := tx.Exec(`
		INSERT INTO operations (id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
		       subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main, addon,
		       amount_paise, commission_bps, wallet_before_paise, expiry_previous, expiry_planned, cycle_starts_at,
		       status, epoch, node, lease_until, addon_status, provider, created_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
		       ?18, ?19, ?20, ?21, ?22, ?23, 'processing', ?24, ?25, ?26, ?27, ?28, ?29)`,
		op.ID, op.OperatorID, op.IdempotencyKey, op.Fingerprint.Sum, op.Fingerprint.KeyID, op.Kind, op.Channel, op.Actor,
		op.SubscriberID, op.CustomerName, op.Mobile, op.PlanID, op.PlanVersion, op.PlanName, op.PlanMonths, op.Main, sqlstore.NullString(op.Addon),
		op.Amount.Paise(), op.CommissionBPS, op.WalletBefore.Paise(), sqlstore.Millis(op.ExpiryPrevious), op.ExpiryPlanned.UnixMilli(), op.CycleStartsAt.UnixMilli(),
		op.Epoch, op.Node, sqlstore.Millis(op.LeaseUntil), sqlstore.NullString(string(op.AddonState)), op.Provider, op.CreatedAt.UnixMilli())
	if violates(err) {
		return operation.ErrStale // the key is taken, or another operation is open
	}
	if err != nil {
		return fmt.Errorf("record the operation: %w", err)
	}
	return nil
}

func writeReservation(tx *tx, op operation.Operation, seq, after int64) error {
	_, err := tx.Exec(`
		INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, actor, created_at)
		VALUES (?1, ?2, 'reserve', ?3, ?4, ?5, ?6, ?7)`,
		op.OperatorID, seq, -op.Amount.Paise(), after, op.ID, op.Actor, op.CreatedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("write the wallet entry: %w", err)
	}
	_, err = tx.Exec(`
		INSERT INTO operation_events (operation_id, seq, to_status, epoch, node, actor, reason, at)
		VALUES (?1, 1, ?2, ?3, ?4, ?5, 'reserved', ?6)`,
		op.ID, operation.Processing, op.Epoch, op.Node, op.Actor, op.CreatedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("write the operation's first event: %w", err)
	}
	return nil
}

func writeEvent(tx *tx, id string, from, to operation.State, epoch int64, node, actor, why string, at int64) error {
	_, err := tx.Exec(`
		INSERT INTO operation_events (operation_id, seq, from_status, to_status, epoch, node, actor, reason, at)
		VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM operation_events WHERE operation_id = ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8)`,
		id, sqlstore.NullString(string(from)), to, epoch, node, actor, why, at)
	if err != nil {
		return fmt.Errorf("write the operation's event: %w", err)
	}
	return nil
}
