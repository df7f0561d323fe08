package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/reconcile"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// Comparer compares the provider's list with our operations.
type Comparer interface {
	// Comparison returns a comparison that has not run yet.
	Comparison() *reconcile.Comparison
	// Restored returns the window of a restore that is open; it refuses if there is none, or if
	// it is not known from when the store was.
	Restored(ctx context.Context) (reconcile.Window, error)
}

const (
	reconcilePath = "/console/reconcile"
	// compareTimeout is shorter than that of a request: a longer comparison is for the command line.
	compareTimeout = 25 * time.Second
	// differencesShown limits the list on the page.
	differencesShown = 500
)

func (c console) reconcileRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: reconcilePath, Area: web.Console, Allow: everyone, Keys: "g p", Menu: look.Text("Reconciliation"), Icon: "plug", Handle: c.showReconcile},
		actionRoute(admin.OperationAdopt, reconcilePath, reconcilePath, c.adopt),
	}
}

type reconcilePage struct {
	Form *form
	// Day and Restored are what is compared; Today and Yesterday are for the form.
	Day           string
	Restored      bool
	Yesterday     string
	MayAdopt      bool
	InRestore     bool
	InMaintenance bool
	Compared      bool
	Orders, Ours  int
	// Rows are those shown first, Rest the others, which are folded away; RestOpen: a form among them was refused.
	Rows, Rest       []differenceRow
	RestOpen         bool
	More             int
	Sums             []differenceSum
	Problem, Stopped string
	// Adoptable counts the orders that can be adopted as they are, Choosable those that can once
	// somebody has chosen their plan or operator; Operators are for the latter.
	// Reversible counts the reversals that can be carried out here, too; Undone the orders that are not
	// known here and need nothing.
	Adoptable, Choosable, Reversible, Undone int
	Operators                                []look.Choice
}

type differenceRow struct {
	reconcile.Difference
	// Act says what to do, in the visitor's language; Problem is why it was not adopted now.
	Act, Problem string
	// Plans are those to choose from.
	Plans []look.Choice
}

type differenceSum struct {
	Kind  string
	Count int
	Sum   money.Amount
}

// differenceNames are the kinds of differences.
var differenceNames = map[reconcile.Kind]string{
	reconcile.OursOnly:   look.Text("Only here"),
	reconcile.TheirsOnly: look.Text("Only at the provider"),
	reconcile.Differs:    look.Text("Different"),
}

// differenceActs are what to do about a difference.
var differenceActs = map[reconcile.Kind]string{
	reconcile.OursOnly:   look.Text("Ask the provider about it. If it was not carried out, have it carried out, or pay it back by adjusting the wallet."),
	reconcile.TheirsOnly: look.Text("Adopt it: it is charged as it was, and found again when the client repeats its request."),
	reconcile.Differs:    look.Text("Ask the provider what it carried out, and correct the side that is wrong."),
}

// KindName is the name of a row's kind.
func (r differenceRow) KindName() string { return differenceNames[r.Kind] }

// Parts are the components of a row.
func (r differenceRow) Parts() string { return strings.Join(r.Components, " + ") }

func (c console) showReconcile(v *web.Visit) error {
	return c.reconciled(v, newForm(v, ""), v.Query("day"), v.Query("restored") != "", nil)
}

// adopting adopts orders of a comparison that has run. If it sets errors of the form, it has changed nothing.
type adopting func(ctx context.Context, comparison *reconcile.Comparison, report reconcile.Report) ([]reconcile.Outcome, error)

// reconciled compares what the visitor has chosen, lets adopt change it, and shows what is left.
func (c console) reconciled(v *web.Visit, f *form, day string, restored bool, adopt adopting) error {
	page := reconcilePage{Form: f, Day: day, Restored: restored, MayAdopt: may(v, admin.OperationAdopt), Yesterday: v.Now.Add(-24 * time.Hour).In(subscription.IST).Format(time.DateOnly)}
	mode, err := c.Store.Maintenance(v.Context())
	if err != nil {
		return err
	}
	page.InMaintenance = mode.On
	window, restoreErr := c.Compare.Restored(v.Context())
	page.InRestore = restoreErr == nil
	switch {
	case restored && restoreErr != nil:
		if !refused(restoreErr) {
			return restoreErr
		}
		page.Problem = v.T("No restore of this store is open, or it is not known from when. Compare a day instead.")
	case !restored && day != "":
		if window, err = reconcile.Day(day); err != nil {
			page.Problem = v.T("Choose a day.")
		}
	}
	if page.Problem != "" || !restored && day == "" {
		return c.showComparison(v, page)
	}
	ctx, cancel := context.WithTimeout(v.Context(), compareTimeout)
	defer cancel()
	comparison := c.Compare.Comparison()
	report, err := comparison.Run(ctx, window)
	if problem := c.comparisonProblem(v, ctx, err); problem != "" {
		page.Problem = problem
		return c.showComparison(v, page)
	}
	page.Compared, page.Orders, page.Ours = true, report.Orders, report.Operations
	done := map[string]reconcile.Outcome{}
	if adopt != nil {
		outcomes, err := adopt(lasting(v), comparison, report)
		if err != nil {
			return err
		}
		adopted := 0
		for _, outcome := range outcomes {
			done[outcome.Reference] = outcome
			if outcome.Adopted {
				adopted++
			}
		}
		switch {
		case !f.ok():
			page.Problem = f.Problem
		case adopted == len(outcomes):
			return v.Redirect(comparedAddress(day, restored), v.Success(look.Text("Adopted orders: %s."), look.Count(int64(adopted))))
		default:
			page.Stopped = v.T("%s of %s orders were adopted. The rest give their reasons.", look.Count(int64(adopted)), look.Count(int64(len(outcomes))))
		}
	}
	page.fill(v, report, done)
	if page.Choosable > 0 && page.MayAdopt && page.InMaintenance {
		if page.Operators, err = c.operatorChoices(v.Context()); err != nil {
			return err
		}
	}
	return c.showComparison(v, page)
}

