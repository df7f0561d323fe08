package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// mostMonths is the longest term that plans.max_months can be set to.
const mostMonths = 120

// BoundTerms is the service that sets no plan to a longer term than that.
func (d *Service) BoundTerms(months int) *Service {
	bound := *d
	bound.maxMonths = months
	return &bound
}

// checkPlan refuses an invalid plan, from the command line, too.
func (d *Service) checkPlan(ctx context.Context, plan subscription.Plan) error {
	for _, text := range []struct {
		name        Term
		value       string
		least, most int
	}{
		{Term("plan's id"), plan.ID, 1, 100}, {Term("plan's name"), plan.Name, 1, 100},
		{Term("plan's description"), plan.Description, 0, 500}, {Term("plan's main component"), plan.Main, 1, 100},
	} {
		if err := checkText(text.name, text.value, text.least, text.most); err != nil {
			return err
		}
	}
	switch {
	case plan.Price.Less(subscription.MinPrice):
		return Refuse("a price of %s is below %s", plan.Price, subscription.MinPrice)
	case plan.Type != subscription.Standard && plan.Type != subscription.Combo:
		return Refuse("plan type %q is not known: give standard or combo", plan.Type)
	case plan.Type == subscription.Combo && plan.Addon == "":
		return Refuse("a combo plan needs an add-on: give --component addon=CODE")
	case plan.Type == subscription.Standard && plan.Addon != "":
		return Refuse("a standard plan has no add-on: drop it, or make the plan a combo")
	}
	return d.checkTerm(ctx, plan)
}

