package admin

import (
	"errors"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

// ErrStepUp is of a staff action that was not done because the password was given too
// long ago: the person gives it again, and then acts again.
var ErrStepUp = errors.New("the password was given too long ago for this: give it again first")

// StepUp is when a staff action needs a password that was given a short while ago.
type StepUp int

// Always comes first: an action that stepUps does not list needs a step-up.
const (
	StepUpAlways StepUp = iota
	// StepUpIfWidening is of an action that can both widen and narrow access. The store
	// compares what is stored with what is asked for, in the transaction that changes it.
	StepUpIfWidening
	StepUpNever
)

// stepUps lists the actions that are done, or may be done, without a step-up, and why.
// They narrow access or move nothing: whoever has to stop something does not look for
// their telephone first.
var stepUps = map[Action]struct {
	when StepUp
	why  string
}{
	OperatorSet: {StepUpIfWidening, "suspending an operator, switching its API off and lowering its rate limit are done at once"},
	LoginSet:    {StepUpIfWidening, "somebody who must be kept out is kept out at once"},
	KeyPermit:   {StepUpIfWidening, "taking a permission away is done at once"},

	KeyRevoke:        {StepUpNever, "a stolen key is ended at once"},
	WhitelistRemove:  {StepUpNever, "an address taken off the list opens nothing; an empty list refuses everybody"},
	ProposalDecline:  {StepUpNever, "a declined proposal moves nothing"},
	ProposalWithdraw: {StepUpNever, "a withdrawn proposal moves nothing"},
	ExceptionClose:   {StepUpNever, "it records what a person found, and moves nothing"},
	AddonClose:       {StepUpNever, "it ends a follow-up, and moves nothing"},
	MaintenanceOn:    {StepUpNever, "it stops new operations"},
}

// StepUpFor returns when an action needs a step-up.
func StepUpFor(action Action) StepUp { return stepUps[action].when }

// Stale returns the service of somebody whose password was given too long ago for what
// widens access, moves money or makes a secret. It refuses that with ErrStepUp.
func (d *Service) Stale() *Service {
	stale := *d
	stale.stale = true
	return &stale
}

// CheckStepUp refuses the act of a stale service if the act needs a step-up. A store calls
// it before it carries out a StepUpIfWidening action, and says whether that widens
// access; Permitted does for all others.
func (a StaffAction) CheckStepUp(needed bool) error {
	if a.barred != nil {
		return a.barred
	}
	if a.stale && needed {
		return ErrStepUp
	}
	return nil
}

// Widens reports whether the change lets the operator do more than before: it opens the
// account or the API, raises the rate limit, or lets its people do without a second
// factor. A change of the commission rate counts, too: it is about money.
func (c OperatorChange) Widens(before subscription.Operator) bool {
	after := c.Apply(before)
	return after.Status != before.Status && after.Status == subscription.OperatorActive ||
		after.API != before.API && after.API == subscription.APIEnabled ||
		after.RateLimit > before.RateLimit ||
		before.SecondFactorRequired && !after.SecondFactorRequired ||
		after.CommissionBPS != before.CommissionBPS
}

// Widens reports whether the change lets the person do more than before: it enables the
// login, or gives it another role, whichever.
func (c LoginChange) Widens(before login.Person) bool {
	after := c.Apply(before)
	return before.Disabled && !after.Disabled || after.Role != before.Role
}

// PermissionsWiden reports whether a key may do something after a change that it might
// not do before.
func PermissionsWiden(before, after access.Permissions) bool { return after&^before != 0 }
