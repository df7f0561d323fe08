package access

import (
	"fmt"
	"slices"
	"strings"
)

// Permission is one thing a key may do. The zero Permission is none, and no key
// has it: a route that forgot to name what it needs is closed, not open.
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

// permissionNames are the contract's own words, which are also what the store
// keeps and what people type. None may ever contain a comma.
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

// AllPermissions is every permission there is.
const AllPermissions Permissions = 1<<CheckTransaction - 1

// PermissionsOf returns the set of the given permissions.
func PermissionsOf(list ...Permission) Permissions {
	var set Permissions
	for _, p := range list {
		set |= p.bit()
	}
	return set
}

// bit is where a permission lives in a set; nowhere, if there is no such one.
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

// String joins the members' names with commas. It is the form the store keeps,
// and ParsePermissionSet reads it back.
func (s Permissions) String() string {
	var names []string
	for _, p := range s.List() {
		names = append(names, p.String())
	}
	return strings.Join(names, ",")
}

// ParsePermission finds a permission by its name, which has to be spelled as
// the contract spells it.
func ParsePermission(name string) (Permission, error) {
	if i := slices.Index(permissionNames[Activate:], name); i >= 0 {
		return Activate + Permission(i), nil
	}
	return 0, fmt.Errorf("there is no permission %q; the permissions are %s",
		name, strings.Join(permissionNames[Activate:], ", "))
}

// ParsePermissions returns the set of the named permissions. Naming one twice
// is naming it.
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

// ParsePermissionSet reads what Permissions.String wrote.
func ParsePermissionSet(text string) (Permissions, error) {
	if text == "" {
		return 0, nil
	}
	return ParsePermissions(strings.Split(text, ","))
}
