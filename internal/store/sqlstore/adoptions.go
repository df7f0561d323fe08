package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// AdoptOperation records an operation that the provider has carried out and this store has
// forgotten: it is reserved and settled in one transaction, in maintenance only. False if the
// operation is there already.
func (db *Store) AdoptOperation(ctx context.Context, action admin.StaffAction, a operation.AdoptedOperation) (op operation.Operation, adopted bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) (err error) {
		op, adopted, err = adopt(tx, action, a)
		return err
	})
	if db.engine.IsDuplicate(err) {
		// The operation, the subscriber or the subscriber's open operation was added meanwhile.
		known, found, err := OneOperation(db.engine.Lookup(ctx), `operations WHERE id = $1`, a.ID)
		if err == nil && !found {
			err = operation.ErrStale
		}
		return known, false, err
	}
	return op, adopted && err == nil, err
}

func adopt(tx Tx, action admin.StaffAction, a operation.AdoptedOperation) (op operation.Operation, adopted bool, err error) {
	if err := requireMaintenance(tx); err != nil {
		return op, false, err
	}
	if known, found, err := OneOperation(tx, `operations WHERE id = $1`, a.ID); found || err != nil {
		return known, false, err
	}
	if _, err := undeletedOperator(tx, a.OperatorID); err != nil {
		return op, false, err
	}
	if err := claimForgotten(tx, a.Draft); err != nil {
		return op, false, err
	}
	op = a.Operation
	var after, seq int64
	err = tx.QueryRow(`
		UPDATE wallets SET balance_paise = balance_paise - $2, entries = entries + 1
		 WHERE operator_id = $1 AND balance_paise >= $2
		RETURNING balance_paise, entries, (SELECT o.commission_bps FROM operators o WHERE o.id = $1)`, op.OperatorID, op.Amount.Paise()).
		Scan(&after, &seq, &op.CommissionBPS)
	if errors.Is(err, sql.ErrNoRows) {
		wallet, err := walletOf(tx, op.OperatorID)
		if err == nil {
			err = admin.Refuse("the wallet of operator %s holds %s, and %s costs %s: enter the top-ups since the backup again first, with their own references",
				admin.OperatorID(op.OperatorID), wallet.Balance, op.ID, op.Amount)
		}
		return op, false, err
	}
	if err != nil {
		return op, false, fmt.Errorf("debit the wallet: %w", err)
	}
	op.WalletBefore = money.Paise(after).Add(op.Amount)
	if err := insertAdopted(tx, op, seq, after); err != nil {
		return op, false, err
	}
	if op, err = tx.Dialect().SettleReview(tx, op, a.Settlement); err != nil {
		return op, false, err
	}
	return op, true, logAction(tx, action, op.OperatorID, "operation "+op.ID, nil, admin.AdoptionState(op))
}

// requireMaintenance refuses unless maintenance mode is on, and keeps it on until the commit.
func requireMaintenance(tx Tx) error {
	var one int
	err := tx.QueryRow(`SELECT 1 FROM maintenance WHERE one = 1 FOR SHARE`).Scan(&one)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return admin.Refuse("orders are adopted in maintenance only, so that nobody repeats them meanwhile: coax admin maintenance on --reason TEXT")
	case err != nil:
		return fmt.Errorf("read the maintenance mode: %w", err)
	}
	return nil
}

