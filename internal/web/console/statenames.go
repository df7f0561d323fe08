package console

import (
	"strings"

	"github.com/coaxhq/coax/internal/web/look"
)

// stateNames are the display names of the fields in the audit log's before and after.
var stateNames = map[string]string{
	"addon":                  look.Text("Add-on"),
	"addon_status":           look.Text("Add-on's state"),
	"address":                look.Text("Address"),
	"amount":                 look.Text("Amount"),
	"announcement":           look.Text("Announced payment"),
	"api":                    look.Text("API"),
	"carried_out_at":         look.Text("Carried out"),
	"change":                 look.Text("Proposed change"),
	"commission":             look.Text("Commission"),
	"commission_bps":         look.Text("Commission in basis points"),
	"confirm":                look.Text("Confirmed"),
	"description":            look.Text("Description"),
	"credits":                look.Text("Credits"),
	"disabled":               look.Text("Disabled"),
	"duration":               look.Text("Months"),
	"expires_at":             look.Text("Valid until"),
	"expiry":                 look.Text("Valid until"),
	"file":                   look.Text("File"),
	"gstin":                  look.Text("GSTIN"),
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
	"paid_on":                look.Text("Paid on"),
	"password_changed_at":    look.Text("Password changed"),
	"permissions":            look.Text("Permissions"),
	"plan":                   look.Text("Plan"),
	"price":                  look.Text("Price"),
	"rate_limit":             look.Text("Requests a minute"),
	"realm":                  look.Text("Side"),
	"reason":                 look.Text("Reason"),
	"reference":              look.Text("Reference"),
	"replaced_by":            look.Text("Replaced by"),
	"retired":                look.Text("Retired"),
	"reversals":              look.Text("Reversals"),
	"revoked_at":             look.Text("Revoked"),
	"role":                   look.Text("Role"),
	"second_factor_required": look.Text("Second factor required"),
	"status":                 look.Text("State"),
	"subscriber":             look.Text("Subscriber"),
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
