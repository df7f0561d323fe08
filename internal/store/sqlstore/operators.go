package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// OperatorColumns are those of an operator.
const OperatorColumns = `id, name, status, api, rate_limit, commission_bps, low_balance_paise, second_factor_required = 1, version, created_at, deleted_at, address, gstin`

// ReadOperator reads OperatorColumns.
func ReadOperator(row Row) (subscription.Operator, error) {
	var o subscription.Operator
	var lowBalance int64
	var created, deleted sql.NullInt64
	err := row.Scan(&o.ID, &o.Name, &o.Status, &o.API, &o.RateLimit, &o.CommissionBPS, &lowBalance, &o.SecondFactorRequired, &o.Version, &created, &deleted,
		&o.Address, &o.GSTIN)
	o.LowBalance, o.CreatedAt, o.DeletedAt = money.Paise(lowBalance), Time(created), Time(deleted)
	return o, err
}

// operatorByID returns a refusal if there is no such operator.
func operatorByID(from Querier, id int64) (subscription.Operator, error) {
	return operatorWhere(from, `id = $1`, id)
}

// operatorWhere reads the operator that a condition, a literal of this file, selects by its
// id.
func operatorWhere(from Querier, condition string, id int64) (subscription.Operator, error) {
	operator, err := ReadOperator(from.QueryRow(`SELECT `+OperatorColumns+` FROM operators WHERE `+condition, id))
	if errors.Is(err, sql.ErrNoRows) {
		return operator, admin.Refuse("there is no operator %d", id)
	}
	if err != nil {
		return operator, fmt.Errorf("read operator %d: %w", id, err)
	}
	return operator, nil
}

// lockOperator reads and locks an operator, which serializes its changes. Operations, whose
// rows only refer to it, do not wait.
func lockOperator(tx Tx, id int64) (subscription.Operator, error) {
	return operatorWhere(tx, `id = $1 FOR NO KEY UPDATE`, id)
}

// undeletedOperator locks an operator, and refuses one that was deleted.
func undeletedOperator(tx Tx, id int64) (subscription.Operator, error) {
	operator, err := lockOperator(tx, id)
	if err == nil && operator.Status == subscription.OperatorDeleted {
		err = admin.RefuseDeleted(id)
	}
	return operator, err
}

// CreateOperator opens an account and its empty wallet.
func (db *Store) CreateOperator(ctx context.Context, action admin.StaffAction, o subscription.Operator) (subscription.Operator, error) {
	err := db.engine.Write(ctx, func(tx Tx) error {
		err := tx.QueryRow(`
			INSERT INTO operators (name, status, api, rate_limit, commission_bps, low_balance_paise, created_at, second_factor_required, address, gstin)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8::boolean::int, $9, $10)
			RETURNING id, version`,
			o.Name, o.Status, o.API, o.RateLimit, o.CommissionBPS, o.LowBalance.Paise(), o.CreatedAt.UnixMilli(), o.SecondFactorRequired, o.Address, o.GSTIN,
		).Scan(&o.ID, &o.Version)
		if err != nil {
			return fmt.Errorf("add the operator: %w", err)
		}
		_, err = tx.Exec(`
			INSERT INTO wallets (operator_id, balance_paise, ledger_paise, entries, ledger_lines)
			VALUES ($1, 0, 0, 0, 0)`, o.ID)
		if err != nil {
			return fmt.Errorf("open the wallet: %w", err)
		}
		return logAction(tx, action, o.ID, fmt.Sprintf("lco %d", o.ID), nil, admin.OperatorState(o))
	})
	return o, err
}

// ChangeOperator changes an account's terms, and its version, so that nodes read it again.
func (db *Store) ChangeOperator(ctx context.Context, action admin.StaffAction, id int64, change admin.OperatorChange) (subscription.Operator, error) {
	var after subscription.Operator
	err := db.engine.Write(ctx, func(tx Tx) error {
		if err := guardOwner(tx, action); err != nil {
			return err
		}
		before, err := undeletedOperator(tx, id)
		if err != nil {
			return err
		}
		if err := action.CheckStepUp(change.Widens(before)); err != nil {
			return err
		}
		after, err = updateOperator(tx, change.Apply(before))
		if err != nil {
			return err
		}
		if after.Status != subscription.OperatorActive {
			if err := interruptSuspended(tx, id, action.At); err != nil {
				return err
			}
		}
		return logAction(tx, action, id, fmt.Sprintf("lco %d", id), admin.OperatorState(before), admin.OperatorState(after))
	})
	return after, err
}

