package console

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const planPath = "/console/catalogue/plans/"

// catalogueRoutes are the pages of the plans. Changing a price needs a step-up.
func (c console) catalogueRoutes() []web.Route {
	const area = web.Console
	set, retire := whoMay(admin.PlanSet), whoMay(admin.PlanRetire)
	return []web.Route{
		{Method: http.MethodGet, Path: "/console/catalogue", Area: area, Allow: everyone, Keys: "g c", Menu: look.Text("Catalogue"), Icon: "package", Handle: c.showCatalogue},
		{Method: http.MethodGet, Path: "/console/catalogue/new", Area: area, Allow: set, Handle: c.newPlan},
		{Method: http.MethodPost, Path: "/console/catalogue/new/preview", Area: area, Allow: set, Form: "/console/catalogue/new", Handle: c.previewPlan},
		{Method: http.MethodPost, Path: "/console/catalogue/new", Area: area, Allow: set, StepUp: true, Handle: c.setPlan},
		{Method: http.MethodGet, Path: planPath + "{id}", Area: area, Allow: everyone, Handle: c.showPlan},
		{Method: http.MethodGet, Path: planPath + "{id}/edit", Area: area, Allow: set, Handle: c.editPlan},
		{Method: http.MethodPost, Path: planPath + "{id}/preview", Area: area, Allow: set, Form: planPath + "{id}/edit", Handle: c.previewPlan},
		{Method: http.MethodPost, Path: planPath + "{id}/edit", Area: area, Allow: set, StepUp: true, Handle: c.setPlan},
		{Method: http.MethodGet, Path: planPath + "{id}/retire", Area: area, Allow: retire, Handle: c.showRetire},
		{Method: http.MethodPost, Path: planPath + "{id}/retire", Area: area, Allow: retire, StepUp: true, Handle: c.retirePlan},
	}
}

// planAddress returns the URL of a plan's page.
func planAddress(id string) string { return planPath + url.PathEscape(id) }

// planRow is a plan with its state and components.
type planRow struct {
	subscription.Plan
	// State is active, retired, or not_verified if the provider does not sell its
	// components.
	State string
	// Parts are the components, by the provider's names.
	Parts []planPart
}

// Href returns the URL of the plan's page.
func (p planRow) Href() string { return planAddress(p.ID) }

type planPart struct {
	Code, Name string
	Sellable   bool
}

// shelf is the provider's catalogue as last read.
type shelf struct {
	admin.CatalogueState
	byCode map[string]admin.ComponentState
}

func (c console) shelf(v *web.Visit) (shelf, error) {
	state, err := c.service(v).CatalogueState(v.Context(), c.Provider)
	s := shelf{state, map[string]admin.ComponentState{}}
	for _, component := range state.Components {
		s.byCode[component.Code] = component
	}
	return s, err
}

// row compares a plan with what the provider sells.
func (s shelf) row(plan subscription.Plan) planRow {
	row := planRow{Plan: plan, State: "active"}
	for _, code := range []string{plan.Main, plan.Addon} {
		if code == "" {
			continue
		}
		component := s.byCode[code]
		row.Parts = append(row.Parts, planPart{code, component.Name, component.Sellable})
		if !component.Sellable {
			row.State = "not_verified"
		}
	}
	if plan.Retired {
		row.State = "retired"
	}
	return row
}

// choices returns the components that a plan can have in a role, and the present one even
// if it is no longer sold.
func (s shelf) choices(role catalogue.Role, present string) []look.Choice {
	var list []look.Choice
	for _, component := range s.Components {
		if component.Role == role && (component.Sellable || component.Code == present) {
			list = append(list, look.Choice{Value: component.Code, Text: component.Name + " (" + component.Code + ")"})
		}
	}
	return list
}

type cataloguePage struct {
	Shelf   shelf
	Plans   []planRow
	Retired []planRow
	// Counts: the last successful comparison is recent enough to sell by.
	Counts bool
	MaySet bool
}

