package storetest

import (
	"errors"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

var stepUpTests = []test{
	{"a stale login revokes access but does not grant it", staleServiceNarrows},
}

// Every step first restricts access with a stale service, which works, and then grants
// it again, which is refused and changes neither the store nor the log. A fresh service
// does both.
func staleServiceNarrows(h *harness) {
	operator := h.operator("Asha Cable")
	key := h.key(operator)
	person := h.account(login.Account{Person: login.Person{
		Realm: login.Staff, Username: "asha", Name: "Asha", Role: login.Viewer, Language: login.English, CreatedAt: noon,
	}, PasswordHash: "hash"})
	fresh := h.consoleUser("binu", admin.Administrator)
	stale := fresh.WithoutStepUp()
	ctx := h.Context()

	set := func(change admin.OperatorChange) func(*admin.Service) error {
		return func(d *admin.Service) error { return first(d.ChangeOperator(ctx, operator.ID, change)) }
	}
	switched := func(disabled bool) func(*admin.Service) error {
		return func(d *admin.Service) error {
			return first(d.ChangeLogin(ctx, person.ID, admin.LoginChange{Disabled: &disabled}))
		}
	}
	permit := func(permissions ...access.Permission) func(*admin.Service) error {
		return func(d *admin.Service) error { return d.PermitKey(ctx, key.ID, access.PermissionsOf(permissions...)) }
	}
	active, inactive := subscription.OperatorActive, subscription.OperatorInactive
	enabled, blocked := subscription.APIEnabled, subscription.APIBlocked
	low, high, rate := 10, 11, 300
	support := login.Support
	for _, step := range []struct {
		what          string
		narrow, widen func(*admin.Service) error
	}{
		{"status", set(admin.OperatorChange{Status: &inactive}), set(admin.OperatorChange{Status: &active})},
		{"API", set(admin.OperatorChange{API: &blocked}), set(admin.OperatorChange{API: &enabled})},
		{"rate limit", set(admin.OperatorChange{RateLimit: &low}), set(admin.OperatorChange{RateLimit: &high})},
		{"commission", nil, set(admin.OperatorChange{CommissionBPS: &rate})},
		{"login", switched(true), switched(false)},
		{"role", nil, func(d *admin.Service) error {
			return first(d.ChangeLogin(ctx, person.ID, admin.LoginChange{Role: &support}))
		}},
		{"permissions", permit(access.Renew), permit(access.Renew, access.Activate)},
		{
			"whitelist",
			nil,
			func(d *admin.Service) error { return first(d.AllowAddress(ctx, operator.ID, "192.0.2.1")) },
		},
		{"key", nil, func(d *admin.Service) error { return first(d.IssueKey(ctx, operator.ID, access.AllPermissions)) }},
		{"revocation", func(d *admin.Service) error { return d.RevokeKey(ctx, key.ID) }, nil},
		{"removal", func(d *admin.Service) error { return first(d.DisallowAddress(ctx, operator.ID, "192.0.2.1")) }, nil},
	} {
		if step.narrow != nil {
			if err := step.narrow(stale); err != nil {
				h.Errorf("%s: a stale service that narrows: %v", step.what, err)
			}
		}
		if step.widen == nil {
			continue
		}
		before, logged := h.stepUpState(operator.ID, person.Username), len(h.auditEntries())
		if err := step.widen(stale); !errors.Is(err, admin.ErrStepUp) {
			h.Errorf("%s: a stale service that widens: %v; want %v", step.what, err, admin.ErrStepUp)
		}
		if after := h.stepUpState(operator.ID, person.Username); after != before || len(h.auditEntries()) != logged {
			h.Errorf("%s: a stale service changed %+v to %+v and wrote %d audit entries", step.what, before, after, len(h.auditEntries())-logged)
		}
		if err := step.widen(fresh); err != nil {
			h.Errorf("%s: a fresh service that widens: %v", step.what, err)
		}
		if after := h.stepUpState(operator.ID, person.Username); after == before {
			h.Errorf("%s: a fresh service changed nothing", step.what)
		}
	}
}

// stepUpState is what the steps of the test change.
type stepUpState struct {
	operator        subscription.Operator
	person          login.Person
	keys, addresses int
	permissions     access.Permissions
}

func (h *harness) stepUpState(operatorID int64, username string) stepUpState {
	h.Helper()
	operator, err := h.Operator(h.Context(), operatorID)
	h.must(err)
	keys, err := h.Keys(h.Context(), operatorID)
	h.must(err)
	list, err := h.Whitelist(h.Context(), operatorID)
	h.must(err)
	return stepUpState{operator, h.known(username).Person, len(keys), len(list), keys[0].Permissions}
}
