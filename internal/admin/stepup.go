package admin

import (
	"errors"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

// ErrStepUp refuses a staff action because the password was given too long ago: the person
// has to step up and submit the action again.
var ErrStepUp = errors.New("the password was given too long ago for this: give it again first")

// StepUp says when a staff action needs a step-up.
type StepUp int

// StepUpAlways comes first: an action that stepUps does not list needs a step-up.
const (
	StepUpAlways StepUp = iota
	// StepUpIfWidening is for an action that can both widen and narrow access. The store
	// compares the stored with the new state, in the transaction that changes it.
	StepUpIfWidening
	StepUpNever
)

// stepUps lists the actions that can be done without a step-up, and why. They narrow
// access or move no money: stopping something must not wait for a second factor.
var stepUps = map[Action]struct {
	when StepUp
	why  string
}{
	OperatorSet: {StepUpIfWidening, "suspending an operator, disabling its API or lowering its rate limit must not wait"},
	LoginSet:    {StepUpIfWidening, "disabling a login must not wait"},
	KeyPermit:   {StepUpIfWidening, "removing a permission must not wait"},

	KeyRevoke:        {StepUpNever, "revoking a stolen key must not wait"},
	WhitelistRemove:  {StepUpNever, "removing an address grants nothing; an empty list admits no address"},
	ProposalDecline:  {StepUpNever, "a declined proposal moves nothing"},
	ProposalWithdraw: {StepUpNever, "a withdrawn proposal moves nothing"},
	ExceptionClose:   {StepUpNever, "it records what a person found, and moves nothing"},
	AddonClose:       {StepUpNever, "it ends a follow-up, and moves nothing"},
	PaymentReject:    {StepUpNever, "it moves nothing, and the payment can be announced again"},
	StatementImport:  {StepUpNever, "it moves nothing: the top-ups that follow need a step-up"},
	MaintenanceOn:    {StepUpNever, "it stops new operations"},
}

// StepUpFor says when an action needs a step-up.
func StepUpFor(action Action) StepUp { return stepUps[action].when }

// WithoutStepUp returns a copy of the service for an actor who has not stepped up
// recently. It refuses with ErrStepUp what widens access, moves money or creates a secret.
func (s *Service) WithoutStepUp() *Service {
	stale := *s
	stale.stale = true
	return &stale
}

// CheckStepUp refuses an action that needs a step-up, if the actor has not stepped up. A
// store calls it for a StepUpIfWidening action, where needed says whether the change widens
// access; Permitted does it for all others.
func (a StaffAction) CheckStepUp(needed bool) error {
	if a.refusal != nil {
		return a.refusal
	}
	if a.stale && needed {
		return ErrStepUp
	}
	return nil
}

// Widens reports whether the change lets the operator do more than before: it activates
// the account, enables the API, raises the rate limit, or no longer requires a second
// factor. A change of the commission rate counts, too, because it is about money.
func (c OperatorChange) Widens(before subscription.Operator) bool {
	after := c.Apply(before)
	return after.Status != before.Status && after.Status == subscription.OperatorActive ||
		after.API != before.API && after.API == subscription.APIEnabled ||
		after.RateLimit > before.RateLimit ||
		before.SecondFactorRequired && !after.SecondFactorRequired ||
		after.CommissionBPS != before.CommissionBPS
}

// Widens reports whether the change lets the person do more than before: it enables the
// login, or gives it any other role.
func (c LoginChange) Widens(before login.Person) bool {
	after := c.Apply(before)
	return before.Disabled && !after.Disabled || after.Role != before.Role
}

// PermissionsWiden reports whether a change adds permissions to a key.
func PermissionsWiden(before, after access.Permissions) bool { return after&^before != 0 }
