package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// commissionRoutes are the pages of the MSO's commission. Closing a month is final.
func (c console) commissionRoutes() []web.Route {
	const area = web.Console
	return []web.Route{
		{Method: http.MethodGet, Path: "/console/commission", Area: area, Allow: everyone, Keys: "g m", Menu: look.Text("Commission"), Icon: "percent", Handle: c.showCommission},
		{Method: http.MethodGet, Path: "/console/commission/sums/{format}", Area: area, Allow: everyone, Handle: c.downloadSums},
		{Method: http.MethodGet, Path: "/console/commission/lines/{format}", Area: area, Allow: everyone, Handle: c.downloadLines},
		{Method: http.MethodPost, Path: "/console/commission/close", Area: area, Allow: whoMay(admin.CommissionClose), StepUp: true, Form: "/console/commission", Handle: c.closePeriod},
	}
}

// monthsOffered is the number of months in the list; the URL takes any other.
const monthsOffered = 24

type commissionPage struct {
	Month     admin.Month
	MonthText string
	Months    []look.Choice
	Operators []look.Choice
	Operator  string
	Groups    []commissionGroup
	// Count is that of the sales, Reversed of what was reversed; Sales and Earned are without that.
	Count    int
	Reversed int
	Sales    money.Amount
	Earned   money.Amount
	// Reversals are those that were carried out in the month.
	Reversals []reversalRow
	Chart     []look.Point
	// ChartBefore is the month before.
	ChartBefore look.Earlier
	Closed      []closedRow
	Pager       web.Pager // of the closed months
	// Running: the month is not over, and cannot be closed.
	Running  bool
	MayClose bool
	// AllClosed: the month is over, and closed for every shown operator.
	AllClosed bool
	Problem   string
	Query     string
	// Later: the sums are slow and are loaded after the page.
	Later bool
}

// commissionGroup is an operator's plans with their sum.
type commissionGroup struct {
	ID            int64
	Name          string
	Rows          []report.CommissionSum
	Count         int
	Reversals     int
	Sales, Earned money.Amount
	// Closed is when the month was closed for this operator; zero if it is open.
	ClosedAt time.Time
}

type closedRow struct {
	admin.ClosedPeriod
	OperatorName string
	MonthText    string
}

// monthText formats a month.
func monthText(v *web.Visit, month admin.Month) string {
	// look.Day begins with the day, which is cut off.
	return v.T(monthNames[month.Month-1], month.Year)
}

var monthNames = [...]string{
	look.Text("January %d"), look.Text("February %d"), look.Text("March %d"), look.Text("April %d"),
	look.Text("May %d"), look.Text("June %d"), look.Text("July %d"), look.Text("August %d"),
	look.Text("September %d"), look.Text("October %d"), look.Text("November %d"), look.Text("December %d"),
}

// asked returns the month and operator of the query; by default the present month and all
// operators.
func (c console) asked(v *web.Visit) (month admin.Month, operatorID int64, err error) {
	month = admin.MonthOf(v.Now)
	if text := v.FormValue("month", v.Query("month")); text != "" {
		if month, err = admin.ParseMonth(text); err != nil {
			return month, 0, web.NotFound()
		}
	}
	if text := v.FormValue("operator", v.Query("operator")); text != "" {
		if operatorID, err = strconv.ParseInt(text, 10, 64); err != nil || operatorID < 0 {
			return month, 0, web.NotFound()
		}
	}
	return month, operatorID, nil
}

func (c console) showCommission(v *web.Visit) error {
	month, operatorID, err := c.asked(v)
	if err != nil {
		return err
	}
	return c.commission(v, month, operatorID, "")
}

func (c console) commission(v *web.Visit, month admin.Month, operatorID int64, problem string) error {
	// htmx loads slow sums afterwards; without scripts there is a link to them.
	wait := v.ByHTMX() || v.Query("sums") == "yes"
	if !wait {
		var err error
		if wait, err = c.Reports.CommissionIsQuick(v.Context(), operatorID, month.Begins(), month.Begins().AddDate(0, -1, 0)); err != nil {
			return err
		}
	}
	var sums, sumsBefore []report.CommissionSum
	if wait {
		var err error
		if sums, err = c.Reports.Commission(v.Context(), operatorID, month.Begins()); err != nil {
			return err
		}
		if sumsBefore, err = c.Reports.Commission(v.Context(), operatorID, month.Begins().AddDate(0, -1, 0)); err != nil {
			return err
		}
	}
	operators, err := c.service(v).Operators(v.Context())
	if err != nil {
		return err
	}
	closed, err := c.service(v).ClosedPeriods(v.Context(), operatorID)
	if err != nil {
		return orNotFound(err)
	}
	page := commissionPage{
		Month: month, MonthText: monthText(v, month), Running: v.Now.Before(month.Ends()), MayClose: may(v, admin.CommissionClose), Problem: problem,
		Query: fmt.Sprintf("month=%s&operator=%d", month, operatorID), Operator: strconv.FormatInt(operatorID, 10), Later: !wait,
		Operators: []look.Choice{{Value: "0", Text: v.T("All operators")}},
	}
	names := map[int64]string{}
	for _, operator := range operators {
		names[operator.ID] = operator.Name
		page.Operators = append(page.Operators, look.Choice{Value: strconv.FormatInt(operator.ID, 10), Text: operator.Name})
	}
	for i, at := 0, admin.MonthOf(v.Now); i < monthsOffered; i, at = i+1, admin.MonthOf(at.Begins().Add(-time.Hour)) {
		page.Months = append(page.Months, look.Choice{Value: at.String(), Text: monthText(v, at)})
	}
	closedAt := map[int64]time.Time{}
	for _, period := range closed {
		if period.Month == month {
			closedAt[period.OperatorID] = period.ClosedAt
		}
	}
	closed, page.Pager = web.PageOf(v, "/console/commission", closed, -1)
	page.Pager = page.Pager.At("closed")
	for _, period := range closed {
		page.Closed = append(page.Closed, closedRow{period, names[period.OperatorID], monthText(v, period.Month)})
	}
	page.add(sums, closedAt)
	if page.Reversals, err = c.reversalsOf(v, month, operatorID); err != nil {
		return err
	}
	page.Chart, page.ChartBefore = planCharts(v, sums, sumsBefore)
	if !page.Running {
		page.ChartBefore.Change = monthChange(v, sums, sumsBefore)
	}
	page.AllClosed = !page.Running && !slices.ContainsFunc(operators, func(o subscription.Operator) bool {
		return closedAt[o.ID].IsZero() && (operatorID == 0 || operatorID == o.ID) && o.CreatedAt.Before(month.Ends())
	})
	if problem != "" {
		v.Status = http.StatusUnprocessableEntity
	}
	if v.ByHTMX() {
		return v.ShowPart("console/commission", "sums", page)
	}
	return v.Show("console/commission", page)
}

