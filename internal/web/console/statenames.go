package console

import (
	"strings"

	"github.com/coaxhq/coax/internal/web/look"
)

// stateNames are the fields of what the log of acts keeps as before and after, as
// people call them.
var stateNames = map[string]string{
	"addon":                  look.Word("Add-on"),
	"addon_status":           look.Word("Add-on's state"),
	"amount":                 look.Word("Amount"),
	"api":                    look.Word("API"),
	"change":                 look.Word("Wanted change"),
	"commission_bps":         look.Word("Commission in basis points"),
	"confirm":                look.Word("Confirmed"),
	"description":            look.Word("Description"),
	"disabled":               look.Word("Disabled"),
	"duration":               look.Word("Months"),
	"expires_at":             look.Word("Valid until"),
	"held":                   look.Word("Held"),
	"imported":               look.Word("Subscribers"),
	"key":                    look.Word("Key"),
	"kind":                   look.Word("Kind"),
	"low_balance":            look.Word("Low-balance threshold"),
	"main":                   look.Word("Main component"),
	"maker":                  look.Word("Proposed by"),
	"must_change_password":   look.Word("Password has to be changed"),
	"name":                   look.Word("Name"),
	"open":                   look.Word("Open"),
	"operations":             look.Word("Operations"),
	"outcome":                look.Word("Outcome"),
	"password_changed_at":    look.Word("Password changed"),
	"permissions":            look.Word("Permissions"),
	"price":                  look.Word("Price"),
	"rate_limit":             look.Word("Requests a minute"),
	"realm":                  look.Word("Side"),
	"reason":                 look.Word("Reason"),
	"reference":              look.Word("Reference"),
	"replaced_by":            look.Word("Replaced by"),
	"retired":                look.Word("Retired"),
	"revoked_at":             look.Word("Revoked"),
	"role":                   look.Word("Role"),
	"second_factor_required": look.Word("Second factor required"),
	"status":                 look.Word("State"),
	"subject":                look.Word("Subject"),
	"totp":                   look.Word("Second factor"),
	"passkeys":               look.Word("Passkeys"),
	"transaction_id":         look.Word("Transaction"),
	"type":                   look.Word("Type"),
	"username":               look.Word("Username"),
	"version":                look.Word("Version"),
	"wallet_balance":         look.Word("Balance"),
}

// stateName is what a field is called, in English; one without a name is called as it
// is kept.
func stateName(field string) string {
	if name, known := stateNames[field]; known {
		return name
	}
	return strings.ReplaceAll(field, "_", " ")
}
