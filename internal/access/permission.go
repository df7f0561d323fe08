package access

import (
	"fmt"
	"slices"
	"strings"
)

// Permission is one thing that a key may do. No key has the zero Permission, so a route that names
// none is closed.
type Permission uint8

// The permissions, in the contract's order.
const (
	Activate Permission = iota + 1
	Renew
	AdvanceRenew
	CheckBalance
	GetPlans
	CheckSubscription
	CheckTransaction
)

// permissionNames are the contract's names, as stored and as typed by people. None may contain a
// comma.
var permissionNames = [...]string{
	Activate:          "Activate",
	Renew:             "Renew",
	AdvanceRenew:      "Advance Renew",
	CheckBalance:      "Check Balance",
	GetPlans:          "Get Plans",
	CheckSubscription: "Check Subscription",
	CheckTransaction:  "Check Transaction",
}

// String returns the permission's name as the contract writes it.
func (p Permission) String() string {
	if p < Activate || p > CheckTransaction {
		return fmt.Sprintf("Permission(%d)", uint8(p))
	}
	return permissionNames[p]
}

// Permissions is a set of them. The zero value permits nothing.
type Permissions uint8

// AllPermissions is the set of all permissions.
const AllPermissions Permissions = 1<<CheckTransaction - 1

// PermissionsOf returns the set of the given permissions.
func PermissionsOf(list ...Permission) Permissions {
	var set Permissions
	for _, p := range list {
		set |= p.bit()
	}
	return set
}

// bit is a permission's bit in a set; zero for an unknown one.
func (p Permission) bit() Permissions {
	if p < Activate || p > CheckTransaction {
		return 0
	}
	return 1 << (p - Activate)
}

// Has reports whether the set contains p.
func (s Permissions) Has(p Permission) bool { return s&p.bit() != 0 }

// List returns the set's members in the contract's order.
func (s Permissions) List() []Permission {
	var list []Permission
	for p := Activate; p <= CheckTransaction; p++ {
		if s.Has(p) {
			list = append(list, p)
		}
	}
	return list
}

// String joins the members' names with commas, as they are stored. ParsePermissionSet is the
// reverse.
func (s Permissions) String() string {
	var names []string
	for _, p := range s.List() {
		names = append(names, p.String())
	}
	return strings.Join(names, ",")
}

// ParsePermission finds a permission by its exact name.
func ParsePermission(name string) (Permission, error) {
	if i := slices.Index(permissionNames[Activate:], name); i >= 0 {
		return Activate + Permission(i), nil
	}
	return 0, fmt.Errorf("there is no permission %q; the permissions are %s",
		name, strings.Join(permissionNames[Activate:], ", "))
}

// ParsePermissions returns the set of the named permissions. Duplicates are fine.
func ParsePermissions(names []string) (Permissions, error) {
	var set Permissions
	for _, name := range names {
		p, err := ParsePermission(name)
		if err != nil {
			return 0, err
		}
		set |= p.bit()
	}
	return set, nil
}

// ParsePermissionSet parses what Permissions.String returns.
func ParsePermissionSet(text string) (Permissions, error) {
	if text == "" {
		return 0, nil
	}
	return ParsePermissions(strings.Split(text, ","))
}
