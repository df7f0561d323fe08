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
	string(admin.OperatorUndelete): look.Text("Operator's account reopened"),

	string(admin.WalletTopUp):  look.Text("Wallet topped up"),
	string(admin.WalletAdjust): look.Text("Wallet adjusted"),

	string(admin.PaymentReject):   look.Text("Announced payment rejected"),
	string(admin.StatementImport): look.Text("Bank statement uploaded"),
	admin.PaymentAnnounce:         look.Text("Payment announced"),
	admin.PaymentWithdraw:         look.Text("Announced payment withdrawn"),

	string(admin.PlanSet):    look.Text("Plan created or changed"),
	string(admin.PlanRetire): look.Text("Plan retired"),

	string(admin.KeyIssue):  look.Text("API key issued"),
	string(admin.KeyRotate): look.Text("API key rotated"),
	string(admin.KeyRevoke): look.Text("API key revoked"),
	string(admin.KeyPermit): look.Text("API key's permissions set"),

	string(admin.WhitelistAdd):    look.Text("Address added to the whitelist"),
	string(admin.WhitelistRemove): look.Text("Address removed from the whitelist"),

	string(admin.SubscriberImport): look.Text("Subscribers imported"),
	string(admin.SubscriberForget): look.Text("Subscriber forgotten"),

	string(admin.ReviewSettle):   look.Text("Operation in review settled"),
	string(admin.ExceptionClose): look.Text("Exception closed"),
	string(admin.OperationAdopt): look.Text("Provider order adopted"),
	string(admin.AddonClose):     look.Text("Add-on retries stopped"),

	string(admin.OperationReverse): look.Text("Reversal requested"),
	admin.OperationReversed:        look.Text("Operation reversed"),
	string(admin.ReversalSettle):   look.Text("Reversal settled"),

	string(admin.ProposalMake):     look.Text("Proposal created"),
	string(admin.ProposalApprove):  look.Text("Proposal approved"),
	string(admin.ProposalDecline):  look.Text("Proposal declined"),
	string(admin.ProposalWithdraw): look.Text("Proposal withdrawn"),

	string(admin.CommissionClose): look.Text("Commission of a month closed"),

	string(admin.LoginCreate):        look.Text("Login created"),
	string(admin.LoginSet):           look.Text("Login changed"),
	string(admin.LoginResetPassword): look.Text("Login's password reset"),
	string(admin.LoginResetTOTP):     look.Text("Login's second factor removed"),

	string(admin.MaintenanceOn):  look.Text("Maintenance turned on"),
	string(admin.MaintenanceOff): look.Text("Maintenance turned off"),

	string(admin.MasterKeyAdd):    look.Text("Master key added"),
	string(admin.MasterKeyRotate): look.Text("Master key replaced"),
	string(admin.MasterKeyRetire): look.Text("Master key retired"),

	admin.CustomerContactChange:    look.Text("Customer's contact data changed"),
	admin.CustomerPasswordReset:    look.Text("App password replacement requested"),
	admin.CustomerPasswordAnswered: look.Text("Provider responded about an app password"),
}

// actionName returns an action's display name, or its short name if it has none.
func actionName(v *web.Visit, action string) string {
	if name, known := actionNames[action]; known {
		return v.T(name)
	}
	return action
}
