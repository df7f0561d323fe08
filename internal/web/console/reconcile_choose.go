package console

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/reconcile"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// choosePrefix begins the name of the form that chooses for one order; its reference follows.
const choosePrefix = "choose-"

// FormName is the name of the form that chooses for the row's order.
func (r differenceRow) FormName() string { return choosePrefix + r.Reference }

// Choosable reports whether the row's order can be adopted once somebody has chosen for it.
func (r differenceRow) Choosable() bool { return choosable(r.Difference) }

// choosable reports whether a forgotten order can be adopted with a plan or an operator that a person
// chooses.
func choosable(d reconcile.Difference) bool {
	return d.Kind == reconcile.TheirsOnly && d.Obstacle == "" && d.Missing.Any()
}

// missingText says what has to be chosen for an order, and why.
func missingText(v *web.Visit, d reconcile.Difference) string {
	var ids []string
	for _, plan := range d.Missing.Plans {
		ids = append(ids, plan.ID)
	}
	var texts []string
	if d.Missing.Operator {
		texts = append(texts, v.T("Nothing here tells whose it is: its operator has to be chosen."))
	}
	switch {
	case len(ids) == 0:
	case len(d.Missing.Asked) > 0:
		texts = append(texts, v.T("Its client has asked for %s, and what fits is %s: the plan that was sold has to be chosen.", strings.Join(d.Missing.Asked, ", "), strings.Join(ids, ", ")))
	default:
		texts = append(texts, v.T("Several plans fit, %s: the one that was sold has to be chosen.", strings.Join(ids, ", ")))
	}
	if d.HasClientKey && len(d.Missing.Asked) == 0 {
		texts = append(texts, v.T("Or wait until its client repeats the request."))
	}
	return strings.Join(texts, " ")
}

// planChoices are plans to choose from, with their prices.
func planChoices(v *web.Visit, plans []subscription.Plan) []look.Choice {
	if len(plans) == 0 {
		return nil
	}
	choices := []look.Choice{{Text: v.T("Choose")}}
	for _, plan := range plans {
		choices = append(choices, look.Choice{Value: plan.ID, Text: fmt.Sprintf("%s (%s), %s", plan.Name, plan.ID, look.Rupees(plan.Price))})
	}
	return choices
}

// operatorChoices are the operators to choose from. The text of each is unique, and is what the field of
// the form has: a number alone is mistyped too easily.
func (c console) operatorChoices(ctx context.Context) ([]look.Choice, error) {
	operators, err := c.Operators.Operators(ctx)
	var choices []look.Choice
	for _, operator := range operators {
		if operator.Status != subscription.OperatorDeleted {
			choices = append(choices, look.Choice{Value: strconv.FormatInt(operator.ID, 10), Text: fmt.Sprintf("%s (%d)", operator.Name, operator.ID)})
		}
	}
	return choices, err
}

// chosenOperator finds the operator of a text: one of the choices, or the number of one. Zero if there is
// none.
func chosenOperator(choices []look.Choice, text string) (id int64, err error) {
	i := slices.IndexFunc(choices, func(choice look.Choice) bool { return choice.Text == text || choice.Value == text })
	if i < 0 {
		return 0, nil
	}
	return strconv.ParseInt(choices[i].Value, 10, 64)
}

// adoptChosen compares once more, and adopts an order with the plan and the operator that the visitor has
// chosen for it.
func (c console) adoptChosen(v *web.Visit, f *form, reference string) error {
	reason := f.text("reason")
	return c.reconciled(v, f, v.Field("day"), v.Field("restored") != "", func(ctx context.Context, comparison *reconcile.Comparison, report reconcile.Report) ([]reconcile.Outcome, error) {
		if err := c.choose(v, f, comparison, report, reference); err != nil || !f.ok() {
			return nil, err
		}
		return comparison.Adopt(ctx, c.service(v), reason, reference)
	})
}

// choose gives a comparison what the visitor has chosen for an order, or sets the errors of the form.
func (c console) choose(v *web.Visit, f *form, comparison *reconcile.Comparison, report reconcile.Report, reference string) error {
	plan, operator := v.Field("plan"), v.Field("operator")
	i := slices.IndexFunc(report.Differences, func(d reconcile.Difference) bool { return d.Reference == reference && choosable(d) })
	// A choice that is not needed any more is not used: what was asked for meanwhile may be something else.
	if i < 0 || plan != "" && len(report.Differences[i].Missing.Plans) == 0 || operator != "" && !report.Differences[i].Missing.Operator {
		f.Problem = v.T("Order %s has changed since you chose. Nothing was adopted: check it again.", reference)
		return nil
	}
	missing := report.Differences[i].Missing
	if len(missing.Plans) > 0 {
		if !slices.ContainsFunc(missing.Plans, func(p subscription.Plan) bool { return p.ID == plan }) {
			f.wrong("plan", v.T("Choose one of the plans that fit."))
		}
		comparison.Choice.Plans = map[string]string{reference: plan}
	}
	if missing.Operator {
		choices, err := c.operatorChoices(v.Context())
		if err != nil {
			return err
		}
		id, err := chosenOperator(choices, operator)
		if err != nil {
			return err
		}
		if id == 0 {
			f.wrong("operator", v.T("There is no such operator. Choose one of the list."))
		}
		comparison.Choice.Operators = map[string]int64{reference: id}
	}
	if !f.ok() {
		f.Problem = v.T("Order %s was not adopted: its form says why.", reference)
	}
	return nil
}
