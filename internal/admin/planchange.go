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

// maxPlanMonths is the upper bound of plans.max_months.
const maxPlanMonths = 120

// WithMaxPlanMonths returns a copy of the service that sets no plan to a longer term.
func (s *Service) WithMaxPlanMonths(months int) *Service {
	bound := *s
	bound.maxMonths = months
	return &bound
}

// checkPlan refuses an invalid plan, from the command line, too.
func (s *Service) checkPlan(ctx context.Context, plan subscription.Plan) error {
	for _, text := range []struct {
		name           Term
		value          string
		minLen, maxLen int
	}{
		{Term("plan's id"), plan.ID, 1, 100}, {Term("plan's name"), plan.Name, 1, 100},
		{Term("plan's description"), plan.Description, 0, 500}, {Term("plan's main component"), plan.Main, 1, 100},
	} {
		if err := checkText(text.name, text.value, text.minLen, text.maxLen); err != nil {
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
	return s.checkTerm(ctx, plan)
}

// checkTerm refuses a term beyond plans.max_months. A plan that is on sale with a
// longer one keeps it, and can be changed otherwise.
func (s *Service) checkTerm(ctx context.Context, plan subscription.Plan) error {
	limit := cmp.Or(s.maxMonths, maxPlanMonths)
	if plan.Months >= 1 && plan.Months <= limit {
		return nil
	}
	plans, err := s.store.AllPlans(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(plans, func(p subscription.Plan) bool { return p.ID == plan.ID && !p.Retired && p.Months == plan.Months }) {
		return nil
	}
	return Refuse("a duration of %d months is outside 1 to %d (plans.max_months)", plan.Months, limit)
}

// PlanApprovalNeeded is why a plan cannot be created or changed without approval.
type PlanApprovalNeeded struct {
	// Was is the plan as it is now; its version is zero if it is new.
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
	// Staff says whether anybody could approve a new plan that there is nothing to compare
	// with; zero where the plan is not new.
	Staff StaffAccess
}

// CheckPlanChange returns a *PlanApprovalNeeded if the actor may not set a plan without
// approval. A store calls it in the transaction that sets the plan. was is the plan before
// the change; its version is zero if the plan is new.
func (a StaffAction) CheckPlanChange(was, plan subscription.Plan, with PlanComparison) error {
	if a.limits == nil {
		return nil
	}
	if why := a.limits.planNeedsApproval(a.Actor, was, plan, with, a.At); why != nil {
		return &PlanApprovalNeeded{Was: was, Refusal: why}
	}
	return nil
}

// PlanNeedsApproval returns why the actor would need approval to set a plan now; nil if
// they would not.
func (s *Service) PlanNeedsApproval(ctx context.Context, was, plan subscription.Plan) (*Refusal, error) {
	with, err := s.store.PlanComparison(ctx, plan.ID)
	if err != nil || !s.limited {
		return nil, err
	}
	return s.limits.planNeedsApproval(s.actor, was, plan, with, s.now()), nil
}

// planNeedsApproval returns why an actor's change of a plan needs approval; nil if it does
// not.
//
// Prices are compared with those of now and with those at the beginning of the window:
// several small changes within it add up, and a plan that was retired or created within it
// cannot change the comparison. A new plan is compared with plans of the same components
// (retired ones, if none is on sale), or else with those of its main component alone. Where
// no plan ever had its main component, its price needs approval if anybody can approve it:
// otherwise the first plans could not be created in the console.
func (l Limits) planNeedsApproval(actor string, was, plan subscription.Plan, with PlanComparison, now time.Time) *Refusal {
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
			base = own[0] // it was created within the window
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
	if was.Version == 0 && with.Staff.HasApprover(actor, 0) {
		return Refuse("plan %s would be the first of main component %s, and there is no price to compare it with: propose it, and let somebody else approve it",
			plan.ID, plan.Main)
	}
	return nil
}

// cheapest returns the plan with the lowest monthly price, of those that are alike.
func cheapest(others []subscription.Plan, alike func(subscription.Plan) bool) (lowest subscription.Plan, found bool) {
	for _, other := range others {
		if !alike(other) {
			continue
		}
		if !found || product(other.Price.Paise(), lowest.Months).Cmp(product(lowest.Price.Paise(), other.Months)) < 0 {
			lowest, found = other, true
		}
	}
	return lowest, found
}

// inForce returns the version of a plan that was in force at a moment.
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

// undercuts reports whether a plan's monthly price is more than PriceChange percent below
// another's.
func (l Limits) undercuts(plan, other subscription.Plan) bool {
	return product(plan.Price.Paise(), 100*other.Months).Cmp(product(other.Price.Paise(), (100-l.PriceChange)*plan.Months)) < 0
}

func product(a int64, b int) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(int64(b))) }

// PlanChange is a proposed change of a plan.
type PlanChange struct {
	// Was is the plan when the change was proposed; its version is zero for a new plan.
	Was subscription.Plan
	// Plan is the new state.
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

// PlanChange reads the change of a proposal of kind plan.
func (p Proposal) PlanChange() (PlanChange, error) {
	var change planChangeJSON
	if err := json.Unmarshal([]byte(p.Change), &change); err != nil {
		return PlanChange{}, fmt.Errorf("read what proposal %d wants: %w", p.ID, err)
	}
	return PlanChange{Was: change.Was.plan(), Plan: change.Plan.plan()}, nil
}

// planSubject is a plan's subject in proposals and the audit log.
func planSubject(id string) string { return "plan " + id }

// SetPlan creates a plan, or changes the one with that id. The new price applies from the
// next reservation on, on every node.
func (s *Service) SetPlan(ctx context.Context, plan subscription.Plan) (subscription.Plan, error) {
	if err := s.checkPlan(ctx, plan); err != nil {
		return plan, err
	}
	plan.UpdatedAt = s.now()
	return s.store.SetPlan(ctx, s.newAction(PlanSet), plan)
}

// SubmitPlan creates or changes a plan, or proposes it where that needs approval.
func (s *Service) SubmitPlan(ctx context.Context, plan subscription.Plan) (ActionResult, error) {
	set, err := s.SetPlan(ctx, plan)
	var needed *PlanApprovalNeeded
	if !errors.As(err, &needed) {
		return ActionResult{Plan: set}, err
	}
	plan.Version, plan.Retired = needed.Was.Version, false
	change, err := json.Marshal(planChangeJSON{Was: planToJSON(needed.Was), Plan: planToJSON(plan)})
	if err != nil {
		return ActionResult{}, fmt.Errorf("write the proposal: %w", err)
	}
	return s.propose(ctx, Proposal{Kind: ProposedPlan, Subject: planSubject(plan.ID), Change: string(change)})
}

// approvedPlan returns the new state of a plan by an approved proposal, with the version
// that it was proposed from.
func (s *Service) approvedPlan(ctx context.Context, p Proposal, action StaffAction) (subscription.Plan, error) {
	change, err := p.PlanChange()
	if err != nil {
		return subscription.Plan{}, err
	}
	plan := change.Plan
	plan.Version, plan.UpdatedAt = change.Was.Version, action.At
	return plan, s.checkPlan(ctx, plan)
}

// RefusePlanChanged refuses to approve a change of a plan that has changed since the
// proposal was made.
func RefusePlanChanged(id string) *Refusal {
	return Refuse("plan %s was changed meanwhile: decline the proposal, and propose it again", id)
}

// OpenPlanProposal finds the open proposal to change a plan.
func (s *Service) OpenPlanProposal(ctx context.Context, planID string) (p Proposal, found bool, err error) {
	open, err := s.Proposals(ctx, ProposalFilter{Open: true, Limit: openPlanProposals})
	for _, p := range open {
		if p.Kind == ProposedPlan && p.Subject == planSubject(planID) {
			return p, true, err
		}
	}
	return p, false, err
}

// openPlanProposals bounds a search through the open proposals, of which there are few.
const openPlanProposals = 1000
