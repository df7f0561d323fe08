package admin

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// Role is the role of a member of staff. It converts from a staff login's login.Role,
// which has the same values.
type Role string

// The roles of staff. A viewer can see everything and change nothing.
const (
	Viewer        Role = "viewer"
	Support       Role = "support"
	Finance       Role = "finance"
	Administrator Role = "administrator"
)

// Action names a staff action, as in the audit log.
type Action string

// All staff actions.
const (
	OperatorCreate   Action = "lco create"
	OperatorSet      Action = "lco set"
	OperatorDelete   Action = "lco delete"
	OperatorUndelete Action = "lco undelete"

	WalletTopUp  Action = "wallet topup"
	WalletAdjust Action = "wallet adjust"

	PlanSet    Action = "plan set"
	PlanRetire Action = "plan retire"

	KeyIssue  Action = "key issue"
	KeyRotate Action = "key rotate"
	KeyRevoke Action = "key revoke"
	KeyPermit Action = "key permit"

	WhitelistAdd    Action = "whitelist add"
	WhitelistRemove Action = "whitelist remove"

	SubscriberImport Action = "subscriber import"
	SubscriberForget Action = "subscriber forget"

	ReviewSettle   Action = "review settle"
	ExceptionClose Action = "exception close"
	OperationAdopt Action = "operation adopt"
	AddonClose     Action = "addon close"

	OperationReverse Action = "operation reverse"
	ReversalSettle   Action = "reversal settle"

	ProposalMake     Action = "proposal make"
	ProposalApprove  Action = "proposal approve"
	ProposalDecline  Action = "proposal decline"
	ProposalWithdraw Action = "proposal withdraw"

	CommissionClose Action = "commission close"

	LoginCreate        Action = "login create"
	LoginSet           Action = "login set"
	LoginResetPassword Action = "login reset-password"
	LoginResetTOTP     Action = "login reset-totp"

	MaintenanceOn  Action = "maintenance on"
	MaintenanceOff Action = "maintenance off"

	PaymentReject   Action = "payment reject"
	StatementImport Action = "payment statement"

	MasterKeyAdd    Action = "masterkey add"
	MasterKeyRotate Action = "masterkey rotate"
	MasterKeyRetire Action = "masterkey retire"
)

// rights lists the roles that may do an action. Without an entry, no role may.
//
// Support answers the telephone: it maintains whitelists and follows up add-ons and
// exceptions. It may revoke a key, because a stolen one must be revoked at once and a
// revocation grants nothing, but not issue one. Finance only moves money. The administrator
// may do everything.
var rights = map[Action][]Role{
	OperatorCreate:   {Administrator},
	OperatorSet:      {Administrator},
	OperatorDelete:   {Administrator},
	OperatorUndelete: {Administrator},

	WalletTopUp:  {Finance, Administrator},
	WalletAdjust: {Finance, Administrator},

	PlanSet:    {Administrator},
	PlanRetire: {Administrator},

	KeyIssue:  {Administrator},
	KeyRotate: {Administrator},
	KeyRevoke: {Support, Administrator},
	KeyPermit: {Administrator},

	WhitelistAdd:    {Support, Administrator},
	WhitelistRemove: {Support, Administrator},

	// An imported subscriber has a subscription that was not paid for here.
	SubscriberImport: {Administrator},
	SubscriberForget: {Administrator},

	ReviewSettle:   {Finance, Administrator},
	ExceptionClose: {Support, Finance, Administrator},
	AddonClose:     {Support, Administrator},
	// The provider's list is believed, and the operator pays.
	OperationAdopt: {Administrator},
	// It moves money like a settlement.
	OperationReverse: {Finance, Administrator},
	ReversalSettle:   {Finance, Administrator},

	// The proposer and the approver must also have the right to the proposed action.
	ProposalMake:     {Finance, Administrator},
	ProposalApprove:  {Finance, Administrator},
	ProposalDecline:  {Finance, Administrator},
	ProposalWithdraw: {Finance, Administrator},

	CommissionClose: {Finance, Administrator},

	LoginCreate:        {Administrator},
	LoginSet:           {Administrator},
	LoginResetPassword: {Administrator},
	LoginResetTOTP:     {Administrator},

	MaintenanceOn:  {Administrator},
	MaintenanceOff: {Administrator},

	PaymentReject:   {Finance, Administrator},
	StatementImport: {Finance, Administrator},

	MasterKeyAdd:    {Administrator},
	MasterKeyRotate: {Administrator},
	MasterKeyRetire: {Administrator},
}

// Actions lists all staff actions, by name.
func Actions() []Action { return slices.Sorted(maps.Keys(rights)) }

// May reports whether a role may do an action.
func May(role Role, action Action) bool { return slices.Contains(rights[action], role) }

// Limits bound what a member of staff may do without approval.
type Limits struct {
	// ApprovalAbove is the amount above which moving money needs approval; zero requires
	// it always.
	ApprovalAbove money.Amount
	// NewLoginWait is how long a login that was created, raised or reset in the console
	// cannot approve.
	NewLoginWait time.Duration
	// Window is how long an amount counts: the sum of what one person moved without
	// approval within it, and of what was so moved for one operator, stays within
	// ApprovalAbove. Zero counts each amount by itself.
	Window time.Duration
	// PriceChange is by how many percent a plan's price may change within Window without
	// approval; zero requires approval for any change.
	PriceChange int
}

// WithRole returns a copy of the service with the rights of a role, within limits. Without
// it the actor may do everything: that is the command line, the root of an installation.
func (s *Service) WithRole(role Role, limits Limits) *Service {
	limited := *s
	limited.role, limited.limits, limited.limited = role, limits, true
	return &limited
}

// WithOrigin returns a copy of the service that records an address with every action.
func (s *Service) WithOrigin(address netip.Addr) *Service {
	there := *s
	there.origin = ""
	if address.IsValid() {
		there.origin = address.Unmap().WithZone("").String()
	}
	return &there
}

// permit refuses what the service's role does not allow.
func (s *Service) permit(action Action) error {
	if s.limited && !May(s.role, action) {
		return Refuse("the role %q does not allow %q: ask somebody who may", s.role, action)
	}
	return nil
}
