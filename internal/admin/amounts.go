package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// MovedWithoutApproval is what was moved without approval within a time window: top-ups,
// adjustments and operations in review that were settled by hand, in the console or on
// the command line. Amounts are counted without their sign.
type MovedWithoutApproval struct {
	// ByPerson is what one person moved, for any operator.
	ByPerson money.Amount
	// ForOperator is what anybody moved for one operator.
	ForOperator money.Amount
}

// MovedQuery asks for what a person moved without approval, and what was so moved for an
// operator, after After and up to Until.
type MovedQuery struct {
	// People count as one person: see StaffAccess.CountedAsOne.
	People       []string
	OperatorID   int64
	After, Until time.Time
}

// Person is an actor's name without the channel: web:asha and cli:asha are one person.
func Person(actor string) string {
	if _, name, found := strings.Cut(actor, ":"); found {
		actor = name
	}
	return strings.ToLower(actor)
}

// ApprovalNeeded is why an amount cannot be moved without approval.
type ApprovalNeeded struct {
	Amount, Limit money.Amount
	Window        time.Duration
	// Moved is what was moved without approval within the window before: by Person, or
	// else for OperatorID. It is zero where the amount by itself is above the limit.
	Moved      money.Amount
	Person     string
	OperatorID int64
}

// Refusal is the reason as a refusal.
func (s *ApprovalNeeded) Refusal() *Refusal {
	switch {
	case s.Moved.IsZero():
		return Refuse("%s is above the limit for one person (%s): propose it, and let somebody else approve it", s.Amount, s.Limit)
	case s.Person != "":
		return Refuse("together with %s that %s moved alone within %s, %s is above %s: propose it, and let somebody else approve it",
			s.Moved, Actor(console+s.Person), s.Window, s.Amount, s.Limit)
	}
	return Refuse("together with %s that was moved alone for operator %s within %s, %s is above %s: propose it, and let somebody else approve it",
		s.Moved, OperatorID(s.OperatorID), s.Window, s.Amount, s.Limit)
}

func (s *ApprovalNeeded) Error() string { return s.Refusal().Error() }
func (s *ApprovalNeeded) Unwrap() error { return s.Refusal() }

func asApprovalNeeded(err error) *ApprovalNeeded {
	var why *ApprovalNeeded
	errors.As(err, &why)
	return why
}

// NeedsApproval returns why an amount for an operator needs approval, after what was
// moved without it within the window; nil if it does not.
func (l Limits) NeedsApproval(person string, operatorID int64, amount money.Amount, moved MovedWithoutApproval) *ApprovalNeeded {
	if amount.IsNegative() {
		amount = amount.Neg()
	}
	why := &ApprovalNeeded{Amount: amount, Limit: l.ApprovalAbove, Window: l.Window, Person: person, OperatorID: operatorID}
	switch {
	case l.ApprovalAbove.Less(amount):
	case l.ApprovalAbove.Less(moved.ByPerson.Add(amount)):
		why.Moved = moved.ByPerson
	case l.ApprovalAbove.Less(moved.ForOperator.Add(amount)):
		why.Moved, why.Person = moved.ForOperator, ""
	default:
		return nil
	}
	return why
}

// query is the query for what counts towards the limits at a moment.
func (l Limits) query(people []string, operatorID int64, at time.Time) MovedQuery {
	return MovedQuery{People: people, OperatorID: operatorID, After: at.Add(-l.Window), Until: at}
}

// Limited reports whether the actor has limits; the command line has none.
func (a StaffAction) Limited() bool { return a.limits != nil }

// MovedBefore is the query for what counts towards the actor's limits when they move
// money of an operator. What another node's clock dated after this action counts, too.
func (a StaffAction) MovedBefore(staff StaffAccess, operatorID int64) MovedQuery {
	q := a.limits.query(staff.CountedAsOne(a.Actor), operatorID, a.At)
	if a.limits.Window > 0 {
		q.Until = a.At.Add(a.limits.Window)
	}
	return q
}

// CheckAmount returns an *ApprovalNeeded if the actor may not move an amount without
// approval, given what MovedBefore found. A store calls it in the transaction that moves
// the amount, where no other staff action can interfere.
func (a StaffAction) CheckAmount(operatorID int64, amount money.Amount, moved MovedWithoutApproval) error {
	if why := a.limits.NeedsApproval(Person(a.Actor), operatorID, amount, moved); why != nil {
		return why
	}
	return nil
}

// aboveLimit returns why an amount, of either sign, by itself needs approval; nil if it
// does not.
func (s *Service) aboveLimit(amount money.Amount) *ApprovalNeeded {
	if !s.limited {
		return nil
	}
	return s.limits.NeedsApproval(Person(s.actor), 0, amount, MovedWithoutApproval{})
}

// checkAmount is aboveLimit as an error.
func (s *Service) checkAmount(amount money.Amount) error {
	if why := s.aboveLimit(amount); why != nil {
		return why
	}
	return nil
}

// MovedWithoutApproval returns what counts now towards the actor's limits for an operator.
func (s *Service) MovedWithoutApproval(ctx context.Context, operatorID int64) (MovedWithoutApproval, error) {
	return s.movedWithoutApproval(ctx, s.actor, operatorID, s.now())
}

func (s *Service) movedWithoutApproval(ctx context.Context, actor string, operatorID int64, at time.Time) (MovedWithoutApproval, error) {
	staff, err := s.store.StaffAccess(ctx)
	if err != nil {
		return MovedWithoutApproval{}, err
	}
	return s.store.MovedWithoutApproval(ctx, s.limits.query(staff.CountedAsOne(actor), operatorID, at))
}

// NeedsApproval returns why the actor would need approval to move an amount for an
// operator now; nil if they would not.
func (s *Service) NeedsApproval(ctx context.Context, operatorID int64, amount money.Amount) (*ApprovalNeeded, error) {
	moved, err := s.MovedWithoutApproval(ctx, operatorID)
	if err != nil || !s.limited {
		return nil, err
	}
	return s.limits.NeedsApproval(Person(s.actor), operatorID, amount, moved), nil
}

// WhyApprovalNeeded returns why a proposal to move money needed approval when it was made,
// by today's limits; nil for any other proposal.
func (s *Service) WhyApprovalNeeded(ctx context.Context, p Proposal) (*ApprovalNeeded, error) {
	if p.Amount.IsZero() {
		return nil, nil
	}
	person := Person(p.Maker)
	moved, err := s.movedWithoutApproval(ctx, p.Maker, p.OperatorID, p.MadeAt)
	if err != nil {
		return nil, err
	}
	return s.limits.NeedsApproval(person, p.OperatorID, p.Amount, moved), nil
}