// comparisonProblem describes an error of a comparison to the visitor; empty if there is none.
func (c console) comparisonProblem(v *web.Visit, ctx context.Context, err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, operation.ErrListUnsupported):
		return v.T("This provider does not list its orders, so nothing can be compared here. Get its export, and give that to coax reconcile --file.")
	case ctx.Err() != nil:
		return v.T("The provider's list takes longer than a page can wait. Nothing was changed. Compare on the command line: coax reconcile.")
	}
	return v.T("The comparison could not be made: %s", err)
}

// fill puts the differences on the page, but for those that were adopted now.
func (p *reconcilePage) fill(v *web.Visit, report reconcile.Report, done map[string]reconcile.Outcome) {
	p.Undone = len(report.Undone)
	sums := map[reconcile.Kind]*differenceSum{}
	for _, d := range report.Differences {
		outcome := done[d.Reference]
		if outcome.Adopted {
			continue
		}
		sum := sums[d.Kind]
		if sum == nil {
			sum = &differenceSum{Kind: differenceNames[d.Kind]}
			sums[d.Kind] = sum
		}
		sum.Count, sum.Sum = sum.Count+1, sum.Sum.Add(d.Amount)
		switch {
		case d.Reversible():
			p.Reversible++
		case d.Adoptable():
			p.Adoptable++
		case choosable(d):
			p.Choosable++
		}
		switch row := rowOf(v, d, outcome); {
		case len(p.Rows) < web.PageRows:
			p.Rows = append(p.Rows, row)
		case len(p.Rows)+len(p.Rest) == differencesShown:
			p.More++
		default:
			p.Rest = append(p.Rest, row)
			p.RestOpen = p.RestOpen || row.Problem != "" || !p.Form.ok() && p.Form.Name == row.FormName()
		}
	}
	for _, kind := range []reconcile.Kind{reconcile.OursOnly, reconcile.TheirsOnly, reconcile.Differs} {
		if sum := sums[kind]; sum != nil {
			p.Sums = append(p.Sums, *sum)
		}
	}
}

func (c console) showComparison(v *web.Visit, page reconcilePage) error {
	if !page.Form.ok() {
		return again(v, "console/reconcile", page)
	}
	return v.Show("console/reconcile", page)
}

// rowOf returns the row of a difference, and of what came of adopting it now.
func rowOf(v *web.Visit, d reconcile.Difference, outcome reconcile.Outcome) differenceRow {
	row := differenceRow{Difference: d, Act: v.T(differenceActs[d.Kind])}
	switch {
	case d.Reversible():
		row.Act = v.T("The provider has undone it. Adopt the reversal: the provider is asked again, and its answer returns the money.")
	case d.Obstacle != "":
		row.Act = v.T("It cannot be adopted as it is: %s", d.Obstacle)
	case d.Missing.Any():
		row.Act = missingText(v, d)
		row.Plans = planChoices(v, d.Missing.Plans)
	}
	switch {
	case outcome.Refused != nil:
		row.Problem = say(v, outcome.Refused)
	case outcome.Obstacle != "":
		row.Problem = outcome.Obstacle
	case !outcome.Missing.Any(): // else Act says what is missing
		row.Problem = outcome.Problem
	}
	return row
}

// adopt compares once more, and adopts one forgotten order or all, or one with what the visitor has chosen
// for it.
func (c console) adopt(v *web.Visit) error {
	name := v.Field("form")
	if reference, is := strings.CutPrefix(name, choosePrefix); is {
		return c.adoptChosen(v, newForm(v, name), reference)
	}
	f := newForm(v, "adopt")
	reason, only := f.text("reason"), v.Field("reference")
	return c.reconciled(v, f, v.Field("day"), v.Field("restored") != "", func(ctx context.Context, comparison *reconcile.Comparison, _ reconcile.Report) ([]reconcile.Outcome, error) {
		if !f.ok() {
			return nil, nil
		}
		outcomes, err := comparison.Adopt(ctx, c.service(v), reason, only)
		if only != "" && len(outcomes) == 0 {
			f.Problem = v.T("There is no missing order with the number %s.", only)
		}
		return outcomes, err
	})
}

// comparedAddress returns the URL of a comparison.
func comparedAddress(day string, restored bool) string {
	if restored {
		return reconcilePath + "?restored=yes"
	}
	return reconcilePath + "?day=" + url.QueryEscape(day)
}
