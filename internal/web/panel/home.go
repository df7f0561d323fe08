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
		{Method: http.MethodGet, Path: "/panel/", Area: web.Panel, Allow: everyone, Keys: "g h", Menu: look.Text("Home"), Icon: "house", Handle: p.home},
	}
}

// The number of subscribers who expire next, and of today's operations, on the home page.
const (
	soonRows   = 6
	latestRows = 6
)

type homePage struct {
	report.Home
	Name string
	// Outlook says how long the wallet lasts; empty while that is not known.
	Outlook string
	Due     string // amount due in the next days; empty likewise
	// Short: the wallet is below the operator's threshold or below what is due.
	Short bool
	// Outcomes and Spent are the data of the charts, for up to thirty days.
	Outcomes []look.Series
	Spent    []look.Point
	// OutcomesBefore and SpentBefore are the thirty days before those.
	OutcomesBefore, SpentBefore look.Earlier
	TodayCount                  int
	TodaySpent                  string
	Latest                      []entry
	Soon                        []row
}

func (p panel) home(v *web.Visit) error {
	// htmx loads the slow figures afterwards; without scripts there is a link to them.
	home, err := p.Report.Home(v.Context(), v.Operator(), v.ByHTMX() || v.Query("figures") == "yes")
	if err != nil {
		return err
	}
	latest, err := p.Report.Transactions(v.Context(), v.Operator(), report.TransactionFilter{From: v.Now, Limit: latestRows})
	if err != nil {
		return err
	}
	page := homePage{Home: home, Name: v.Session.Person.Name, Short: home.Wallet.Low(), Latest: entries(latest.Rows), Soon: rows(home.Soon[:min(len(home.Soon), soonRows)], v.Now)}
	if home.Figures != nil {
		page.Outcomes, page.Spent = charts(v, home.Figures.Days)
		page.OutcomesBefore, page.SpentBefore = chartsBefore(v, home.Figures)
		page.Outlook = outlook(v, home.Figures.Forecast)
		page.Short = page.Short || home.Wallet.Balance.Less(home.Figures.Forecast.Week.Amount)
		page.Due = v.T("%s due in 7 days", look.Rupees(home.Figures.Forecast.Week.Amount))
	}
	page.TodayCount, _ = home.Today.Sum()
	_, spent := home.Today.Sum(operation.Success)
	page.TodaySpent = look.Rupees(spent)
	if v.ByHTMX() {
		return v.ShowPart("panel/home", "figures", page)
	}
	return v.Show("panel/home", page)
}

// outlook describes a forecast in a sentence or two.
func outlook(v *web.Visit, f report.Forecast) string {
	due := look.Rupees(f.Week.Amount)
	if f.Covered() {
		return v.T("%s due in 7 days; the wallet covers the next 30 days.", due)
	}
	return v.T("%s due in 7 days; the wallet lasts until %s. %s short for the next 30 days.",
		due, v.Look.Day(v.Language(), f.LastsUntil), look.Rupees(f.Missing))
}

// charts returns the data of the home page's charts: the operations by outcome, and the
// amounts of those that succeeded.
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

// chartsBefore returns what the home page's charts show of the days before, and how the sums
// differ.
func chartsBefore(v *web.Visit, figures *report.Figures) (outcomes, spent look.Earlier) {
	name := v.T("30 days before")
	outcomes, spent = look.Earlier{Name: name}, look.Earlier{Name: name}
	for _, d := range figures.Before {
		label := shortDay(v, d.Day)
		count, _ := d.Sum()
		_, amount := d.Sum(operation.Success)
		outcomes.Points = append(outcomes.Points, look.Point{Label: label, Value: int64(count)})
		spent.Points = append(spent.Points, look.Point{Label: label, Value: amount.Paise()})
	}
	sum := func(days []report.DayTotals, value func(report.DayTotals) int64) (sum int64) {
		for _, d := range days {
			sum += value(d)
		}
		return sum
	}
	operations := func(d report.DayTotals) int64 { count, _ := d.Sum(); return int64(count) }
	paise := func(d report.DayTotals) int64 { _, amount := d.Sum(operation.Success); return amount.Paise() }
	outcomes.Change = changeText(v, sum(figures.Days, operations), sum(figures.Before, operations))
	spent.Change = changeText(v, sum(figures.Days, paise), sum(figures.Before, paise))
	return outcomes, spent
}

// changeText compares the last thirty days with the thirty before.
func changeText(v *web.Visit, now, before int64) string {
	switch percent, known := look.Change(now, before); {
	case !known:
		return v.T("Nothing in the 30 days before.")
	case percent > 0:
		return v.T("%s more than in the 30 days before.", look.Count(percent)+"%")
	case percent < 0:
		return v.T("%s less than in the 30 days before.", look.Count(-percent)+"%")
	}
	return v.T("As much as in the 30 days before.")
}

// shortDay formats a day without its year.
func shortDay(v *web.Visit, day time.Time) string {
	day = day.In(subscription.IST)
	return day.Format("2 ") + v.T(day.Format("Jan"))
}
