package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// MovedAlone is what was moved without a second person within a stretch of time:
// top-ups, adjustments of either sign and operations in review that were settled by
// hand, in the console or on the command line. Amounts are counted without their sign.
type MovedAlone struct {
	// ByPerson is what one person moved, for any operator.
	ByPerson money.Amount
	// ForOperator is what anybody moved for one operator.
	ForOperator money.Amount
}

// MovedQuery asks for what a person moved alone, and what was moved alone for an
// operator, after After and up to Until.
type MovedQuery struct {
	// People count as one person: see StaffAccess.Together.
	People       []string
	OperatorID   int64
	After, Until time.Time
}

// Person is who an actor is, whichever way they act: web:asha and cli:asha are one
// person.
func Person(actor string) string {
	if _, name, found := strings.Cut(actor, ":"); found {
		actor = name
	}
	return strings.ToLower(actor)
}

// ApprovalNeeded is why an amount is not moved by one person alone.
type ApprovalNeeded struct {
	Amount, Limit money.Amount
	Window        time.Duration
	// Moved is what was moved alone within the window before: by Person, or else for
	// OperatorID. It is zero where the amount by itself is above the limit.
	Moved      money.Amount
	Person     string
	OperatorID int64
}

// Refusal is the text for somebody who tried to move the amount alone.
func (s *ApprovalNeeded) Refusal() *Refusal {
	switch {
	case s.Moved.IsZero():
		return Refuse("%s is more than one person moves alone (%s): propose it, and let somebody else approve it", s.Amount, s.Limit)
	case s.Person != "":
		return Refuse("together with %s that %s moved alone within %s, %s is above %s: propose it, and let somebody else approve it",
			s.Moved, s.Person, s.Window, s.Amount, s.Limit)
	}
	return Refuse("together with %s that was moved alone for operator %d within %s, %s is above %s: propose it, and let somebody else approve it",
		s.Moved, s.OperatorID, s.Window, s.Amount, s.Limit)
}

func (s *ApprovalNeeded) Error() string { return s.Refusal().Error() }
func (s *ApprovalNeeded) Unwrap() error { return s.Refusal() }

func secondNeeded(err error) *ApprovalNeeded {
	var why *ApprovalNeeded
	errors.As(err, &why)
	return why
}

// Second returns why an amount for an operator takes a second person, after what was
// moved alone within the window; nil if one person may move it.
func (l Limits) Second(person string, operatorID int64, amount money.Amount, moved MovedAlone) *ApprovalNeeded {
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

// query asks for what counts towards the limits at a moment.
func (l Limits) query(people []string, operatorID int64, at time.Time) MovedQuery {
	return MovedQuery{People: people, OperatorID: operatorID, After: at.Add(-l.Window), Until: at}
}

// Limited reports whether the actor has limits; the command line has none.
func (a StaffAction) Limited() bool { return a.limits != nil }

// MovedBefore asks for what counts towards the actor's limits when they move money of
// an operator. What another node's clock has ahead of this act counts, too.
func (a StaffAction) MovedBefore(staff StaffAccess, operatorID int64) MovedQuery {
	q := a.limits.query(staff.Together(a.Actor), operatorID, a.At)
	if a.limits.Window > 0 {
		q.Until = a.At.Add(a.limits.Window)
	}
	return q
}

// MovesAlone returns a *ApprovalNeeded if the actor may not move an amount alone, after
// what MovedBefore found. A store asks in the transaction that moves the amount, where
// no other staff action can come between.
func (a StaffAction) MovesAlone(operatorID int64, amount money.Amount, moved MovedAlone) error {
	if why := a.limits.Second(Person(a.Actor), operatorID, amount, moved); why != nil {
		return why
	}
	return nil
}

// tooMuch returns why an amount, of either sign, is by itself more than this service
// moves alone; nil if it is not.
func (d *Service) tooMuch(amount money.Amount) *ApprovalNeeded {
	if !d.limited {
		return nil
	}
	return d.limits.Second(Person(d.actor), 0, amount, MovedAlone{})
}

// alone refuses an amount that by itself takes a second person.
func (d *Service) alone(amount money.Amount) error {
	if why := d.tooMuch(amount); why != nil {
		return why
	}
	return nil
}

// MovedAlone returns what counts now towards what the actor moves alone for an
// operator.
func (d *Service) MovedAlone(ctx context.Context, operatorID int64) (MovedAlone, error) {
	return d.movedAlone(ctx, d.actor, operatorID, d.now())
}

func (d *Service) movedAlone(ctx context.Context, actor string, operatorID int64, at time.Time) (MovedAlone, error) {
	staff, err := d.store.StaffAccess(ctx)
	if err != nil {
		return MovedAlone{}, err
	}
	return d.store.MovedAlone(ctx, d.limits.query(staff.Together(actor), operatorID, at))
}

// Second returns why the actor would need a second person to move an amount for an
// operator now; nil if they would not.
func (d *Service) Second(ctx context.Context, operatorID int64, amount money.Amount) (*ApprovalNeeded, error) {
	moved, err := d.MovedAlone(ctx, operatorID)
	if err != nil || !d.limited {
		return nil, err
	}
	return d.limits.Second(Person(d.actor), operatorID, amount, moved), nil
}

// WhySecond returns why a proposal to move money needed a second person when it was
// made, by the limits of today; nil for any other proposal.
func (d *Service) WhySecond(ctx context.Context, p Proposal) (*ApprovalNeeded, error) {
	if p.Amount.IsZero() {
		return nil, nil
	}
	person := Person(p.Maker)
	moved, err := d.movedAlone(ctx, p.Maker, p.OperatorID, p.MadeAt)
	if err != nil {
		return nil, err
	}
	return d.limits.Second(person, p.OperatorID, p.Amount, moved), nil
}
