package console

import (
	"errors"
	"net/http"
	"strconv"
	"unicode"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// planForm is a plan as entered.
type planForm struct {
	ID, Name, Description, Price, Months, Type, Main, Addon string
	// Version is the version that the form was made from; zero for a new plan.
	Version string
}

type planFormPage struct {
	Form planForm
	// Action is the URL that saves the form, after a preview.
	Action, Preview, Back string
	New                   bool
	Mains, Addons         []look.Choice
	Problem               string
	Problems              map[string]string
	// Changes are what saving would change, filled in by the preview.
	Changes []planChange
	Ready   bool
	// Second is why a second person has to approve; empty if no approval is needed.
	Second string
	// Subscribers is the number of subscribers whose active plan it is.
	Subscribers int
	MaxMonths   int
}

// planChange is one changed field.
type planChange struct {
	Field, Before, After string
}

func (c console) newPlan(v *web.Visit) error {
	return c.showPlanForm(v, subscription.Plan{Months: 1, Type: subscription.Standard}, true, planFormPage{})
}

func (c console) editPlan(v *web.Visit) error {
	plan, err := c.plan(v, v.R.PathValue("id"))
	if err != nil {
		return err
	}
	return c.showPlanForm(v, plan, false, planFormPage{})
}

// showPlanForm shows the form with the posted values, or else with the plan's.
func (c console) showPlanForm(v *web.Visit, plan subscription.Plan, isNew bool, page planFormPage) error {
	shelf, err := c.shelf(v)
	if err != nil {
		return err
	}
	price := ""
	if !plan.Price.IsZero() {
		price = plan.Price.String()
	}
	page.Form = planForm{
		ID: v.FormValue("id", plan.ID), Name: v.FormValue("name", plan.Name), Description: v.FormValue("description", plan.Description),
		Price: v.FormValue("price", price), Months: v.FormValue("months", strconv.Itoa(plan.Months)), Type: v.FormValue("type", string(plan.Type)),
		Main: v.FormValue("main", plan.Main), Addon: v.FormValue("addon", plan.Addon),
		Version: v.FormValue("version", strconv.FormatInt(plan.Version, 10)),
	}
	page.New, page.MaxMonths = isNew, c.MaxMonths
	if !plan.Retired {
		page.MaxMonths = max(c.MaxMonths, plan.Months)
	}
	page.Action, page.Preview, page.Back = "/console/catalogue/new", "/console/catalogue/new/preview", "/console/catalogue"
	if !isNew {
		page.Form.ID = plan.ID
		page.Back = planAddress(plan.ID)
		page.Action, page.Preview = page.Back+"/edit", page.Back+"/preview"
	}
	page.Mains, page.Addons = shelf.choices(catalogue.Main, plan.Main), shelf.choices(catalogue.Addon, plan.Addon)
	if page.Problem != "" || len(page.Problems) > 0 {
		v.Status = http.StatusUnprocessableEntity
	}
	return v.Show("console/plan-form", page)
}

// typedPlan parses the form, with an error per invalid field.
func (c console) typedPlan(v *web.Visit, id string) (subscription.Plan, map[string]string) {
	problems := map[string]string{}
	plan := subscription.Plan{
		ID: id, Name: v.Field("name"), Description: v.Field("description"), Type: subscription.PlanType(v.Field("type")),
		Main: v.Field("main"), Addon: v.Field("addon"),
	}
	var err error
	if plan.Price, err = money.Parse(v.Field("price")); err != nil || plan.Price.Less(subscription.MinPrice) {
		problems["price"] = v.T("Enter a price in rupees, such as 349.00; the minimum is %s.", look.Rupees(subscription.MinPrice))
	}
	if plan.Months, err = strconv.Atoi(v.Field("months")); err != nil || plan.Months < 1 {
		problems["months"] = v.T("Enter a number of months from 1 to %d.", c.MaxMonths)
	}
	if plan.ID == "" {
		problems["id"] = v.T("Enter a plan ID.")
	}
	if plan.Name == "" {
		problems["name"] = v.T("Enter a name.")
	}
	switch {
	case plan.Type == subscription.Combo && plan.Addon == "":
		problems["addon"] = v.T("A combo needs an add-on.")
	case plan.Type == subscription.Standard && plan.Addon != "":
		problems["addon"] = v.T("A standard plan has no add-on. Take it out, or make the plan a combo.")
	}
	return plan, problems
}

// typed returns the posted plan and the present one; isNew if there is none.
func (c console) typed(v *web.Visit) (plan, before subscription.Plan, isNew bool, page planFormPage, err error) {
	id := v.R.PathValue("id")
	if isNew = id == ""; isNew {
		id = v.Field("id")
	}
	plan, page.Problems = c.typedPlan(v, id)
	before, err = c.plan(v, id)
	switch missing := errors.Is(err, web.NotFound()); {
	case err != nil && !missing:
	case isNew && !missing && page.Problems["id"] == "":
		page.Problems["id"] = v.T("There is a plan with that id already.")
		err = nil
	case isNew:
		before, err = subscription.Plan{Months: 1, Type: subscription.Standard}, nil
	}
	if plan.Months > c.MaxMonths && (isNew || before.Retired || plan.Months != before.Months) && page.Problems["months"] == "" {
		page.Problems["months"] = v.T("Enter a number of months from 1 to %d.", c.MaxMonths)
	}
	return plan, before, isNew, page, err
}

func (c console) previewPlan(v *web.Visit) error {
	plan, before, isNew, page, err := c.typed(v)
	if err != nil {
		return err
	}
	if len(page.Problems) == 0 {
		if err := c.compare(v, before, plan, isNew, &page); err != nil {
			return err
		}
		page.Ready = len(page.Changes) > 0
		if !page.Ready {
			page.Problem = v.T("Nothing would change.")
		}
	}
	return c.showPlanForm(v, before, isNew, page)
}

func (c console) setPlan(v *web.Visit) error {
	plan, before, isNew, page, err := c.typed(v)
	if err != nil {
		return err
	}
	switch {
	case isNew && before.ID == plan.ID && len(c.changes(v, before, plan, false)) == 0: // a double click
		return v.Redirect(planAddress(plan.ID), v.Info(look.Text("The plan already has these values.")))
	case len(page.Problems) > 0:
		return c.showPlanForm(v, before, isNew, page)
	case !isNew && v.Field("version") != strconv.FormatInt(before.Version, 10):
		// Another user was quicker, or this is a double click: the preview that was
		// confirmed is outdated.
		if len(c.changes(v, before, plan, isNew)) == 0 {
			return v.Redirect(planAddress(plan.ID), v.Info(look.Text("The plan already has these values.")))
		}
		v.R.PostForm.Set("version", strconv.FormatInt(before.Version, 10))
		page.Problem = v.T("The plan was changed in the meantime. Review the change again.")
		page.Ready = true
		if err := c.compare(v, before, plan, isNew, &page); err != nil {
			return err
		}
		return c.showPlanForm(v, before, isNew, page)
	}
	outcome, err := c.service(v).SubmitPlan(lasting(v), plan)
	if err != nil {
		if page.Problem = told(v, err); page.Problem == "" {
			return err
		}
		return c.showPlanForm(v, before, isNew, page)
	}
	to := planAddress(plan.ID)
	if isNew && outcome.Waits() {
		to = approvalsPath // the plan has no page before it is approved
	}
	switch {
	case outcome.Waits() && outcome.Already:
		return v.Redirect(to, v.Info(look.Text("The same proposal already needs a second approval.")))
	case outcome.Waits():
		return v.Redirect(to, v.Info(look.Text("Your proposal needs a second approval. The catalogue does not change until then.")))
	}
	return v.Redirect(to, v.Success(look.Text("Plan saved. The price applies from the next sale.")))
}

// compare fills in the preview: what changes, for how many subscribers, and whether a
// second person has to approve it.
func (c console) compare(v *web.Visit, before, plan subscription.Plan, isNew bool, page *planFormPage) error {
	page.Changes = c.changes(v, before, plan, isNew)
	was := before
	if isNew {
		was = subscription.Plan{}
	}
	second, err := c.service(v).PlanNeedsApproval(v.Context(), was, plan)
	if err != nil {
		return err
	}
	if second != nil {
		why := []rune(sentence(v, say(v, second)))
		why[0] = unicode.ToUpper(why[0])
		page.Second = string(why)
	}
	if !isNew {
		page.Subscribers, err = c.Reports.PlanSubscribers(v.Context(), plan.ID)
	}
	return err
}

// changes lists the changed fields.
func (c console) changes(v *web.Visit, before, after subscription.Plan, isNew bool) []planChange {
	fields := []planChange{
		{v.T("Name"), before.Name, after.Name},
		{v.T("Description"), before.Description, after.Description},
		{v.T("Price"), look.Rupees(before.Price), priceChange(before.Price, after.Price)},
		{v.T("Months"), strconv.Itoa(before.Months), strconv.Itoa(after.Months)},
		{v.T("Type"), v.T(planTypes[before.Type]), v.T(planTypes[after.Type])},
		{v.T("Main component"), before.Main, after.Main},
		{v.T("Add-on"), before.Addon, after.Addon},
	}
	if before.Retired {
		fields = append(fields, planChange{v.T("State"), v.T("Retired"), v.T("Active")})
	}
	var changed []planChange
	for _, field := range fields {
		if isNew {
			field.Before = ""
		}
		if field.Before != field.After {
			changed = append(changed, field)
		}
	}
	return changed
}

var planTypes = map[subscription.PlanType]string{
	subscription.Standard: look.Text("Standard"),
	subscription.Combo:    look.Text("Combo"),
}
