package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/telemetry"
)

// OpenSecurity opens the security log: log.security_file if it is set, else the
// ordinary log.
func OpenSecurity(config Config, log *slog.Logger, metrics *telemetry.Metrics) (*telemetry.Security, error) {
	path := config.Log.SecurityFile
	if path == "" {
		return telemetry.NewSecurity(log, metrics, nil)
	}
	security, err := telemetry.NewSecurity(log, metrics, func() (*os.File, error) { return appendTo(path) })
	if err != nil {
		return nil, fmt.Errorf("log.security_file: %w", err)
	}
	return security, nil
}

// appendTo opens a file for appending, and creates it with mode 0600 if it is missing. A
// regular file is opened for reading too, to see whether its last line is whole. A FIFO is
// not: with our own reading end open, writes would block once its reader is gone.
func appendTo(path string) (*os.File, error) {
	made, err := fileowner.OpenFile(path, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := made.Stat()
	if err := errors.Join(err, made.Close()); err != nil {
		return nil, err
	}
	flags := os.O_WRONLY | os.O_APPEND
	if info.Mode().IsRegular() {
		flags = os.O_RDWR | os.O_APPEND
	}
	return os.OpenFile(path, flags, 0)
}

// auditEntriesTo returns a function that writes audit entries (staff actions, and changes
// people make to their own logins) to the security log; nil without one.
func auditEntriesTo(security *telemetry.Security) func(context.Context, admin.AuditEntry) {
	if security == nil {
		return nil
	}
	return func(ctx context.Context, entry admin.AuditEntry) {
		for _, e := range securityEvents(entry) {
			e.Visitor = telemetry.VisitorOf(ctx)
			e.Actor, e.Outcome, e.Action = entry.Actor, telemetry.SecurityDone, entry.Action
			if entry.OperatorID != 0 {
				e.OperatorID = entry.OperatorID
			}
			if at, err := netip.ParseAddr(entry.Origin); err == nil && !e.Address.IsValid() {
				e.Address = at
			}
			security.Log(e)
		}
	}
}

// actionEvents are the events of actions that have exactly one event.
var actionEvents = map[string]string{
	string(admin.OperatorCreate): "operator_created", string(admin.OperatorDelete): "operator_deleted", string(admin.OperatorUndelete): "operator_undeleted",
	string(admin.WalletTopUp): "wallet_topped_up", string(admin.WalletAdjust): "wallet_adjusted",
	admin.PaymentAnnounce: "payment_announced", admin.PaymentWithdraw: "payment_withdrawn", string(admin.PaymentReject): "payment_rejected",
	string(admin.StatementImport): "bank_statement_uploaded",
	string(admin.KeyIssue):        "key_issued", string(admin.KeyRotate): "key_rotated", string(admin.KeyRevoke): "key_revoked", string(admin.KeyPermit): "key_permissions_changed",
	string(admin.WhitelistAdd): "whitelist_added", string(admin.WhitelistRemove): "whitelist_removed",
	string(admin.ProposalMake): "proposal_made", string(admin.ProposalApprove): "proposal_approved",
	string(admin.ProposalDecline): "proposal_declined", string(admin.ProposalWithdraw): "proposal_withdrawn",
	string(admin.LoginCreate): "login_created", string(admin.LoginResetPassword): "password_reset", string(admin.LoginResetTOTP): "second_factor_reset",
	string(admin.PlanSet): "plan_changed", string(admin.PlanRetire): "plan_retired",
	string(admin.ReviewSettle): "review_settled", string(admin.OperationAdopt): "operation_adopted", string(admin.CommissionClose): "commission_closed",
	string(admin.OperationReverse): "reversal_requested", admin.OperationReversed: "operation_reversed", string(admin.ReversalSettle): "reversal_settled",
	string(admin.MaintenanceOn): "maintenance_on", string(admin.MaintenanceOff): "maintenance_off",
	string(admin.MasterKeyAdd): "master_key_added", string(admin.MasterKeyRotate): "master_key_rotated", string(admin.MasterKeyRetire): "master_key_retired",
	"password change": "password_changed", "totp set": "second_factor_set_up", "totp remove": "second_factor_removed",
	"passkey add": "passkey_added", "passkey remove": "passkey_removed", "recovery codes replace": "recovery_codes_replaced",
}

// customerEvents are the events of actions whose subject may be a customer, which the
// security log does not name.
var customerEvents = map[string]string{
	string(admin.SubscriberImport): "subscribers_imported", string(admin.SubscriberForget): "subscriber_forgotten", admin.CustomerPasswordReset: "app_password_reset",
	admin.CustomerContactChange: "contact_changed",
}

// genericActions have the event staff_action, by choice: they move no money and change
// no access.
var genericActions = []string{string(admin.ExceptionClose), string(admin.AddonClose), admin.CustomerPasswordAnswered}

// shownChanges are the fields of a state whose change an event shows.
var shownChanges = []string{
	"status", "api", "rate_limit", "commission_bps", "second_factor_required", "role", "disabled", "totp", "passkeys", "permissions", "expires_at",
	"kind", "amount", "maker", "wallet_balance", "price", "duration", "retired",
}

// securityEvents returns the events of an audit entry. They leave out the reason, which is
// free text, and the subject of an action without an event of its own: it may be a customer.
func securityEvents(entry admin.AuditEntry) []telemetry.SecurityEvent {
	before, after := stateOf(entry.Before), stateOf(entry.After)
	e := telemetry.SecurityEvent{Subject: entry.Subject}
	var changes []any
	for _, field := range shownChanges {
		was, is := before[field], after[field]
		if string(was) == string(is) {
			continue
		}
		changes = append(changes, slog.Group(field, slog.String("from", textOf(was)), slog.String("to", textOf(is))))
	}
	if changes != nil {
		e.Details = []slog.Attr{slog.Group("change", changes...)}
	}
	changed := func(field string) bool { return string(before[field]) != string(after[field]) }
	if name, known := customerEvents[entry.Action]; known {
		return []telemetry.SecurityEvent{{Event: name}}
	}
	if name, known := actionEvents[entry.Action]; known {
		e.Event = name
		if _, restored := after["restored_at"]; restored {
			e.Event = "store_restored"
		}
		return []telemetry.SecurityEvent{e}
	}
	var events []telemetry.SecurityEvent
	add := func(name string) {
		one := e
		one.Event = name
		events = append(events, one)
	}
	switch entry.Action {
	case string(admin.OperatorSet):
		switch {
		case changed("status") && textOf(after["status"]) == "active":
			add("operator_reactivated")
		case changed("status"):
			add("operator_suspended")
		}
		if changed("api") {
			add("operator_api_changed")
		}
		if changed("second_factor_required") {
			add("operator_second_factor_changed")
		}
		if len(events) == 0 {
			add("operator_changed")
		}
	case string(admin.LoginSet):
		if changed("role") {
			add("login_role_changed")
		}
		switch {
		case changed("disabled") && textOf(after["disabled"]) == "true":
			add("login_disabled")
		case changed("disabled"):
			add("login_enabled")
		}
		if len(events) == 0 {
			add("login_changed")
		}
	default:
		events = []telemetry.SecurityEvent{{Event: "staff_action"}}
	}
	return events
}

// stateOf parses a state of the audit log; a list, such as a whitelist, has no fields.
func stateOf(state string) map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(state), &fields)
	return fields
}

