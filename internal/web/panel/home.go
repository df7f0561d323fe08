package panel

import (
	"net/http"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

func (p panel) homeRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: "/panel/", Area: web.Panel, Allow: everyone, Menu: look.Text("Home"), Icon: "house", Handle: p.home},
	}
}

// What home lists of those who expire next and of today's operations: as much as one
// takes in at a glance.
const (
	soonRows   = 6
	latestRows = 6
)

type homePage struct {
	report.Home
	Name string
	// Outlook says how far the wallet goes; empty while that is not known.
	Outlook string
	Due     string // in the next days; empty likewise
	// Outcomes and Spent are the charts' thirty days, as far as they are known.
	Outcomes   []look.Series
	Spent      []look.Point
	TodayCount int
	TodaySpent string
	Latest     []entry
	Soon       []row
}

func (p panel) home(v *web.Visit) error {
	// A script comes for the figures that were left out; who has none can ask for them.
	home, err := p.Report.Home(v.Context(), v.Operator(), v.ByHTMX() || v.Query("figures") == "yes")
	if err != nil {
		return err
	}
	latest, err := p.Report.Transactions(v.Context(), v.Operator(), report.TransactionFilter{From: v.Now, Limit: latestRows})
	if err != nil {
		return err
	}
	page := homePage{Home: home, Name: v.Session.Person.Name, Latest: entries(latest.Rows), Soon: rows(home.Soon[:min(len(home.Soon), soonRows)], v.Now)}
	if home.Figures != nil {
		page.Outcomes, page.Spent = charts(v, home.Figures.Days)
		page.Outlook = outlook(v, home.Figures.Forecast)
		page.Due = v.T("%s fall due in 7 days", look.Rupees(home.Figures.Forecast.Week.Amount))
	}
	page.TodayCount, _ = home.Today.Sum()
	_, spent := home.Today.Sum(operation.Success)
	page.TodaySpent = look.Rupees(spent)
	if v.ByHTMX() {
		return v.ShowPart("panel/home", "figures", page)
	}
	return v.Show("panel/home", page)
}

// outlook is a forecast in a sentence or two.
func outlook(v *web.Visit, f report.Forecast) string {
	due := look.Rupees(f.Week.Amount)
	if f.Covered() {
		return v.T("%s fall due in 7 days; the wallet covers the next 30 days.", due)
	}
	return v.T("%s fall due in 7 days; the wallet lasts until %s. For the next 30 days, %s are missing.",
		due, v.Look.Day(v.Language(), f.LastsUntil), look.Rupees(f.Missing))
}

// charts are the last days as home draws them: how the operations ended, and what
// those that succeeded came to.
func charts(v *web.Visit, days []report.DayTotals) (outcomes []look.Series, spent []look.Point) {
	outcomes = []look.Series{
		{Name: v.T("Success"), Kind: "good"},
		{Name: v.T("Failed"), Kind: "bad"},
		{Name: v.T("Open"), Kind: "warn"},
	}
	states := [][]operation.State{{operation.Success}, {operation.Failed}, {operation.Processing, operation.NeedsReview}}
	for _, d := range days {
		label := shortDay(v, d.Day)
		for i := range outcomes {
			count, _ := d.Sum(states[i]...)
			outcomes[i].Points = append(outcomes[i].Points, look.Point{Label: label, Value: int64(count)})
		}
		_, amount := d.Sum(operation.Success)
		spent = append(spent, look.Point{Label: label, Value: amount.Paise(), Note: look.Rupees(amount)})
	}
	return outcomes, spent
}

// shortDay names a day without its year, which thirty days beside each other share.
func shortDay(v *web.Visit, day time.Time) string {
	day = day.In(subscription.IST)
	return day.Format("2 ") + v.T(day.Format("Jan"))
}
