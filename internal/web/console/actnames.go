package console

import (
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// actNames say in words what the log of acts has short names for. The short names
// stay what is kept, chained and searched by; these are for whoever reads.
var actNames = map[string]string{
	string(admin.OperatorCreate):   look.Word("Operator created"),
	string(admin.OperatorSet):      look.Word("Operator's terms changed"),
	string(admin.OperatorDelete):   look.Word("Operator's account closed"),
	string(admin.OperatorUndelete): look.Word("Operator's account opened again"),

	string(admin.WalletTopUp):  look.Word("Wallet topped up"),
	string(admin.WalletAdjust): look.Word("Wallet adjusted by hand"),

	string(admin.PlanSet):    look.Word("Plan made or changed"),
	string(admin.PlanRetire): look.Word("Plan retired"),

	string(admin.KeyIssue):  look.Word("API key issued"),
	string(admin.KeyRotate): look.Word("API key rotated"),
	string(admin.KeyRevoke): look.Word("API key revoked"),
	string(admin.KeyPermit): look.Word("API key's permissions set"),

	string(admin.WhitelistAdd):    look.Word("Address added to the whitelist"),
	string(admin.WhitelistRemove): look.Word("Address taken off the whitelist"),

	string(admin.SubscriberImport): look.Word("Subscribers imported"),

	string(admin.ReviewSettle):   look.Word("Operation in review settled"),
	string(admin.ExceptionClose): look.Word("Exception closed"),
	string(admin.AddonClose):     look.Word("Add-on no longer followed up"),

	string(admin.ProposalMake):     look.Word("Proposal made"),
	string(admin.ProposalApprove):  look.Word("Proposal approved"),
	string(admin.ProposalDecline):  look.Word("Proposal declined"),
	string(admin.ProposalWithdraw): look.Word("Proposal withdrawn"),

	string(admin.CommissionClose): look.Word("Commission of a month closed"),

	string(admin.LoginCreate):        look.Word("Login created"),
	string(admin.LoginSet):           look.Word("Login changed"),
	string(admin.LoginResetPassword): look.Word("Login's password reset"),
	string(admin.LoginResetTOTP):     look.Word("Login's second factor taken away"),

	string(admin.MaintenanceOn):  look.Word("Maintenance switched on"),
	string(admin.MaintenanceOff): look.Word("Maintenance switched off"),

	admin.CustomerPasswordReset:    look.Word("Customer's app password asked to be replaced"),
	admin.CustomerPasswordAnswered: look.Word("Provider answered about an app password"),
}

// actName is what an act is called; one without a name keeps its short one, so that
// none is ever hidden.
func actName(v *web.Visit, action string) string {
	if name, known := actNames[action]; known {
		return v.T(name)
	}
	return action
}