// textOf returns a field of a state without quotes.
func textOf(field json.RawMessage) string {
	var s string
	if json.Unmarshal(field, &s) == nil {
		return s
	}
	return string(field)
}

// loginEvents are the events of the login service.
var loginEvents = map[login.EventKind]string{
	login.SignedIn: "signed_in", login.PasswordAccepted: "sign_in_password_accepted", login.SignInFailed: "sign_in_failed",
	login.SignedOut: "signed_out", login.SessionEnded: "session_ended", login.SteppedUp: "step_up_passed", login.StepUpFailed: "step_up_failed",
	login.PasswordChangeFailed: "password_change_failed", login.TOTPConfirmFailed: "second_factor_set_up_failed", login.RecoveryCodeSpent: "recovery_code_used",
	login.FactorChangeFailed: "second_factor_change_failed", login.PasskeyWentBack: "passkey_counter_went_back",
}

// loginsTo returns a function that writes sign-ins and failures to the security log.
func loginsTo(security *telemetry.Security) func(context.Context, login.Event) {
	return func(ctx context.Context, seen login.Event) {
		visitor := telemetry.VisitorOf(ctx)
		e := telemetry.SecurityEvent{Event: loginEvents[seen.Kind], Outcome: telemetry.SecurityDone, Reason: seen.Reason, Factor: seen.Factor, Visitor: visitor}
		if seen.Reason != "" {
			e.Outcome = telemetry.SecurityRefused
		}
		p := seen.Person
		if seen.Kind == login.SessionEnded {
			e.Subject = "session " + seen.SessionID // ended in the visitor's own
		} else {
			e.Username, e.Realm, e.Role, e.LoginID, e.OperatorID, e.SessionID = p.Username, string(p.Realm), string(p.Role), p.ID, p.OperatorID, seen.SessionID
			e.Actor = ""
			if p.ID != 0 {
				e.Actor = "web:" + p.Username
			}
		}
		if !e.Address.IsValid() {
			e.Address = seen.Address
		}
		if e.Agent == "" {
			e.Agent = seen.Agent
		}
		if seen.Kind == login.RecoveryCodeSpent {
			e.Details = []slog.Attr{slog.Int("codes_left", seen.CodesLeft)}
		}
		security.Log(e)
	}
}

// throttlingTo returns a function that writes throttled addresses to the security log, with
// the known keys that the failed requests named. A named key does not identify the caller.
func throttlingTo(security *telemetry.Security) func(netip.Addr, access.FailingAddress) {
	return func(addr netip.Addr, failing access.FailingAddress) {
		failures := make([]map[string]any, 0, len(failing.Keys))
		for _, key := range failing.Keys {
			one := map[string]any{"failures": key.Failures, "code": string(key.Code)}
			if key.CredentialID != 0 {
				one["operator"], one["key"] = key.OperatorID, key.Hint
			}
			failures = append(failures, one)
		}
		security.Log(telemetry.SecurityEvent{
			Event: "api_throttled", Outcome: telemetry.SecurityRefused, Reason: "TOO_MANY_FAILED_ATTEMPTS", Visitor: telemetry.Visitor{Address: addr},
			Details: []slog.Attr{slog.String("network", failing.String()), slog.Any("by_key", failures)},
		})
	}
}