// checkTerm refuses a term beyond plans.max_months. A plan that is on sale with a
// longer one keeps it, and can be changed otherwise.
func (d *Service) checkTerm(ctx context.Context, plan subscription.Plan) error {
	most := cmp.Or(d.maxMonths, mostMonths)
	if plan.Months >= 1 && plan.Months <= most {
		return nil
	}
	plans, err := d.store.AllPlans(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(plans, func(p subscription.Plan) bool { return p.ID == plan.ID && !p.Retired && p.Months == plan.Months }) {
		return nil
	}
	return Refuse("a duration of %d months is outside 1 to %d (plans.max_months)", plan.Months, most)
}

// PlanApprovalNeeded is why a plan is not made or changed by one person alone.
type PlanApprovalNeeded struct {
	// Was is the plan as it is now; its version is zero if there is none.
	Was subscription.Plan
	*Refusal
}

func (s *PlanApprovalNeeded) Unwrap() error { return s.Refusal }

// PlanComparison is what a change of a plan is compared with.
type PlanComparison struct {
	// Versions is every version of every plan, by plan and number.
	Versions []subscription.Plan
	// Approved is when a change of the plan was last approved; zero if none was.
	Approved time.Time
	// Staff says whether a second person could approve a new plan that there is nothing
	// to compare with; zero where the plan is not new.
	Staff StaffAccess
}

// SetsPlanAlone returns a *PlanApprovalNeeded if the actor may not set a plan alone.
// A store asks in the transaction that sets it, and gives it the plan as it was, which
// has version zero if it was not there, and what there was to compare with.
func (a StaffAction) SetsPlanAlone(was, plan subscription.Plan, with PlanComparison) error {
	if a.limits == nil {
		return nil
	}
	if why := a.limits.secondForPlan(a.Actor, was, plan, with, a.At); why != nil {
		return &PlanApprovalNeeded{Was: was, Refusal: why}
	}
	return nil
}

// PlanSecond returns why the actor would need a second person to set a plan now; nil
// if they would not.
func (d *Service) PlanSecond(ctx context.Context, was, plan subscription.Plan) (*Refusal, error) {
	with, err := d.store.PlanComparison(ctx, plan.ID)
	if err != nil || !d.limited {
		return nil, err
	}
	return d.limits.secondForPlan(d.actor, was, plan, with, d.now()), nil
}

// secondForPlan returns why a plan of an actor's takes a second person; nil if it does not.
//
// Prices are compared with those of now and with those at the beginning of the
// window: several small changes within it count together, and so does a plan that
// was retired, or made, to be compared with. A new plan is compared with those of the
// same components, which were retired long ago if none is on sale, or else with those
// of its main component alone. Where no plan ever had its main component, its price takes
// a second person if there is one: otherwise nobody could make the first plans in the
// console.
func (l Limits) secondForPlan(actor string, was, plan subscription.Plan, with PlanComparison, now time.Time) *Refusal {
	begins := now.Add(-l.Window)
	histories := map[string][]subscription.Plan{}
	for _, version := range with.Versions {
		histories[version.ID] = append(histories[version.ID], version)
	}
	if was.Version > 0 {
		if plan.Months != was.Months || plan.Type != was.Type || plan.Main != was.Main || plan.Addon != was.Addon {
			return Refuse("the term or the components of plan %s would change: propose it, and let somebody else approve it", plan.ID)
		}
		since := begins
		if with.Approved.After(since) {
			since = with.Approved
		}
		base := was
		if earlier, found := inForce(histories[plan.ID], since); found {
			base = earlier
		} else if own := histories[plan.ID]; len(own) > 0 {
			base = own[0] // it was made within the window
		}
		for _, before := range []subscription.Plan{was, base} {
			if plan.Price != was.Price && l.differs(before.Price, plan.Price) {
				return Refuse("the price of plan %s would be %s after %s, a change of more than %d %%: propose it, and let somebody else approve it",
					plan.ID, plan.Price, before.Price, l.PriceChange)
			}
		}
		if !was.Retired {
			return nil
		}
	}
	delete(histories, plan.ID)
	var onSaleNow, onSaleThen, latest []subscription.Plan
	for _, id := range slices.Sorted(maps.Keys(histories)) {
		own := histories[id]
		newest := own[len(own)-1]
		if latest = append(latest, newest); !newest.Retired {
			onSaleNow = append(onSaleNow, newest)
		}
		if version, found := inForce(own, begins); found && !version.Retired {
			onSaleThen = append(onSaleThen, version)
		}
	}
	same := func(other subscription.Plan) bool { return other.Main == plan.Main && other.Addon == plan.Addon }
	less := func(other subscription.Plan) bool { return other.Main == plan.Main && other.Addon == "" }
	for _, alike := range []func(subscription.Plan) bool{same, less} {
		now, isNow := cheapest(onSaleNow, alike)
		then, isThen := cheapest(onSaleThen, alike)
		retired, wasOnce := cheapest(latest, alike)
		for _, compared := range []struct {
			with subscription.Plan
			is   bool
		}{{now, isNow}, {then, isThen}, {retired, wasOnce && !isNow && !isThen}} {
			if other := compared.with; compared.is && l.undercuts(plan, other) {
				return Refuse("plan %s would cost more than %d %% less a month than plan %s of the same components, which costs %s for %d months: propose it, and let somebody else approve it",
					plan.ID, l.PriceChange, other.ID, other.Price, other.Months)
			}
		}
		if wasOnce || isThen {
			return nil
		}
	}
	if i := slices.IndexFunc(latest, func(other subscription.Plan) bool { return other.Main == plan.Main }); i >= 0 {
		return Refuse("plan %s would have the main component of plan %s, and there is no price to compare it with: propose it, and let somebody else approve it",
			plan.ID, latest[i].ID)
	}
	if was.Version == 0 && with.Staff.SecondPerson(actor, 0) {
		return Refuse("plan %s would be the first of main component %s, and there is no price to compare it with: propose it, and let somebody else approve it",
			plan.ID, plan.Main)
	}
	return nil
}

// cheapest is the plan that costs least a month, of those that are alike.
func cheapest(others []subscription.Plan, alike func(subscription.Plan) bool) (least subscription.Plan, found bool) {
	for _, other := range others {
		if !alike(other) {
			continue
		}
		if !found || product(other.Price.Paise(), least.Months).Cmp(product(least.Price.Paise(), other.Months)) < 0 {
			least, found = other, true
		}
	}
	return least, found
}

// inForce is the version of a plan that was in force at a moment.
func inForce(versions []subscription.Plan, at time.Time) (version subscription.Plan, found bool) {
	for _, v := range versions {
		if !v.UpdatedAt.After(at) {
			version, found = v, true
		}
	}
	return version, found
}

// differs reports whether a price is more than PriceChange percent away from another.
func (l Limits) differs(from, to money.Amount) bool {
	change := to.Sub(from)
	if change.IsNegative() {
		change = change.Neg()
	}
	return product(change.Paise(), 100).Cmp(product(from.Paise(), l.PriceChange)) > 0
}

// undercuts reports whether a plan costs more than PriceChange percent less a month
// than another.
func (l Limits) undercuts(plan, other subscription.Plan) bool {
	return product(plan.Price.Paise(), 100*other.Months).Cmp(product(other.Price.Paise(), (100-l.PriceChange)*plan.Months)) < 0
}

func product(a int64, b int) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(int64(b))) }