// reversalsOf lists what was reversed in a month.
func (c console) reversalsOf(v *web.Visit, month admin.Month, operatorID int64) ([]reversalRow, error) {
	reversals, err := c.service(v).Reversals(v.Context(), admin.ReversalFilter{From: month.Begins(), Before: month.Ends(), OperatorID: operatorID, Limit: reversalsRead})
	if err != nil || len(reversals) == 0 {
		return nil, err
	}
	return c.reversalRowsOf(v, reversals)
}

// add groups the sums, which come by operator, and adds them up.
func (p *commissionPage) add(sums []report.CommissionSum, closedAt map[int64]time.Time) {
	for _, sum := range sums {
		if n := len(p.Groups); n == 0 || p.Groups[n-1].ID != sum.OperatorID {
			p.Groups = append(p.Groups, commissionGroup{ID: sum.OperatorID, Name: sum.OperatorName, ClosedAt: closedAt[sum.OperatorID]})
		}
		group := &p.Groups[len(p.Groups)-1]
		group.Rows = append(group.Rows, sum)
		group.Count, group.Reversals = group.Count+sum.Count, group.Reversals+sum.Reversals
		group.Sales, group.Earned = group.Sales.Add(sum.Sales), group.Earned.Add(sum.Commission)
		p.Count, p.Reversed = p.Count+sum.Count, p.Reversed+sum.Reversals
		p.Sales, p.Earned = p.Sales.Add(sum.Sales), p.Earned.Add(sum.Commission)
	}
}

const (
	// plansDrawn is the number of bars that fit on a phone, labelLength the length of their
	// labels.
	plansDrawn  = 5
	labelLength = 10
)

// planCharts returns the chart of the plans that earned most, over all operators, and the
// same plans in the month before.
func planCharts(v *web.Visit, sums, before []report.CommissionSum) ([]look.Point, look.Earlier) {
	earned, earlier := byPlan(sums), byPlan(before)
	plans := slices.SortedFunc(maps.Keys(earned), func(a, b string) int {
		return cmp.Or(cmp.Compare(earned[b].Paise(), earned[a].Paise()), cmp.Compare(a, b))
	})
	var points []look.Point
	was := look.Earlier{Name: v.T("Month before")}
	for _, id := range plans[:min(len(plans), plansDrawn)] {
		label := []rune(id)
		if len(label) > labelLength {
			label = append(label[:labelLength-1], '…')
		}
		points = append(points, look.Point{Label: string(label), Value: earned[id].Paise()})
		was.Points = append(was.Points, look.Point{Label: string(label), Value: earlier[id].Paise()})
	}
	return points, was
}

// byPlan adds up commission by plan, over all operators.
func byPlan(sums []report.CommissionSum) map[string]money.Amount {
	plans := map[string]money.Amount{}
	for _, sum := range sums {
		plans[sum.PlanID] = plans[sum.PlanID].Add(sum.Commission)
	}
	return plans
}

// monthChange compares the commission of all plans with that of the month before.
func monthChange(v *web.Visit, sums, before []report.CommissionSum) string {
	total := func(sums []report.CommissionSum) (paise int64) {
		for _, sum := range sums {
			paise += sum.Commission.Paise()
		}
		return paise
	}
	switch percent, known := look.Change(total(sums), total(before)); {
	case !known:
		return v.T("All plans together: nothing in the month before.")
	case percent > 0:
		return v.T("All plans together: %s more than in the month before.", look.Count(percent)+"%")
	case percent < 0:
		return v.T("All plans together: %s less than in the month before.", look.Count(-percent)+"%")
	}
	return v.T("All plans together: as much as in the month before.")
}

func (c console) closePeriod(v *web.Visit) error {
	month, operatorID, err := c.asked(v)
	if err != nil {
		return err
	}
	closed, err := c.service(v).ClosePeriod(lasting(v), month, operatorID)
	if err != nil {
		why := told(v, err)
		if why == "" {
			return err
		}
		return c.commission(v, month, operatorID, why)
	}
	var sum money.Amount
	for _, period := range closed {
		sum = sum.Add(period.Amount)
	}
	return v.Redirect(fmt.Sprintf("/console/commission?month=%s&operator=%d", month, operatorID),
		v.Success(look.Text("%s is closed: %s."), monthText(v, month), look.Rupees(sum)))
}