func (c console) showCatalogue(v *web.Visit) error {
	shelf, err := c.shelf(v)
	if err != nil {
		return err
	}
	plans, err := c.service(v).Plans(v.Context())
	if err != nil {
		return err
	}
	page := cataloguePage{Shelf: shelf, Counts: c.Health(v.Context()).Provider.PricesVerified, MaySet: may(v, admin.PlanSet)}
	for _, plan := range plans {
		if row := shelf.row(plan); plan.Retired {
			page.Retired = append(page.Retired, row)
		} else {
			page.Plans = append(page.Plans, row)
		}
	}
	return v.Show("console/catalogue", page)
}

// plan returns a plan's current version.
func (c console) plan(v *web.Visit, id string) (subscription.Plan, error) {
	plans, err := c.service(v).Plans(v.Context())
	if err != nil {
		return subscription.Plan{}, err
	}
	at := slices.IndexFunc(plans, func(p subscription.Plan) bool { return p.ID == id })
	if at < 0 {
		return subscription.Plan{}, web.NotFound()
	}
	return plans[at], nil
}

type planPage struct {
	Plan    planRow
	History []planVersion
	MaySet  bool
	// Subscribers is the number of subscribers whose active plan it is.
	Subscribers int
	// Later: the number of subscribers is loaded after the page.
	Later bool
	// Proposal is the open proposal; nil if there is none.
	Proposal *proposal
}

// planVersion is a version with its price change.
type planVersion struct {
	admin.PlanVersion
	// Change is the price change; empty if there is none.
	Change string
}

func (c console) showPlan(v *web.Visit) error {
	plan, err := c.plan(v, v.R.PathValue("id"))
	if err != nil {
		return err
	}
	shelf, err := c.shelf(v)
	if err != nil {
		return err
	}
	versions, err := c.service(v).PlanHistory(v.Context(), plan.ID)
	if err != nil {
		return err
	}
	page := planPage{Plan: shelf.row(plan), MaySet: may(v, admin.PlanSet)}
	// htmx loads the number of many subscribers afterwards; without scripts there is a link.
	if quick, err := c.Reports.PlanSubscribersAreQuick(v.Context(), plan.ID); err != nil {
		return err
	} else if page.Later = !quick && !v.ByHTMX() && v.Query("count") != "yes"; !page.Later {
		if page.Subscribers, err = c.Reports.PlanSubscribers(v.Context(), plan.ID); err != nil {
			return err
		}
	}
	if v.ByHTMX() {
		return v.ShowPart("console/plan", "plan-subscribers", page)
	}
	open, found, err := c.service(v).OpenPlanProposal(v.Context(), plan.ID)
	if err != nil {
		return err
	}
	if found {
		seen, err := c.seen(v, []admin.Proposal{open})
		if err != nil {
			return err
		}
		page.Proposal = &seen[0]
	}
	for i, version := range versions {
		row := planVersion{PlanVersion: version}
		if i+1 < len(versions) {
			switch before := versions[i+1].Price; {
			case before.Less(version.Price):
				row.Change = "+" + look.Rupees(version.Price.Sub(before))
			case version.Price.Less(before):
				row.Change = look.Rupees(version.Price.Sub(before))
			}
		}
		page.History = append(page.History, row)
	}
	return v.Show("console/plan", page)
}

type retirePage struct {
	Plan    planRow
	Problem string
}

func (c console) showRetire(v *web.Visit) error {
	plan, err := c.plan(v, v.R.PathValue("id"))
	if err != nil {
		return err
	}
	shelf, err := c.shelf(v)
	if err != nil {
		return err
	}
	return v.Show("console/plan-retire", retirePage{Plan: shelf.row(plan)})
}

func (c console) retirePlan(v *web.Visit) error {
	id := v.R.PathValue("id")
	plan, err := c.plan(v, id)
	if err != nil {
		return err
	}
	if plan.Retired { // a double click
		return v.Redirect(planAddress(id), v.Info(look.Text("The plan is retired already.")))
	}
	if err := c.service(v).RetirePlan(lasting(v), id); err != nil {
		why := told(v, err)
		if why == "" {
			return err
		}
		v.Status = http.StatusUnprocessableEntity
		return v.Show("console/plan-retire", retirePage{Plan: planRow{Plan: plan, State: "active"}, Problem: why})
	}
	return v.Redirect(planAddress(id), v.Success(look.Text("Plan retired. Existing subscriptions continue.")))
}