// DeleteOperator closes an account that is not in use. The row stays, so that its
// keys are still recognised.
func (db *Store) DeleteOperator(ctx context.Context, action admin.StaffAction, id int64) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		before, err := undeletedOperator(tx, id)
		if err != nil {
			return err
		}
		if err := refuseInUse(tx, id); err != nil {
			return err
		}
		after, err := ReadOperator(tx.QueryRow(`
			UPDATE operators SET status = $2, deleted_status = status, deleted_at = $3, version = version + 1
			 WHERE id = $1
			RETURNING `+OperatorColumns, id, subscription.OperatorDeleted, action.At.UnixMilli()))
		if err != nil {
			return fmt.Errorf("delete operator %d: %w", id, err)
		}
		return logAction(tx, action, id, fmt.Sprintf("lco %d", id), admin.OperatorState(before), admin.OperatorState(after))
	})
}

// refuseInUse refuses to delete an operator that has money, an open operation or a
// running bulk job. The wallet is locked: a reservation has either debited it before, or
// waits and finds it empty.
func refuseInUse(tx Tx, id int64) error {
	var use admin.InUse
	var err error
	if use.Wallet, err = lockWallet(tx, id); err != nil {
		return err
	}
	err = tx.QueryRow(`
		SELECT (SELECT count(*) FROM operations WHERE status IN ('processing', 'needs_review') AND operator_id + 0 = $1)
		       + (SELECT count(*) FROM reversals WHERE next_at IS NOT NULL AND operator_id = $1),
		       (SELECT count(*) FROM bulk_jobs WHERE operator_id = $1 AND state = 'running')`, id).Scan(&use.Operations, &use.BulkJobs)
	if err != nil {
		return fmt.Errorf("count the open operations and jobs of operator %d: %w", id, err)
	}
	return use.Refusal()
}

// UndeleteOperator gives a deleted operator its former status back. An operator
// that an older release deleted beside this one has none recorded, and comes back
// suspended.
func (db *Store) UndeleteOperator(ctx context.Context, action admin.StaffAction, id int64) (subscription.Operator, error) {
	var after subscription.Operator
	err := db.engine.Write(ctx, func(tx Tx) error {
		before, err := lockOperator(tx, id)
		if err != nil {
			return err
		}
		if !before.Undeletable(action.At) {
			return admin.RefuseUndelete(before)
		}
		after, err = ReadOperator(tx.QueryRow(`
			UPDATE operators SET status = coalesce(deleted_status, $2), deleted_status = NULL, deleted_at = NULL, version = version + 1
			 WHERE id = $1
			RETURNING `+OperatorColumns, id, subscription.OperatorInactive))
		if err != nil {
			return fmt.Errorf("undelete operator %d: %w", id, err)
		}
		return logAction(tx, action, id, fmt.Sprintf("lco %d", id), admin.OperatorState(before), admin.OperatorState(after))
	})
	return after, err
}

func updateOperator(tx Tx, o subscription.Operator) (subscription.Operator, error) {
	updated, err := ReadOperator(tx.QueryRow(`
		UPDATE operators
		   SET status = $2, api = $3, rate_limit = $4, commission_bps = $5, low_balance_paise = $6, second_factor_required = $7::boolean::int,
		       address = $8, gstin = $9, version = version + 1
		 WHERE id = $1
		RETURNING `+OperatorColumns,
		o.ID, o.Status, o.API, o.RateLimit, o.CommissionBPS, o.LowBalance.Paise(), o.SecondFactorRequired, o.Address, o.GSTIN))
	if err != nil {
		return o, fmt.Errorf("change operator %d: %w", o.ID, err)
	}
	return updated, nil
}

