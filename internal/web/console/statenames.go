package console

import (
	"strings"

	"github.com/coaxhq/coax/internal/web/look"
)

// stateNames are the display names of the fields in the audit log's before and after.
var stateNames = map[string]string{
	"addon":                  look.Text("Add-on"),
	"addon_status":           look.Text("Add-on's state"),
	"amount":                 look.Text("Amount"),
	"api":                    look.Text("API"),
	"change":                 look.Text("Wanted change"),
	"commission_bps":         look.Text("Commission in basis points"),
	"confirm":                look.Text("Confirmed"),
	"description":            look.Text("Description"),
	"disabled":               look.Text("Disabled"),
	"duration":               look.Text("Months"),
	"expires_at":             look.Text("Valid until"),
	"held":                   look.Text("Held"),
	"imported":               look.Text("Subscribers"),
	"key":                    look.Text("Key"),
	"kind":                   look.Text("Kind"),
	"low_balance":            look.Text("Low-balance threshold"),
	"main":                   look.Text("Main component"),
	"maker":                  look.Text("Proposed by"),
	"must_change_password":   look.Text("Password has to be changed"),
	"name":                   look.Text("Name"),
	"open":                   look.Text("Open"),
	"operations":             look.Text("Operations"),
	"outcome":                look.Text("Outcome"),
	"password_changed_at":    look.Text("Password changed"),
	"permissions":            look.Text("Permissions"),
	"price":                  look.Text("Price"),
	"rate_limit":             look.Text("Requests a minute"),
	"realm":                  look.Text("Side"),
	"reason":                 look.Text("Reason"),
	"reference":              look.Text("Reference"),
	"replaced_by":            look.Text("Replaced by"),
	"retired":                look.Text("Retired"),
	"revoked_at":             look.Text("Revoked"),
	"role":                   look.Text("Role"),
	"second_factor_required": look.Text("Second factor required"),
	"status":                 look.Text("State"),
	"subject":                look.Text("Subject"),
	"totp":                   look.Text("Second factor"),
	"passkeys":               look.Text("Passkeys"),
	"transaction_id":         look.Text("Transaction"),
	"type":                   look.Text("Type"),
	"username":               look.Text("Username"),
	"version":                look.Text("Version"),
	"wallet_balance":         look.Text("Balance"),
}

// stateName returns a field's name in English, or its stored name if it has none.
func stateName(field string) string {
	if name, known := stateNames[field]; known {
		return name
	}
	return strings.ReplaceAll(field, "_", " ")
}