// claimForgotten adds a new subscriber, or checks that the present one has not changed.
func claimForgotten(tx Tx, d operation.Draft) error {
	if d.Kind == operation.Activate {
		_, err := tx.Exec(`
			INSERT INTO subscribers (id, operator_id, mobile, name, email, address, connection_type, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			d.SubscriberID, d.OperatorID, d.Mobile, d.CustomerName, d.Profile.Email, d.Profile.Address, d.Profile.ConnectionType, d.CreatedAt.UnixMilli())
		if err != nil {
			return fmt.Errorf("add the subscriber: %w", err)
		}
		return nil
	}
	changed, err := tx.Exec(`UPDATE subscribers SET version = version + 1 WHERE id = $1 AND operator_id = $2 AND version = $3`,
		d.SubscriberID, d.OperatorID, d.SubscriberVersion)
	if err != nil {
		return fmt.Errorf("claim the subscriber: %w", err)
	}
	if changed == 0 {
		return operation.ErrStale
	}
	return nil
}

// insertAdopted writes the reservation of an adopted operation.
func insertAdopted(tx Tx, op operation.Operation, seq, after int64) error {
	_, err := tx.Exec(`
		INSERT INTO operations (id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
		       subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main, addon,
		       amount_paise, commission_bps, wallet_before_paise, expiry_previous, expiry_planned, cycle_starts_at,
		       status, epoch, node, addon_status, provider, created_at, carried_out_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
		       $18, $19, $20, $21, $22, $23, 'processing', $24, $25, $26, $27, $28, $29)`,
		op.ID, op.OperatorID, op.IdempotencyKey, op.Fingerprint.Sum, int64(op.Fingerprint.KeyID), string(op.Kind), string(op.Channel), op.Actor,
		op.SubscriberID, op.CustomerName, op.Mobile, op.PlanID, op.PlanVersion, op.PlanName, op.PlanMonths, op.Main, NullString(op.Addon),
		op.Amount.Paise(), op.CommissionBPS, op.WalletBefore.Paise(), Millis(op.ExpiryPrevious), op.ExpiryPlanned.UnixMilli(), op.CycleStartsAt.UnixMilli(),
		op.Epoch, op.Node, NullString(string(op.AddonState)), op.Provider, op.CreatedAt.UnixMilli(), op.CarriedOutAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("record the operation: %w", err)
	}
	_, err = tx.Exec(`
		INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, actor, created_at)
		VALUES ($1, $2, 'reserve', $3, $4, $5, $6, $7)`,
		op.OperatorID, seq, -op.Amount.Paise(), after, op.ID, op.Actor, op.CreatedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("write the wallet entry: %w", err)
	}
	_, err = tx.Exec(`
		INSERT INTO operation_events (operation_id, seq, to_status, epoch, node, actor, reason, at)
		VALUES ($1, 1, 'processing', $2, $3, $4, 'adopted', $5)`, op.ID, op.Epoch, op.Node, op.Actor, op.CreatedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("write the operation's first event: %w", err)
	}
	return nil
}

// ClaimAdopted gives an adopted operation the key of a request that has come again, and its
// subscriber the name in it.
func (db *Store) ClaimAdopted(ctx context.Context, c operation.KeyClaim) (op operation.Operation, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		changed, err := tx.Exec(`
			UPDATE operations SET idempotency_key = $3, fingerprint = $4, fingerprint_key_id = $5,
			       customer_name = CASE WHEN $6::text = '' THEN customer_name ELSE $6::text END
			 WHERE id = $1 AND idempotency_key = $2 AND carried_out_at IS NOT NULL`,
			c.OperationID, c.Adopted, c.IdempotencyKey, c.Fingerprint.Sum, int64(c.Fingerprint.KeyID), c.Name)
		if err != nil {
			return fmt.Errorf("claim operation %s: %w", c.OperationID, err)
		}
		var found bool
		if op, found, err = OneOperation(tx, `operations WHERE id = $1`, c.OperationID); err == nil && !found {
			err = fmt.Errorf("there is no operation %s", c.OperationID)
		}
		if err != nil || changed == 0 || c.Name == "" {
			return err
		}
		_, err = tx.Exec(`
			UPDATE subscribers SET name = $3, email = $4, address = $5, connection_type = $6, version = version + 1 WHERE id = $1 AND name = $2`,
			op.SubscriberID, operation.ForgottenName, c.Name, c.Profile.Email, c.Profile.Address, c.Profile.ConnectionType)
		if err != nil {
			return fmt.Errorf("name subscriber %s: %w", op.SubscriberID, err)
		}
		return nil
	})
	return op, err
}

// OperationsByID reads the operations of any operator that have one of the ids.
func (db *Store) OperationsByID(ctx context.Context, ids []string) ([]operation.Operation, error) {
	rows, err := db.engine.Read(ctx).Query(`SELECT `+OperationColumns+` FROM operations WHERE id = ANY ($1::text[])`, ids)
	all, err := Collect(rows, err, ReadOperation)
	if err != nil {
		return nil, fmt.Errorf("read operations by their ids: %w", err)
	}
	return all, nil
}

// SubscriberNames reads the names of subscribers of any operator.
func (db *Store) SubscriberNames(ctx context.Context, ids []string) (map[string]string, error) {
	names := map[string]string{}
	rows, err := db.engine.Read(ctx).Query(`SELECT id, name FROM subscribers WHERE id = ANY ($1::text[])`, ids)
	_, err = Collect(rows, err, func(row Row) (id string, err error) {
		var name string
		err = row.Scan(&id, &name)
		names[id] = name
		return id, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the names of subscribers: %w", err)
	}
	return names, nil
}

// SubscribersNamed reads the subscribers of any operator with an id or a mobile number.
func (db *Store) SubscribersNamed(ctx context.Context, id, mobile string) ([]operation.Subscriber, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT s.id, s.operator_id, s.mobile, s.name, s.expires_at, s.version,
		       coalesce((SELECT o.id FROM operations o WHERE o.subscriber_id = s.id AND o.status IN ('processing', 'needs_review') LIMIT 1), s.reversing, '')
		  FROM subscribers s WHERE s.id = $1 OR s.mobile = $2 ORDER BY s.id`, id, mobile)
	all, err := Collect(rows, err, func(row Row) (s operation.Subscriber, err error) {
		var expires sql.NullInt64
		err = row.Scan(&s.ID, &s.OperatorID, &s.Mobile, &s.Name, &expires, &s.Version, &s.OpenOperation)
		s.Expires = Time(expires)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read subscriber %s: %w", id, err)
	}
	return all, nil
}

// PlanVersions reads every version of every plan, oldest first.
func (db *Store) PlanVersions(ctx context.Context) ([]subscription.Plan, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT plan_id, version, name, price_paise, months, type, main, coalesce(addon, ''), retired = 1, since
		  FROM plan_history ORDER BY plan_id, version`)
	all, err := Collect(rows, err, func(row Row) (p subscription.Plan, err error) {
		var price, since int64
		err = row.Scan(&p.ID, &p.Version, &p.Name, &price, &p.Months, &p.Type, &p.Main, &p.Addon, &p.Retired, &since)
		p.Price, p.UpdatedAt = money.Paise(price), time.UnixMilli(since).UTC()
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the plans' history: %w", err)
	}
	return all, nil
}