// Operator reads one account.
func (db *Store) Operator(ctx context.Context, id int64) (subscription.Operator, error) {
	return operatorByID(db.engine.Read(ctx), id)
}

// Operators reads all accounts.
func (db *Store) Operators(ctx context.Context) ([]subscription.Operator, error) {
	rows, err := db.engine.Read(ctx).Query(`SELECT ` + OperatorColumns + ` FROM operators ORDER BY id`)
	return Collect(rows, err, ReadOperator)
}

// AllowAddress adds an entry to the whitelist, up to its limit.
func (db *Store) AllowAddress(ctx context.Context, action admin.StaffAction, operatorID int64, entry netip.Prefix, limit int) error {
	return db.changeWhitelist(ctx, action, operatorID, func(tx Tx, before []netip.Prefix) (changed int64, err error) {
		changed, err = tx.Exec(`
			INSERT INTO whitelist (operator_id, entry, created_at)
			SELECT $1, $2, $3 WHERE (SELECT count(*) FROM whitelist WHERE operator_id = $1) < $4
			    ON CONFLICT DO NOTHING`, operatorID, entry.String(), action.At.UnixMilli(), limit)
		if err != nil || changed > 0 {
			return changed, err
		}
		for _, there := range before {
			if there == entry {
				return 0, nil
			}
		}
		return 0, admin.Refuse("the whitelist of operator %s is full: it holds %d entries, which is the most; remove one first", admin.OperatorID(operatorID), limit)
	})
}

// DisallowAddress takes an entry off the whitelist.
func (db *Store) DisallowAddress(ctx context.Context, action admin.StaffAction, operatorID int64, entry netip.Prefix) error {
	return db.changeWhitelist(ctx, action, operatorID, func(tx Tx, _ []netip.Prefix) (int64, error) {
		changed, err := tx.Exec(`DELETE FROM whitelist WHERE operator_id = $1 AND entry = $2`, operatorID, entry.String())
		if err == nil && changed == 0 {
			err = admin.Refuse("%s is not on the whitelist of operator %s", admin.EntryText(entry), admin.OperatorID(operatorID))
		}
		return changed, err
	})
}

func (db *Store) changeWhitelist(ctx context.Context, action admin.StaffAction, operatorID int64, change func(Tx, []netip.Prefix) (int64, error)) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		if _, err := undeletedOperator(tx, operatorID); err != nil {
			return err
		}
		before, err := WhitelistOf(tx, operatorID)
		if err != nil {
			return fmt.Errorf("read the whitelist: %w", err)
		}
		changed, err := change(tx, before)
		if err != nil || changed == 0 {
			return err
		}
		// The new version tells nodes that their cached whitelist is outdated.
		if _, err := tx.Exec(`UPDATE operators SET version = version + 1 WHERE id = $1`, operatorID); err != nil {
			return fmt.Errorf("mark the operator as changed: %w", err)
		}
		after, err := WhitelistOf(tx, operatorID)
		if err != nil {
			return fmt.Errorf("read the whitelist: %w", err)
		}
		return logAction(tx, action, operatorID, fmt.Sprintf("whitelist of lco %d", operatorID), admin.WhitelistState(before), admin.WhitelistState(after))
	})
}

// Whitelist reads the addresses that an operator may call from.
func (db *Store) Whitelist(ctx context.Context, operatorID int64) ([]netip.Prefix, error) {
	if _, err := operatorByID(db.engine.Read(ctx), operatorID); err != nil {
		return nil, err
	}
	return WhitelistOf(db.engine.Read(ctx), operatorID)
}

// WhitelistOf reads the addresses that an operator may call from.
func WhitelistOf(from Querier, operatorID int64) ([]netip.Prefix, error) {
	rows, err := from.Query(`SELECT entry FROM whitelist WHERE operator_id = $1 ORDER BY created_at, entry`, operatorID)
	return Collect(rows, err, func(row Row) (netip.Prefix, error) {
		var text string
		if err := row.Scan(&text); err != nil {
			return netip.Prefix{}, err
		}
		return netip.ParsePrefix(text)
	})
}
