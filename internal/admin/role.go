package admin

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// Role is what a member of staff is there for. A staff login's role has the same
// words, and converts.
type Role string

// The roles of staff. A viewer looks at everything and changes nothing.
const (
	Viewer        Role = "viewer"
	Support       Role = "support"
	Finance       Role = "finance"
	Administrator Role = "administrator"
)

// Action names an act of staff, in the words of the log.
type Action string

// Everything that staff can do.
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

	ReviewSettle   Action = "review settle"
	ExceptionClose Action = "exception close"
	AddonClose     Action = "addon close"

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
)

// rights says who may do what. An act that is not listed may be done by nobody
// who has a role.
//
// Support answers the telephone: it mends where an operator calls from, and looks
// after what the provider left undone. It may end a key, because a stolen one must
// not wait for the right person, and that gives nobody anything; it can make none.
// Finance moves money, and nothing else. The administrator does everything.
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

	// A subscriber that is brought in has a subscription nobody paid for here.
	SubscriberImport: {Administrator},

	ReviewSettle:   {Finance, Administrator},
	ExceptionClose: {Support, Finance, Administrator},
	AddonClose:     {Support, Administrator},

	// What is proposed must also be within the rights of who proposes or approves it.
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
}

// Actions lists everything that staff can do, by name.
func Actions() []Action { return slices.Sorted(maps.Keys(rights)) }

// May reports whether somebody of a role may do an act.
func May(role Role, action Action) bool { return slices.Contains(rights[action], role) }

// Limits are what a member of staff may not go beyond alone.
type Limits struct {
	// ApprovalAbove is the amount above which money is moved only after a second
	// person has agreed; zero is always.
	ApprovalAbove money.Amount
	// NewLoginWait is how long a login that was created, raised or reset in the console
	// cannot approve.
	NewLoginWait time.Duration
	// Window is how long an amount counts: what one person moved alone within it, and
	// what anybody moved alone for one operator, stays within ApprovalAbove together.
	// Zero counts each amount by itself.
	Window time.Duration
	// PriceChange is by how many percent one person changes a plan's price within
	// Window; zero is by nothing.
	PriceChange int
}

// As is the service with the rights of a role and within limits. A service is without
// either until then: that is the command line, which is the root of an installation.
func (d *Service) As(role Role, limits Limits) *Service {
	limited := *d
	limited.role, limited.limits, limited.limited = role, limits, true
	return &limited
}

// From is the service of somebody who acts from an address, which is written down
// with every act.
func (d *Service) From(address netip.Addr) *Service {
	there := *d
	there.origin = ""
	if address.IsValid() {
		there.origin = address.Unmap().WithZone("").String()
	}
	return &there
}

// permit refuses what the service's role does not allow.
func (d *Service) permit(action Action) error {
	if d.limited && !May(d.role, action) {
		return Refuse("the role %q does not allow %q: ask somebody who may", d.role, action)
	}
	return nil
}
