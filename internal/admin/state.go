package admin

import (
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// The states below are the audit log's before and after. They have no secrets.

// OperatorState describes an operator for the audit log.
func OperatorState(o subscription.Operator) map[string]any {
	return map[string]any{
		"name": o.Name, "status": o.Status, "api": o.API, "rate_limit": o.RateLimit,
		"commission_bps": o.CommissionBPS, "low_balance": o.LowBalance, "second_factor_required": o.SecondFactorRequired,
		"address": o.Address, "gstin": o.GSTIN,
	}
}

// WalletState describes a wallet for the audit log.
func WalletState(w subscription.Wallet) map[string]any {
	return map[string]any{"wallet_balance": w.Balance, "held": w.Held}
}

// PlanState describes a plan for the audit log.
func PlanState(p subscription.Plan) map[string]any {
	return map[string]any{
		"name": p.Name, "description": p.Description, "price": p.Price, "duration": p.Months, "type": p.Type,
		"main": p.Main, "addon": p.Addon, "retired": p.Retired, "version": p.Version,
	}
}

// KeyState describes a key for the audit log, by its hint only.
func KeyState(c access.Credential) map[string]any {
	return map[string]any{
		"key": c.Hint, "permissions": names(c.Permissions), "revoked_at": moment(c.RevokedAt),
		"expires_at": moment(c.ExpiresAt), "replaced_by": c.ReplacedBy,
	}
}

// WhitelistState describes a whitelist for the audit log.
func WhitelistState(entries []netip.Prefix) []string {
	texts := make([]string, len(entries))
	for i, entry := range entries {
		texts[i] = EntryText(entry)
	}
	return texts
}

// EntryText formats a whitelist entry; a single address without its prefix length.
func EntryText(entry netip.Prefix) string {
	if entry.IsSingleIP() {
		return entry.Addr().String()
	}
	return entry.String()
}

func names(permissions access.Permissions) []string {
	list := []string{}
	for _, permission := range permissions.List() {
		list = append(list, permission.String())
	}
	return list
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(subscription.IST).Format("2006-01-02 15:04:05")
}

// AdoptionState describes an adopted operation for the audit log.
func AdoptionState(o operation.Operation) map[string]any {
	return map[string]any{
		"status": o.State, "addon_status": o.AddonState, "amount": o.Amount, "plan": o.PlanID, "subscriber": o.SubscriberID,
		"carried_out_at": moment(o.CarriedOutAt), "expiry": moment(o.ExpiryPlanned),
	}
}

// OperationState describes an operation for the audit log.
func OperationState(o operation.Operation) map[string]any {
	return map[string]any{"status": o.State, "reason": o.Reason, "addon_status": o.AddonState}
}

// LoginState describes a login for the audit log: that a password or a second factor was
// changed, never its value.
func LoginState(a login.Account) map[string]any {
	return map[string]any{
		"username": a.Username, "name": a.Name, "realm": a.Realm, "role": a.Role, "disabled": a.Disabled, "totp": a.TOTP, "passkeys": a.Passkeys,
		"must_change_password": a.MustChangePassword, "password_changed_at": moment(a.PasswordChangedAt),
	}
}

// ProposalState describes a proposal for the audit log.
func ProposalState(p Proposal) map[string]any {
	state := map[string]any{"kind": p.Kind, "amount": p.Amount, "status": p.Status, "maker": p.Maker}
	if p.Subject != "" {
		state["subject"], state["change"] = p.Subject, p.Change
	}
	switch p.Kind {
	case ProposedTopUp:
		state["reference"] = p.Reference
	case ProposedSettlement:
		state["transaction_id"], state["confirm"] = p.TransactionID, p.Confirm
	case ProposedReversal:
		state["transaction_id"] = p.TransactionID
	}
	return state
}

// PeriodState describes a closed month for the audit log.
func PeriodState(p ClosedPeriod) map[string]any {
	return map[string]any{"operations": p.Operations, "reversals": p.Reversals, "amount": p.Amount}
}