// PlanChange is what a proposal wants of a plan.
type PlanChange struct {
	// Was is the plan that the difference was shown from; its version is zero for a
	// plan that was not there.
	Was subscription.Plan
	// Plan is what it is to be.
	Plan subscription.Plan
}

// planJSON is a plan in a proposal's change.
type planJSON struct {
	ID          string                `json:"id"`
	Name        string                `json:"name"`
	Description string                `json:"description"`
	Price       money.Amount          `json:"price"`
	Months      int                   `json:"duration"`
	Type        subscription.PlanType `json:"type"`
	Main        string                `json:"main"`
	Addon       string                `json:"addon"`
	Retired     bool                  `json:"retired"`
	Version     int64                 `json:"version"`
}

type planChangeJSON struct {
	Was  planJSON `json:"was"`
	Plan planJSON `json:"plan"`
}

func planToJSON(p subscription.Plan) planJSON {
	return planJSON{p.ID, p.Name, p.Description, p.Price, p.Months, p.Type, p.Main, p.Addon, p.Retired, p.Version}
}

func (p planJSON) plan() subscription.Plan {
	return subscription.Plan{
		ID: p.ID, Name: p.Name, Description: p.Description, Price: p.Price, Months: p.Months, Type: p.Type,
		Main: p.Main, Addon: p.Addon, Retired: p.Retired, Version: p.Version,
	}
}

// PlanChange reads what a proposal of kind plan wants.
func (p Proposal) PlanChange() (PlanChange, error) {
	var change planChangeJSON
	if err := json.Unmarshal([]byte(p.Change), &change); err != nil {
		return PlanChange{}, fmt.Errorf("read what proposal %d wants: %w", p.ID, err)
	}
	return PlanChange{Was: change.Was.plan(), Plan: change.Plan.plan()}, nil
}

// planSubject is a plan as proposals and the log of staff actions name it.
func planSubject(id string) string { return "plan " + id }

// SetPlan makes a plan, or changes the one with that id. The new price holds
// from the next reservation on, on every node.
func (d *Service) SetPlan(ctx context.Context, plan subscription.Plan) (subscription.Plan, error) {
	if err := d.checkPlan(ctx, plan); err != nil {
		return plan, err
	}
	plan.UpdatedAt = d.now()
	return d.store.SetPlan(ctx, d.act(PlanSet), plan)
}

// SubmitPlan makes or changes a plan, or proposes to where that takes a second person.
func (d *Service) SubmitPlan(ctx context.Context, plan subscription.Plan) (Outcome, error) {
	set, err := d.SetPlan(ctx, plan)
	var second *PlanApprovalNeeded
	if !errors.As(err, &second) {
		return Outcome{Plan: set}, err
	}
	plan.Version, plan.Retired = second.Was.Version, false
	change, err := json.Marshal(planChangeJSON{Was: planToJSON(second.Was), Plan: planToJSON(plan)})
	if err != nil {
		return Outcome{}, fmt.Errorf("write the proposal: %w", err)
	}
	return d.propose(ctx, Proposal{Kind: ProposedPlan, Subject: planSubject(plan.ID), Change: string(change)})
}

// approvedPlan is what an approved proposal makes of a plan: what it wants, with the
// version that it was shown from.
func (d *Service) approvedPlan(ctx context.Context, p Proposal, act StaffAction) (subscription.Plan, error) {
	change, err := p.PlanChange()
	if err != nil {
		return subscription.Plan{}, err
	}
	plan := change.Plan
	plan.Version, plan.UpdatedAt = change.Was.Version, act.At
	return plan, d.checkPlan(ctx, plan)
}

// RefusePlanMoved refuses to approve a change of a plan that is no longer what the
// change was proposed from.
func RefusePlanMoved(id string) *Refusal {
	return Refuse("plan %s was changed meanwhile: decline the proposal, and propose it again", id)
}

// OpenPlanProposal finds the proposal that waits for a plan.
func (d *Service) OpenPlanProposal(ctx context.Context, planID string) (p Proposal, found bool, err error) {
	open, err := d.Proposals(ctx, ProposalFilter{Open: true, Most: openPlanProposals})
	for _, p := range open {
		if p.Kind == ProposedPlan && p.Subject == planSubject(planID) {
			return p, true, err
		}
	}
	return p, false, err
}

// openPlanProposals bounds a search through what is open, which is little.
const openPlanProposals = 1000
