package access

import (
	"slices"
	"strings"
	"testing"
)

func TestPermission_NamesMatchContract(t *testing.T) {
	names := []string{
		"Activate", "Renew", "Advance Renew", "Check Balance", "Get Plans", "Check Subscription", "Check Transaction",
	}
	list := []Permission{Activate, Renew, AdvanceRenew, CheckBalance, GetPlans, CheckSubscription, CheckTransaction}
	for i, p := range list {
		if p.String() != names[i] {
			t.Errorf("permission %d = %q; want %q", p, p, names[i])
		}
		if got, err := ParsePermission(names[i]); err != nil || got != p {
			t.Errorf("ParsePermission(%q) = %v, %v; want %v", names[i], got, err, p)
		}
	}
	if got := AllPermissions.List(); !slices.Equal(got, list) {
		t.Errorf("AllPermissions lists %v; want %v", got, list)
	}
	if got, want := AllPermissions.String(), strings.Join(names, ","); got != want {
		t.Errorf("AllPermissions = %q; want %q", got, want)
	}
}

func TestPermissions_StringRoundTrip(t *testing.T) {
	for set := Permissions(0); set <= AllPermissions; set++ {
		got, err := ParsePermissionSet(set.String())
		if err != nil || got != set {
			t.Errorf("ParsePermissionSet(%q) = %v, %v; want the same set", set, got, err)
		}
		if again := PermissionsOf(set.List()...); again != set {
			t.Errorf("PermissionsOf(%v) = %v; want the same set", set.List(), again)
		}
	}
}

func TestParsePermissions_AnyOrder(t *testing.T) {
	got, err := ParsePermissions([]string{"Get Plans", "Activate", "Get Plans"})
	if err != nil || got.String() != "Activate,Get Plans" {
		t.Errorf("ParsePermissions = %q, %v; want Activate,Get Plans", got, err)
	}
}

func TestParsePermission_ErrorListsNames(t *testing.T) {
	for _, name := range []string{"", "renew", "Renew ", "AdvanceRenew", "Permission(1)", "Activate,Renew"} {
		_, err := ParsePermission(name)
		if err == nil {
			t.Errorf("ParsePermission(%q) gave no error", name)
			continue
		}
		if !strings.Contains(err.Error(), "Advance Renew, Check Balance") {
			t.Errorf("ParsePermission(%q): %v; want an error that lists the names", name, err)
		}
	}
	for _, text := range []string{",", "Activate,", "Activate, Renew", "Activate,,Renew"} {
		if set, err := ParsePermissionSet(text); err == nil {
			t.Errorf("ParsePermissionSet(%q) = %v; want an error", text, set)
		}
	}
}

func TestPermission_UnknownPrintsNumber(t *testing.T) {
	for p, want := range map[Permission]string{0: "Permission(0)", CheckTransaction + 1: "Permission(8)", 255: "Permission(255)"} {
		if got := p.String(); got != want {
			t.Errorf("permission %d is called %q; want %q", uint8(p), got, want)
		}
	}
}

func TestPermissions_NeverHaveUnknown(t *testing.T) {
	for _, p := range []Permission{0, CheckTransaction + 1, 200, 255} {
		if Permissions(255).Has(p) {
			t.Errorf("a full set has %v", p)
		}
		if set := PermissionsOf(p); set != 0 {
			t.Errorf("PermissionsOf(%v) = %v; want nothing", p, set)
		}
	}
	if got := Permissions(0).String(); got != "" {
		t.Errorf("the empty set is written %q; want nothing", got)
	}
}
