package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

// OperationColumns are read by ReadOperation.
const OperationColumns = `id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
	subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main, addon,
	amount_paise, commission_bps, wallet_before_paise, expiry_previous, expiry_planned, cycle_starts_at,
	status, epoch, node, lease_until, review_since, checks, next_check_at, needs_person = 1,
	addon_status, addon_attempt, addon_epoch, addon_checks, addon_next_at, addon_needs_person = 1,
	provider, provider_transaction_id, reason, provider_message, created_at, completed_at, carried_out_at, reversed_at`

// ReadOperation reads OperationColumns.
func ReadOperation(row Row) (operation.Operation, error) {
	var o operation.Operation
	var addon, addonState, transaction, reason sql.NullString
	var amount, before int64
	var previous, planned, starts, lease, review, check, addonNext, created, completed, carried, reversed sql.NullInt64
	err := row.Scan(&o.ID, &o.OperatorID, &o.IdempotencyKey, &o.Fingerprint.Sum, &o.Fingerprint.KeyID, &o.Kind, &o.Channel, &o.Actor,
		&o.SubscriberID, &o.CustomerName, &o.Mobile, &o.PlanID, &o.PlanVersion, &o.PlanName, &o.PlanMonths, &o.Main, &addon,
		&amount, &o.CommissionBPS, &before, &previous, &planned, &starts,
		&o.State, &o.Epoch, &o.Node, &lease, &review, &o.Checks, &check, &o.NeedsPerson,
		&addonState, &o.AddonAttempt, &o.AddonEpoch, &o.AddonChecks, &addonNext, &o.AddonNeedsPerson,
		&o.Provider, &transaction, &reason, &o.ProviderMessage, &created, &completed, &carried, &reversed)
	o.Addon, o.AddonState = addon.String, operation.AddonState(addonState.String)
	o.Amount, o.WalletBefore = money.Paise(amount), money.Paise(before)
	o.ExpiryPrevious, o.ExpiryPlanned, o.CycleStartsAt = Time(previous), Time(planned), Time(starts)
	o.LeaseUntil, o.ReviewSince, o.NextCheckAt, o.AddonNextAt = Time(lease), Time(review), Time(check), Time(addonNext)
	o.ProviderTransaction, o.Reason = transaction.String, operation.Reason(reason.String)
	o.CreatedAt, o.CompletedAt, o.CarriedOutAt, o.ReversedAt = Time(created), Time(completed), Time(carried), Time(reversed)
	return o, err
}

// OneOperation reads one operation. source, a table and a condition, must be a literal.
func OneOperation(from RowQuerier, source string, args ...any) (operation.Operation, bool, error) {
	op, err := ReadOperation(from.QueryRow(`SELECT `+OperationColumns+` FROM `+source, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return op, false, nil
	}
	if err != nil {
		return op, false, fmt.Errorf("read an operation: %w", err)
	}
	return op, true, nil
}
