package console

import (
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// actionNames are the display names of the audit log's actions. The log stores, chains and
// searches by the short names.
var actionNames = map[string]string{
	string(admin.OperatorCreate):   look.Text("Operator created"),
	string(admin.OperatorSet):      look.Text("Operator's terms changed"),
	string(admin.OperatorDelete):   look.Text("Operator's account closed"),
	string(admin.OperatorUndelete): look.Text("Operator's account opened again"),

	string(admin.WalletTopUp):  look.Text("Wallet topped up"),
	string(admin.WalletAdjust): look.Text("Wallet adjusted by hand"),

	string(admin.PlanSet):    look.Text("Plan made or changed"),
	string(admin.PlanRetire): look.Text("Plan retired"),

	string(admin.KeyIssue):  look.Text("API key issued"),
	string(admin.KeyRotate): look.Text("API key rotated"),
	string(admin.KeyRevoke): look.Text("API key revoked"),
	string(admin.KeyPermit): look.Text("API key's permissions set"),

	string(admin.WhitelistAdd):    look.Text("Address added to the whitelist"),
	string(admin.WhitelistRemove): look.Text("Address taken off the whitelist"),

	string(admin.SubscriberImport): look.Text("Subscribers imported"),

	string(admin.ReviewSettle):   look.Text("Operation in review settled"),
	string(admin.ExceptionClose): look.Text("Exception closed"),
	string(admin.AddonClose):     look.Text("Add-on no longer followed up"),

	string(admin.ProposalMake):     look.Text("Proposal made"),
	string(admin.ProposalApprove):  look.Text("Proposal approved"),
	string(admin.ProposalDecline):  look.Text("Proposal declined"),
	string(admin.ProposalWithdraw): look.Text("Proposal withdrawn"),

	string(admin.CommissionClose): look.Text("Commission of a month closed"),

	string(admin.LoginCreate):        look.Text("Login created"),
	string(admin.LoginSet):           look.Text("Login changed"),
	string(admin.LoginResetPassword): look.Text("Login's password reset"),
	string(admin.LoginResetTOTP):     look.Text("Login's second factor taken away"),

	string(admin.MaintenanceOn):  look.Text("Maintenance switched on"),
	string(admin.MaintenanceOff): look.Text("Maintenance switched off"),

	admin.CustomerPasswordReset:    look.Text("Customer's app password asked to be replaced"),
	admin.CustomerPasswordAnswered: look.Text("Provider answered about an app password"),
}

// actionName returns an action's display name, or its short name if it has none.
func actionName(v *web.Visit, action string) string {
	if name, known := actionNames[action]; known {
		return v.T(name)
	}
	return action
}
