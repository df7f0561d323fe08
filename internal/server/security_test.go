package server

import (
	"slices"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/telemetry"
)

func TestSecurityEvents_EveryActionHasAnEvent(t *testing.T) {
	actions := []string{"password change", "totp set", "totp remove", "passkey add", "passkey remove", "recovery codes replace", admin.CustomerPasswordReset, admin.CustomerPasswordAnswered}
	for _, action := range admin.Actions() {
		actions = append(actions, string(action))
	}
	for _, action := range actions {
		generic := slices.Contains(genericActions, action)
		for _, e := range securityEvents(admin.AuditEntry{StaffAction: admin.StaffAction{Action: action}, Subject: "something"}) {
			if !slices.Contains(telemetry.SecurityEvents, e.Event) {
				t.Errorf("%s has the event %s, which is not listed", action, e.Event)
			}
			if (e.Event == "staff_action") != generic {
				t.Errorf("%s has the event %s: give it one of its own, or list it in genericActions", action, e.Event)
			}
			if customer := customerEvents[action] != "" || generic; customer && e.Subject != "" {
				t.Errorf("%s has the subject %q, which may be a customer", action, e.Subject)
			}
		}
	}
}

func TestSecurityEvents_OperatorSecondFactor(t *testing.T) {
	events := securityEvents(admin.AuditEntry{
		StaffAction: admin.StaffAction{Action: string(admin.OperatorSet)}, Before: `{"second_factor_required":true,"api":"enabled"}`, After: `{"second_factor_required":false,"api":"enabled"}`,
	})
	if len(events) != 1 || events[0].Event != "operator_second_factor_changed" || len(events[0].Details) != 1 {
		t.Errorf("%+v; want that the second factor became optional", events)
	}
}
