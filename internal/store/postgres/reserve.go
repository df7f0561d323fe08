package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

// Reserve makes a draft true as a whole, in one round trip. Each thing it rests on
// is a guard of its own: the unique key, the subscriber's version, the one open
// operation, the plan's version, the balance. Where one does not hold, the server
// undoes the whole.
//
// Rows are locked in the order that every fact keeps: plan, subscriber, wallet.
func (db *DB) Reserve(ctx context.Context, d operation.Draft) (operation.Operation, error) {
	op := d.Operation
	err := db.pipelined(ctx, func(p *pipe) error {
		op = d.Operation
		batch := &pgx.Batch{}
		guardPlan(batch, d)
		claimCustomer(batch, d)
		record(batch, d, &op)
		return p.commitAt(batch, func() error { return failpoint.Hit("R.in") })
	})
	if moved(err) {
		return operation.Operation{}, operation.ErrMoved
	}
	if err != nil {
		return operation.Operation{}, fmt.Errorf("reserve: %w", err)
	}
	return op, nil
}

// guardPlan holds if the plan is still the one the draft was priced from, and
// keeps it so until the commit.
func guardPlan(batch *pgx.Batch, d operation.Draft) {
	batch.Queue(guarded(`SELECT FROM plans WHERE id = $1 AND version = $2 AND retired = 0 FOR SHARE`), d.PlanID, d.PlanVersion)
}

// claimCustomer writes the new subscriber, whose number and id must be free, or
// takes the known one, who must be as the draft saw them. That no other
// operation is open is the operation's own unique index.
func claimCustomer(batch *pgx.Batch, d operation.Draft) {
	if d.Kind == operation.Activate {
		batch.Queue(`
			INSERT INTO subscribers (id, operator_id, mobile, name, email, address, connection_type, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			d.SubscriberID, d.OperatorID, d.Mobile, d.CustomerName, d.Profile.Email, d.Profile.Address, d.Profile.ConnectionType, d.CreatedAt.UnixMilli())
		return
	}
	batch.Queue(`
		WITH claimed AS (
		     UPDATE subscribers SET version = version + 1
		      WHERE id = $1 AND operator_id = $2 AND version = $3
		     RETURNING id)
		`+guarded(`SELECT FROM claimed`), d.SubscriberID, d.OperatorID, d.SubscriberVersion)
}

// record takes the price from the wallet and writes what follows from it: the
// operation, the entry, the event. The balance is checked in the WHERE clause, not
// read first: two requests that both saw enough money must not both spend it. The
// rate of the commission is the operator's at this moment.
func record(batch *pgx.Batch, d operation.Draft, op *operation.Operation) {
	batch.Queue(`
		WITH debited AS (
		     UPDATE wallets w SET balance_paise = w.balance_paise - $18, entries = w.entries + 1
		       FROM operators o
		      WHERE w.operator_id = $2 AND w.balance_paise >= $18 AND o.id = w.operator_id
		     RETURNING w.balance_paise, w.entries, o.commission_bps),
		recorded AS (
		     INSERT INTO operations (id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
		            subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main, addon,
		            amount_paise, commission_bps, wallet_before_paise, expiry_previous, expiry_planned, cycle_starts_at,
		            status, epoch, node, lease_until, addon_status, provider, created_at)
		     SELECT $1::text, $2, $3::text, $4::bytea, $5::bigint, $6::text, $7::text, $8::text,
		            $9::text, $10::text, $11::text, $12::text, $13::bigint, $14::text, $15::bigint, $16::text, $17::text,
		            $18, commission_bps, balance_paise + $18, $19::bigint, $20::bigint, $21::bigint,
		            'processing', $22::bigint, $23::text, $24::bigint, $25::text, $26::text, $27::bigint
		       FROM debited),
		entered AS (
		     INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, actor, created_at)
		     SELECT $2, entries, 'reserve', -$18, balance_paise, $1::text, $8::text, $27::bigint FROM debited),
		happened AS (
		     INSERT INTO operation_events (operation_id, seq, to_status, epoch, node, actor, reason, at)
		     SELECT $1::text, 1, 'processing', $22::bigint, $23::text, $8::text, 'reserved', $27::bigint FROM debited)
		SELECT max(balance_paise), max(commission_bps), 1 / count(*) FROM debited`,
		d.ID, d.OperatorID, d.IdempotencyKey, d.Fingerprint.Sum, int64(d.Fingerprint.KeyID), d.Kind, d.Channel, d.Actor,
		d.SubscriberID, d.CustomerName, d.Mobile, d.PlanID, d.PlanVersion, d.PlanName, d.PlanMonths, d.Main, textOrNull(d.Addon),
		d.Amount.Paise(), millis(d.ExpiryPrevious), d.ExpiryPlanned.UnixMilli(), d.CycleStartsAt.UnixMilli(),
		d.Epoch, d.Node, millis(d.LeaseUntil), textOrNull(string(d.AddonState)), d.Provider, d.CreatedAt.UnixMilli(),
	).QueryRow(func(row pgx.Row) error {
		var after, there int64
		if err := row.Scan(&after, &op.CommissionBPS, &there); err != nil {
			return err
		}
		op.WalletBefore = money.Paise(after).Add(d.Amount)
		return nil
	})
}

// event queues one more move of an operation. Its row is locked by whoever moves
// it, so that the numbers have no gap and no twin.
func event(batch *pgx.Batch, id string, from, to operation.State, epoch int64, node, actor, why string, at int64) {
	batch.Queue(`
		INSERT INTO operation_events (operation_id, seq, from_status, to_status, epoch, node, actor, reason, at)
		SELECT $1, coalesce(max(seq), 0) + 1, $2::text, $3::text, $4::bigint, $5::text, $6::text, $7::text, $8::bigint
		  FROM operation_events WHERE operation_id = $1`,
		id, textOrNull(string(from)), to, epoch, node, actor, why, at)
}

func textOrNull(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }
