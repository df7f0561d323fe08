package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

var planChangeTests = []test{
	{"a large price cut needs approval", planPriceByTwo},
	{"a change of term or components needs approval, of name or description not", planTermByTwo},
	{"small price changes within the window add up", planStepsCount},
	{"a new plan that undercuts those on sale needs approval", planUndercuts},
	{"the first plan of a main component needs approval", planOfNewComponent},
	{"a plan set again after retirement is compared with its last version", planComesBack},
	{"an approval does not change a plan that changed meanwhile", planChangedMeanwhile},
	{"a plan change is proposed once, and approved with the right to set plans", planRights},
	{"a term over the limit is refused, and an existing one stays", planTerms},
	{"active subscribers of a plan are counted", planSubscribers},
}

// limitedAdministrator returns the service of an administrator in the console, within the limits of
// split.
func (h *harness) limitedAdministrator(name string, now time.Time) *admin.Service {
	h.createLogin(name, admin.Administrator)
	return admin.NewService(h.Store, sealer{}, "web:"+name, func() time.Time { return now }).WithRole(admin.Administrator, split).WithMaxPlanMonths(24)
}

// createPlans creates plans on the command line, at a time.
func (h *harness) createPlans(at time.Time, plans ...subscription.Plan) {
	h.Helper()
	h.components("TV-BASIC", "TV-FAMILY", "TV-DUO", "TV-OTHER", "OTT-PLUS")
	for _, p := range plans {
		by := staffAction("plan set")
		by.At, p.UpdatedAt = at, at
		_, err := h.SetPlan(h.Context(), by, p)
		h.must(err)
	}
}

func months(p subscription.Plan, n int) subscription.Plan {
	p.Months = n
	return p
}

// sets has a user set a plan, and checks whether that waits for approval.
func (h *harness) sets(service *admin.Service, p subscription.Plan, waits bool) admin.ActionResult {
	h.Helper()
	outcome, err := service.SubmitPlan(h.Context(), p)
	h.must(err)
	if outcome.Waits() != waits {
		h.Errorf("%s at %s for %d months: %+v; want it to wait: %v", p.ID, p.Price, p.Months, outcome, waits)
	}
	return outcome
}

// planAt checks a plan's price.
func (h *harness) planAt(id, price string, months int) subscription.Plan {
	h.Helper()
	plans, err := h.AllPlans(h.Context())
	h.must(err)
	for _, p := range plans {
		if p.ID == id {
			if p.Price != rupees(price) || p.Months != months {
				h.Errorf("%s costs %s for %d months; want %s for %d", id, p.Price, p.Months, price, months)
			}
			return p
		}
	}
	h.Errorf("there is no plan %s", id)
	return subscription.Plan{}
}

var dayBefore = noon.Add(-48 * time.Hour)

func planPriceByTwo(h *harness) {
	h.createPlans(dayBefore, plan("BASIC-1", "199", "TV-BASIC"))
	wanted := months(plan("BASIC-1", "0.01", "TV-BASIC"), 24)
	_, err := h.limitedAdministrator("asha", noon).SetPlan(h.Context(), wanted)
	h.refused("0.01 for 24 months, alone", err)
	p := h.sets(h.limitedAdministrator("asha", noon), wanted, true).Proposal
	if p.Kind != admin.ProposedPlan || p.Subject != "plan BASIC-1" || !p.Amount.IsZero() || p.OperatorID != 0 {
		h.Errorf("proposed %+v", p)
	}
	change, err := p.PlanChange()
	h.must(err)
	if change.Was.Price != rupees("199") || change.Was.Months != 1 || change.Was.Version != 1 || change.Plan.Price != rupees("0.01") || change.Plan.Months != 24 {
		h.Errorf("the difference is %+v", change)
	}
	h.planAt("BASIC-1", "199", 1)
	_, err = h.limitedAdministrator("asha", noon).Approve(h.Context(), p.ID)
	h.refused("approve one's own", err)
	outcome, err := h.limitedAdministrator("binu", noon.Add(time.Hour)).Approve(h.Context(), p.ID)
	h.must(err)
	if outcome.Plan.Version != 2 || outcome.Proposal.Status != admin.ProposalApproved {
		h.Errorf("approved %+v", outcome)
	}
	h.planAt("BASIC-1", "0.01", 24)
	versions, err := h.PlanHistory(h.Context(), "BASIC-1")
	h.must(err)
	if len(versions) != 2 || versions[0].By != "web:binu" || !versions[0].UpdatedAt.Equal(noon.Add(time.Hour)) {
		h.Errorf("the history is %+v", versions)
	}
	var logged []string
	for _, a := range h.auditEntries()[1:] {
		if strings.HasPrefix(a.Actor, "web:") {
			logged = append(logged, a.Actor+" "+a.Action+" "+a.Subject)
		}
	}
	want := fmt.Sprintf("web:asha proposal make proposal %d, web:binu plan set plan BASIC-1, web:binu proposal approve proposal %d", p.ID, p.ID)
	if strings.Join(logged, ", ") != want {
		h.Errorf("the log is %q; want %q", logged, want)
	}
}

func planTermByTwo(h *harness) {
	base := plan("BASIC-1", "199", "TV-BASIC")
	h.createPlans(dayBefore, base)
	renamed := base
	renamed.Name, renamed.Description = "Basic, a month", "All of it"
	h.sets(h.limitedAdministrator("asha", noon), renamed, false)
	dearer := renamed
	dearer.Price = rupees("238.80")
	h.sets(h.limitedAdministrator("asha", noon), dearer, false)
	combo := dearer
	combo.Type, combo.Addon = subscription.Combo, "OTT-PLUS"
	other := dearer
	other.Main = "TV-FAMILY"
	for _, wanted := range []subscription.Plan{months(dearer, 2), combo, other} {
		_, err := h.limitedAdministrator("asha", noon).SetPlan(h.Context(), wanted)
		h.refused("alone", err)
		p := h.sets(h.limitedAdministrator("asha", noon), wanted, true).Proposal
		_, err = h.limitedAdministrator("asha", noon).Withdraw(h.Context(), p.ID, "one after the other")
		h.must(err)
	}
	unsold := dearer
	unsold.Main = "TV-GOLD"
	_, err := h.limitedAdministrator("asha", noon).SubmitPlan(h.Context(), unsold)
	h.refused("propose a component that the provider does not sell", err)
}

func planStepsCount(h *harness) {
	h.createPlans(dayBefore, plan("BASIC-1", "100", "TV-BASIC"))
	asha := h.limitedAdministrator("asha", noon)
	h.sets(asha, plan("BASIC-1", "81", "TV-BASIC"), false)
	h.sets(h.limitedAdministrator("binu", noon.Add(time.Hour)), plan("BASIC-1", "65.61", "TV-BASIC"), true)
	h.must(first(h.limitedAdministrator("binu", noon.Add(time.Hour)).Withdraw(h.Context(), 1, "no")))
	// From 81.00 to 119.00 is a large change, though both are near 100.00.
	h.sets(asha, plan("BASIC-1", "119", "TV-BASIC"), true)
	h.must(first(asha.Withdraw(h.Context(), 2, "no")))
	h.sets(asha, plan("BASIC-1", "97", "TV-BASIC"), false)
	h.sets(asha, plan("BASIC-1", "81", "TV-BASIC"), false)
	// A day later the change is measured from 81.00.
	later := noon.Add(24 * time.Hour)
	h.sets(h.limitedAdministrator("asha", later), plan("BASIC-1", "65.61", "TV-BASIC"), false)
	// The next change is measured from the approved price.
	p := h.sets(h.limitedAdministrator("asha", later), plan("BASIC-1", "200", "TV-BASIC"), true).Proposal
	_, err := h.limitedAdministrator("binu", later.Add(time.Hour)).Approve(h.Context(), p.ID)
	h.must(err)
	h.sets(h.limitedAdministrator("asha", later.Add(2*time.Hour)), plan("BASIC-1", "180", "TV-BASIC"), false)
	h.sets(h.limitedAdministrator("asha", later.Add(2*time.Hour)), plan("BASIC-1", "150", "TV-BASIC"), true)
}

func planUndercuts(h *harness) {
	h.createPlans(dayBefore, plan("BASIC-1", "200", "TV-BASIC"), months(plan("BASIC-12", "1800", "TV-BASIC"), 12), plan("FAMILY-1", "10", "TV-FAMILY"))
	asha := h.limitedAdministrator("asha", noon)
	// The cheapest on sale is 150.00 a month.
	h.sets(asha, plan("NEW-1", "120", "TV-BASIC"), false)
	h.sets(asha, plan("NEW-2", "119.99", "TV-BASIC"), true)
	h.sets(asha, months(plan("NEW-3", "0.01", "TV-BASIC"), 24), true)
	_, err := asha.SetPlan(h.Context(), months(plan("NEW-3", "0.01", "TV-BASIC"), 24))
	h.refused("a plan of 0.01 for 24 months, alone", err)
	// The plan just created is not the only one to compare with.
	h.sets(asha, plan("NEW-4", "96", "TV-BASIC"), true)
	// Retiring the more expensive plans does not help.
	for _, id := range []string{"BASIC-1", "BASIC-12", "NEW-1"} {
		h.must(asha.RetirePlan(h.Context(), id))
	}
	h.sets(asha, plan("NEW-5", "0.01", "TV-BASIC"), true)
	// Neither does waiting until they are out of the window.
	h.sets(h.limitedAdministrator("asha", noon.Add(30*day)), plan("NEW-5B", "0.01", "TV-BASIC"), true)
	// A combo includes the plan without its add-on.
	combo := plan("COMBO-1", "0.01", "TV-BASIC")
	combo.Type, combo.Addon = subscription.Combo, "OTT-PLUS"
	h.sets(asha, combo, true)
	// The main component of a combo has no price of its own.
	h.createPlans(dayBefore, func() subscription.Plan {
		p := combo
		p.ID, p.Main, p.Price = "COMBO-2", "TV-DUO", rupees("500")
		return p
	}())
	h.sets(asha, plan("DUO-1", "0.01", "TV-DUO"), true)
	p := h.sets(asha, months(plan("NEW-6", "1", "TV-BASIC"), 6), true).Proposal
	_, err = h.limitedAdministrator("binu", noon).Approve(h.Context(), p.ID)
	h.must(err)
	if made := h.planAt("NEW-6", "1", 6); made.Version != 1 {
		h.Errorf("made %+v", made)
	}
}

func planOfNewComponent(h *harness) {
	h.createPlans(dayBefore)
	asha := h.limitedAdministrator("asha", noon)
	// A sole administrator creates it: there is no one to approve it.
	h.sets(asha, plan("BASIC-1", "200", "TV-BASIC"), false)
	binu := h.limitedAdministrator("binu", noon)
	p := h.sets(asha, plan("OTHER-1", "0.01", "TV-OTHER"), true).Proposal
	_, err := asha.SetPlan(h.Context(), plan("OTHER-1", "0.01", "TV-OTHER"))
	h.refused("0.01, alone", err)
	why, err := asha.PlanNeedsApproval(h.Context(), subscription.Plan{}, plan("OTHER-1", "0.01", "TV-OTHER"))
	if err != nil || why == nil || !strings.Contains(why.Error(), "the first of main component TV-OTHER") {
		h.Errorf("a second person is needed because %v, %v", why, err)
	}
	h.must(first(binu.Decline(h.Context(), p.ID, "not for so little")))
	p = h.sets(asha, plan("OTHER-1", "150", "TV-OTHER"), true).Proposal
	h.must(first(binu.Approve(h.Context(), p.ID)))
	h.planAt("OTHER-1", "150", 1)
	// From then on there is a price to compare with.
	h.sets(asha, plan("OTHER-2", "140", "TV-OTHER"), false)
	// A plan that is set again had its component before, though no other plan has it.
	h.sets(asha, plan("DUO-1", "300", "TV-DUO"), true)
	h.createPlans(dayBefore, plan("FAMILY-1", "300", "TV-FAMILY"))
	h.must(asha.RetirePlan(h.Context(), "FAMILY-1"))
	h.sets(asha, plan("FAMILY-1", "300", "TV-FAMILY"), false)
	// The command line needs no approval.
	h.createPlans(noon, plan("DUO-1", "1", "TV-DUO"))
}

func planComesBack(h *harness) {
	h.createPlans(dayBefore, plan("BASIC-1", "200", "TV-BASIC"), plan("BASIC-2", "200", "TV-BASIC"))
	asha := h.limitedAdministrator("asha", noon)
	h.must(asha.RetirePlan(h.Context(), "BASIC-1"))
	for _, wanted := range []subscription.Plan{plan("BASIC-1", "159.99", "TV-BASIC"), plan("BASIC-1", "240.01", "TV-BASIC"), months(plan("BASIC-1", "200", "TV-BASIC"), 2)} {
		_, err := asha.SetPlan(h.Context(), wanted)
		h.refused("back as something else, alone", err)
	}
	h.sets(asha, plan("BASIC-1", "160", "TV-BASIC"), false)
	h.must(asha.RetirePlan(h.Context(), "BASIC-1"))
	h.sets(asha, plan("BASIC-1", "128", "TV-BASIC"), true)
	// A day later it still undercuts the other plan.
	h.sets(h.limitedAdministrator("asha", noon.Add(25*time.Hour)), plan("BASIC-1", "130", "TV-BASIC"), true)
}

func planChangedMeanwhile(h *harness) {
	h.createPlans(dayBefore, plan("BASIC-1", "200", "TV-BASIC"))
	asha, binu := h.limitedAdministrator("asha", noon), h.limitedAdministrator("binu", noon)
	p := h.sets(asha, plan("BASIC-1", "20", "TV-BASIC"), true).Proposal
	h.sets(asha, plan("BASIC-1", "190", "TV-BASIC"), false)
	before := len(h.auditEntries())
	_, err := binu.Approve(h.Context(), p.ID)
	h.refused("approve it", err)
	if err != nil && !strings.Contains(err.Error(), "changed meanwhile") {
		h.Errorf("refused with %v", err)
	}
	h.planAt("BASIC-1", "190", 1)
	if open, err := h.Proposal(h.Context(), p.ID); err != nil || open.Status != admin.ProposalOpen || len(h.auditEntries()) != before {
		h.Errorf("the proposal is %+v, %v; want it open, and nothing logged", open, err)
	}
	h.must(first(binu.Decline(h.Context(), p.ID, "not any more")))
	// The same for a plan that was to be created.
	p = h.sets(asha, plan("NEW-1", "1", "TV-BASIC"), true).Proposal
	h.createPlans(noon, plan("NEW-1", "300", "TV-BASIC"))
	_, err = binu.Approve(h.Context(), p.ID)
	h.refused("make what was made meanwhile", err)
	h.planAt("NEW-1", "300", 1)
}

