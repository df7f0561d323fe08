package console

import (
	"fmt"
	"strconv"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// whyText says in a sentence why an amount needs a second person; empty if it does not.
func whyText(v *web.Visit, why *admin.ApprovalNeeded) string {
	switch {
	case why == nil:
		return ""
	case why.Moved.IsZero():
		return v.T("This is above %s.", look.Rupees(why.Limit))
	case why.Person != "":
		return v.T("Together with %s that %s moved alone within %s this is above %s.",
			look.Rupees(why.Moved), v.Who("web:"+why.Person), windowText(v, why.Window), look.Rupees(why.Limit))
	}
	return v.T("Together with %s that was moved alone for this operator within %s this is above %s.",
		look.Rupees(why.Moved), windowText(v, why.Window), look.Rupees(why.Limit))
}

// windowText formats approval.window.
func windowText(v *web.Visit, window time.Duration) string {
	if window > time.Hour && window%time.Hour == 0 {
		return v.T("%s hours", strconv.Itoa(int(window.Hours())))
	}
	return span(window)
}

// planDifference is what a proposal changes in a plan.
type planDifference struct {
	ID, Name, Href string
	New            bool
	Changes        []planChange
	// Subscribers is the number of subscribers whose active plan it is now.
	Subscribers int
	// Moved: the plan was changed after the proposal, which can no longer be approved.
	Moved bool
}

func (c console) planDifference(v *web.Visit, p admin.Proposal) (*planDifference, error) {
	change, err := p.PlanChange()
	if err != nil {
		return nil, err
	}
	now, known, err := c.planNow(v, change.Plan.ID)
	if err != nil {
		return nil, err
	}
	isNew := change.Was.Version == 0
	difference := &planDifference{
		ID: change.Plan.ID, Name: change.Plan.Name, New: isNew,
		Changes: c.changes(v, change.Was, change.Plan, isNew), Moved: now.Version != change.Was.Version,
	}
	if known {
		difference.Href = planAddress(change.Plan.ID)
		difference.Subscribers, err = c.Reports.PlanSubscribers(v.Context(), change.Plan.ID)
	}
	return difference, err
}

// planNow returns a plan's current version, if it exists.
func (c console) planNow(v *web.Visit, id string) (plan subscription.Plan, known bool, err error) {
	plans, err := c.service(v).Plans(v.Context())
	for _, plan := range plans {
		if plan.ID == id {
			return plan, true, err
		}
	}
	return plan, false, err
}

// priceChange formats the new price and its change in percent.
func priceChange(before, after money.Amount) string {
	text := look.Rupees(after)
	if before == after || before.IsZero() {
		return text
	}
	sign, change := "+", after.Sub(before)
	if change.IsNegative() {
		sign, change = "-", change.Neg()
	}
	tenths := change.Paise() * 1000 / before.Paise()
	return fmt.Sprintf("%s (%s%d.%d %%)", text, sign, tenths/10, tenths%10)
}
