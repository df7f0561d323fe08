package admin

import (
	"errors"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

func ptr[T any](value T) *T { return &value }

func TestOperatorChange_Widens(t *testing.T) {
	open := subscription.Operator{Status: subscription.OperatorActive, API: subscription.APIEnabled, RateLimit: 60, CommissionBPS: 250}
	closed := subscription.Operator{Status: subscription.OperatorInactive, API: subscription.APIDisabled, RateLimit: 60, CommissionBPS: 250}
	blocked, strict := closed, open
	strict.SecondFactorRequired = true
	blocked.API = subscription.APIBlocked
	for _, tt := range []struct {
		name   string
		before subscription.Operator
		change OperatorChange
		want   bool
	}{
		{"nothing", open, OperatorChange{}, false},
		{"suspend", open, OperatorChange{Status: ptr(subscription.OperatorInactive)}, false},
		{"reactivate", closed, OperatorChange{Status: ptr(subscription.OperatorActive)}, true},
		{"active stays active", open, OperatorChange{Status: ptr(subscription.OperatorActive)}, false},
		{"disable the API", open, OperatorChange{API: ptr(subscription.APIDisabled)}, false},
		{"block the API", open, OperatorChange{API: ptr(subscription.APIBlocked)}, false},
		{"enable the API", closed, OperatorChange{API: ptr(subscription.APIEnabled)}, true},
		{"enable a blocked API", blocked, OperatorChange{API: ptr(subscription.APIEnabled)}, true},
		{"blocked to disabled still refuses every call", blocked, OperatorChange{API: ptr(subscription.APIDisabled)}, false},
		{"lower the limit", open, OperatorChange{RateLimit: ptr(59)}, false},
		{"the same limit", open, OperatorChange{RateLimit: ptr(60)}, false},
		{"raise the limit", open, OperatorChange{RateLimit: ptr(61)}, true},
		{"require a second factor", open, OperatorChange{SecondFactorRequired: ptr(true)}, false},
		{"require none any more", strict, OperatorChange{SecondFactorRequired: ptr(false)}, true},
		{"raise the commission", open, OperatorChange{CommissionBPS: ptr(251)}, true},
		{"lower the commission", open, OperatorChange{CommissionBPS: ptr(0)}, true},
		{"the same commission", open, OperatorChange{CommissionBPS: ptr(250)}, false},
		{"low-balance threshold", open, OperatorChange{LowBalance: ptr(money.Paise(1))}, false},
		{"suspend and raise the limit", open, OperatorChange{Status: ptr(subscription.OperatorInactive), RateLimit: ptr(1000)}, true},
	} {
		if got := tt.change.Widens(tt.before); got != tt.want {
			t.Errorf("%s: %v; want %v", tt.name, got, tt.want)
		}
	}
}

func TestLoginChange_Widens(t *testing.T) {
	on := login.Person{Realm: login.Staff, Role: login.Support, Name: "Asha"}
	off := on
	off.Disabled = true
	for _, tt := range []struct {
		name   string
		before login.Person
		change LoginChange
		want   bool
	}{
		{"nothing", on, LoginChange{}, false},
		{"disable", on, LoginChange{Disabled: ptr(true)}, false},
		{"enable", off, LoginChange{Disabled: ptr(false)}, true},
		{"enabled stays enabled", on, LoginChange{Disabled: ptr(false)}, false},
		{"disabled stays disabled", off, LoginChange{Disabled: ptr(true)}, false},
		{"a greater role", on, LoginChange{Role: ptr(login.Administrator)}, true},
		{"another role", on, LoginChange{Role: ptr(login.Viewer)}, true},
		{"the same role", on, LoginChange{Role: ptr(login.Support)}, false},
		{"a name", on, LoginChange{Name: ptr("Asha Rao")}, false},
		{"disable with a greater role", on, LoginChange{Disabled: ptr(true), Role: ptr(login.Administrator)}, true},
	} {
		if got := tt.change.Widens(tt.before); got != tt.want {
			t.Errorf("%s: %v; want %v", tt.name, got, tt.want)
		}
	}
}

func TestPermissionsWiden(t *testing.T) {
	two := access.PermissionsOf(access.Renew, access.CheckBalance)
	for _, tt := range []struct {
		name          string
		before, after access.Permissions
		want          bool
	}{
		{"the same", two, two, false},
		{"one less", two, access.PermissionsOf(access.Renew), false},
		{"none", two, 0, false},
		{"one more", two, two | access.PermissionsOf(access.Activate), true},
		{"one for another", two, access.PermissionsOf(access.Renew, access.Activate), true},
		{"the first", 0, access.PermissionsOf(access.GetPlans), true},
	} {
		if got := PermissionsWiden(tt.before, tt.after); got != tt.want {
			t.Errorf("%s: %v; want %v", tt.name, got, tt.want)
		}
	}
}

// The list is repeated here, so that a new exception is visible in review.
func TestStepUpFor_EveryActionUnlessListed(t *testing.T) {
	listed := map[Action]StepUp{
		OperatorSet: StepUpIfWidening, LoginSet: StepUpIfWidening, KeyPermit: StepUpIfWidening,
		KeyRevoke: StepUpNever, WhitelistRemove: StepUpNever, ProposalDecline: StepUpNever, ProposalWithdraw: StepUpNever,
		ExceptionClose: StepUpNever, AddonClose: StepUpNever, MaintenanceOn: StepUpNever,
		PaymentReject: StepUpNever, StatementImport: StepUpNever,
	}
	for _, action := range Actions() {
		if got := StepUpFor(action); got != listed[action] {
			t.Errorf("%q: %d; want %d", action, got, listed[action])
		}
	}
	for action, rule := range stepUps {
		if len(rights[action]) == 0 || rule.when == StepUpAlways || rule.why == "" {
			t.Errorf("%q: %+v; want an action, a rule and a reason", action, rule)
		}
	}
	if StepUpFor("lco rename") != StepUpAlways {
		t.Error("an action that is not known needs no step-up")
	}
}

func TestStaffAction_StepUp(t *testing.T) {
	fresh := NewService(nil, nil, "web:asha", func() time.Time { return time.Time{} }).WithRole(Administrator, Limits{})
	stale := fresh.WithoutStepUp()
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"fresh, always", fresh.newAction(WhitelistAdd).Permitted(), nil},
		{"fresh, widening", fresh.newAction(OperatorSet).CheckStepUp(true), nil},
		{"stale, always", stale.newAction(WhitelistAdd).Permitted(), ErrStepUp},
		{"stale, never", stale.newAction(WhitelistRemove).Permitted(), nil},
		{"stale, depends", stale.newAction(OperatorSet).Permitted(), nil},
		{"stale, widening", stale.newAction(OperatorSet).CheckStepUp(true), ErrStepUp},
		{"stale, narrowing", stale.newAction(OperatorSet).CheckStepUp(false), nil},
		{"the service that it came from", fresh.newAction(KeyIssue).Permitted(), nil},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, tt.err, tt.want)
		}
	}
	// Without the right, the refusal comes first: a step-up would not help.
	var refusal *Refusal
	viewer := stale.WithRole(Viewer, Limits{})
	if err := viewer.newAction(OperatorSet).CheckStepUp(true); !errors.As(err, &refusal) {
		t.Errorf("a viewer's change: %v; want a refusal", err)
	}
	if err := viewer.newAction(KeyIssue).Permitted(); !errors.As(err, &refusal) {
		t.Errorf("a viewer's key: %v; want a refusal", err)
	}
}