func planRights(h *harness) {
	h.createPlans(dayBefore, plan("BASIC-1", "200", "TV-BASIC"))
	wanted := plan("BASIC-1", "20", "TV-BASIC")
	finance := admin.NewService(h.Store, sealer{}, "web:fina", func() time.Time { return noon }).WithRole(admin.Finance, split)
	_, err := finance.SubmitPlan(h.Context(), wanted)
	h.refused("propose without the right to set plans", err)
	p := h.sets(h.limitedAdministrator("asha", noon), wanted, true).Proposal
	_, err = finance.Approve(h.Context(), p.ID)
	h.refused("approve without the right to set plans", err)
	h.planAt("BASIC-1", "200", 1)
	if again := h.sets(h.limitedAdministrator("binu", noon), wanted, true); !again.Already || again.Proposal != p {
		h.Errorf("proposed again: %+v; want the first one", again)
	}
	_, err = h.limitedAdministrator("binu", noon).SubmitPlan(h.Context(), plan("BASIC-1", "30", "TV-BASIC"))
	h.refused("another change of the same plan", err)
	if found, there, err := h.limitedAdministrator("binu", noon).OpenPlanProposal(h.Context(), "BASIC-1"); err != nil || !there || found != p {
		h.Errorf("found %+v, %v, %v", found, there, err)
	}
	// The command line needs no approval.
	h.createPlans(noon, wanted)
	h.planAt("BASIC-1", "20", 1)
}

func planTerms(h *harness) {
	h.createPlans(dayBefore, months(plan("LONG-1", "6000", "TV-BASIC"), 60))
	root := admin.NewService(h.Store, sealer{}, "cli:asha", func() time.Time { return noon }).WithMaxPlanMonths(24)
	for _, p := range []subscription.Plan{months(plan("NEW-1", "2500", "TV-BASIC"), 25), months(plan("NEW-1", "100", "TV-BASIC"), 0), months(plan("LONG-1", "4800", "TV-BASIC"), 48)} {
		_, err := root.SetPlan(h.Context(), p)
		h.refused(fmt.Sprint(p.Months, " months"), err)
		if err != nil && !strings.Contains(err.Error(), "plans.max_months") {
			h.Errorf("refused with %v; want the setting named", err)
		}
	}
	renamed := months(plan("LONG-1", "6100", "TV-BASIC"), 60)
	renamed.Name = "Five years"
	for _, service := range []*admin.Service{root, h.limitedAdministrator("asha", noon)} {
		_, err := service.SetPlan(h.Context(), renamed)
		h.must(err)
		renamed.Price = rupees("6200")
	}
	h.planAt("LONG-1", "6200", 60)
	_, err := root.SetPlan(h.Context(), months(plan("NEW-2", "2400", "TV-BASIC"), 24))
	h.must(err)
	var second *admin.PlanApprovalNeeded
	if _, err := h.limitedAdministrator("asha", noon).SubmitPlan(h.Context(), months(plan("NEW-3", "1", "TV-BASIC"), 120)); err == nil || errors.As(err, &second) {
		h.Errorf("120 months in the console: %v; want a refusal", err)
	}
}

func planSubscribers(h *harness) {
	s := h.fixture("10000")
	h.createPlans(noon, plan("OTHER-1", "199", "TV-BASIC"))
	count := func(what, id string, at time.Time, want int) {
		s.Helper()
		if got, err := s.CountPlanSubscribers(s.Context(), id, at); err != nil || got != want {
			s.Errorf("%s: %d are counted, %v; want %d", what, got, err, want)
		}
	}
	count("nobody", "BASIC-1", noon, 0)
	s.subscriber("100001", "9800000001")
	s.subscriber("100002", "9800000002")
	s.settle(s.reserve(s.activation("open", "9800000003", "100003")), operation.NeedsReview)
	later := noon.Add(time.Hour)
	count("two active, one in review", "BASIC-1", later, 2)
	// A renewal with another plan changes the plan at once, during the first cycle.
	s.renewedWith(h.planAt("OTHER-1", "199", 1), "other", later)
	count("one went over", "BASIC-1", later.Add(time.Hour), 1)
	count("to the other", "OTHER-1", later.Add(time.Hour), 1)
	count("one renewed", "OTHER-1", noon.Add(40*24*time.Hour), 1)
	count("one expired", "BASIC-1", noon.Add(40*24*time.Hour), 0)
	count("no such plan", "NONE-1", later, 0)
}
