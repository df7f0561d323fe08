package panel

import (
	"errors"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/sheet"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

type subscribersPage struct {
	Search string
	Show   string
	Plan   string
	Area   string
	Sort   string
	Plans  []look.Choice
	Areas  []look.Choice
	Views  []view
	// Sorts are the headers that the list can be sorted by; none while it is searched. Orders are the same
	// for a phone, which shows no headers.
	Sorts  map[string]sortLink
	Orders []look.Choice
	Rows   []row
	Pager  web.Pager
	Cut    bool   // the search is not complete; the next page continues it
	Empty  bool   // there is no subscriber yet
	Bulk   string // URL for renewing all listed subscribers
	links
}

// sortLink is the header of a column that the list can be sorted by.
type sortLink struct {
	Href string
	// Aria is the value of aria-sort: none, ascending or descending.
	Aria string
}

// sortOrders are the values of the query's sort; descends before one reverses it.
var sortOrders = map[string]report.Order{"name": report.ByName, "expiry": report.ByExpiry, "plan": report.ByPlan, "price": report.ByPrice}

const descends = "-"

// orderChoices are the orders of the list as choices.
func orderChoices(v *web.Visit) []look.Choice {
	return []look.Choice{
		{Value: "name", Text: v.T("By name")}, {Value: "-name", Text: v.T("By name, from the last")},
		{Value: "expiry", Text: v.T("By expiry")}, {Value: "-expiry", Text: v.T("By expiry, latest first")},
		{Value: "plan", Text: v.T("By plan")}, {Value: "-plan", Text: v.T("By plan, from the last")},
		{Value: "price", Text: v.T("By price")}, {Value: "-price", Text: v.T("By price, highest first")},
	}
}

// subscriberFilter reads the filters of the list. It reports false for a view that does not exist.
func (p panel) subscriberFilter(v *web.Visit, page *subscribersPage) (f report.SubscriberFilter, known bool) {
	page.Search, page.Show, page.Plan, page.Area, page.Sort = report.SearchText(v.Query("q")), v.Query("show"), v.Query("plan"), v.Query("area"), v.Query("sort")
	f = report.SubscriberFilter{Search: page.Search, Plan: page.Plan, Area: page.Area, After: v.Query("after"), Limit: web.PageRows}
	for i := range page.Views {
		one := &page.Views[i]
		one.Href = v.FilterURL("/panel/subscribers", "show", one.Name)
		if one.Here = one.Name == page.Show; one.Here {
			known = true
			f.Status, f.Within = one.standing, one.within
		}
	}
	name, descending := strings.CutPrefix(page.Sort, descends)
	order, chosen := sortOrders[name]
	switch {
	case chosen:
		f.Order, f.Descending = order, descending
	case f.Status == report.AnyStatus || f.Status == report.Active:
		page.Sort, f.Order = "name", report.ByName
	case f.Status == report.Expired: // those who expired last come first
		page.Sort, f.Order, f.Descending = descends+"expiry", report.ByExpiry, true
	default:
		page.Sort, f.Order = "expiry", report.ByExpiry
	}
	return f, known
}

func (p panel) subscribers(v *web.Visit) error {
	counts, err := p.Report.Counts(v.Context(), v.Operator())
	if err != nil {
		return err
	}
	page := subscribersPage{Views: views(counts)}
	filter, known := p.subscriberFilter(v, &page)
	if !known {
		return web.NotFound()
	}
	found, err := p.Report.Subscribers(v.Context(), v.Operator(), filter)
	if errors.Is(err, report.ErrCursor) {
		return web.NotFound()
	}
	if err != nil {
		return err
	}
	page.Rows, page.Cut = rows(found.Rows, v.Now), found.Truncated
	plain := page.Search == "" && page.Plan == "" && page.Area == ""
	page.Empty = len(page.Rows) == 0 && plain && page.Show == ""
	if plain && len(page.Rows) > 0 && (filter.Status == report.Expiring || filter.Status == report.Expired) {
		page.Bulk = "/panel/bulk?within=" + page.Show
	}
	page.links = linksOf(v, "/panel/subscribers", found.Next)
	page.links.Print = v.FilterURL("/panel/subscribers/list/due", "q", "", "show", "", "sort", "", "plan", "")
	page.Pager, page.Sorts = page.links.Pager, sortLinks(v, page, filter)
	if filter.Status != report.InReview {
		page.Orders = orderChoices(v)
	}
	if v.ByHTMX() {
		return v.ShowPart("panel/subscribers", "list", page)
	}
	if page.Plans, page.Areas, err = p.choices(v, page.Plan, page.Area); err != nil {
		return err
	}
	return v.Show("panel/subscribers", page)
}

// sortLinks are the headers to sort by. Found subscribers are in the order of what was searched, and
// those in review by expiry.
func sortLinks(v *web.Visit, page subscribersPage, f report.SubscriberFilter) map[string]sortLink {
	if page.Search != "" || f.Status == report.InReview {
		return nil
	}
	all := map[string]sortLink{}
	for name := range sortOrders {
		next, aria := name, "none"
		switch page.Sort {
		case name:
			next, aria = descends+name, "ascending"
		case descends + name:
			aria = "descending"
		}
		all[name] = sortLink{v.FilterURL("/panel/subscribers", "sort", next), aria}
	}
	return all
}

// choices lists plans and areas to filter by; what is chosen is among them. There is no choice of
// areas while no subscriber has one.
func (p panel) choices(v *web.Visit, plan, area string) (plans, areas []look.Choice, err error) {
	names, err := p.Report.PlanNames(v.Context())
	if err != nil {
		return nil, nil, err
	}
	plans = []look.Choice{{Text: v.T("All plans")}}
	for _, one := range names {
		plans = append(plans, look.Choice{Value: one.ID, Text: one.Name})
	}
	found, err := p.Report.Areas(v.Context(), v.Operator())
	if err != nil || len(found) == 0 && area == "" {
		return plans, nil, err
	}
	areas = []look.Choice{{Text: v.T("All areas")}}
	listed := area == ""
	for _, one := range found {
		areas = append(areas, look.Choice{Value: one, Text: one})
		listed = listed || one == area
	}
	if !listed {
		areas = append(areas, look.Choice{Value: area, Text: area})
	}
	return plans, areas, nil
}

// subscriberColumns are the columns of a file of subscribers.
func subscriberColumns() []sheet.Column {
	return []sheet.Column{
		{Title: look.Text("Subscriber id")}, {Title: look.Text("Name")}, {Title: look.Text("Mobile")}, {Title: look.Text("Area")},
		{Title: look.Text("Address")}, {Title: look.Text("Box number")}, {Title: look.Text("Plan")},
		{Title: look.Text("Price"), Kind: sheet.Rupees}, {Title: look.Text("State")}, {Title: look.Text("Expires"), Kind: sheet.Moment},
	}
}

// subscriberCells are the cells of a subscriber. Whoever is due has no price while an operation is in
// progress: the money may be paid already.
func subscriberCells(v *web.Visit, s report.Subscriber, due bool) []any {
	var price any
	if s.PlanID != "" && (!due || s.Open == "") {
		price = s.Price
	}
	state := standingNames[standing(s.Expires, v.Now)]
	if s.Open != "" && !s.Expires.IsZero() {
		state = stateNames[s.Open]
	}
	return []any{s.ID, s.Name, s.Mobile, s.Area, s.Address, s.BoxNumber, s.PlanName, price, v.T(state), s.Expires}
}

var standingNames = map[string]string{
	"active": look.Text("Active"), "expiring": look.Text("Expiring"), "expired": look.Text("Expired"), "pending": look.Text("Being activated"),
}

// exportSubscribers downloads all subscribers that the filters select.
func (p panel) exportSubscribers(v *web.Visit) error {
	page := subscribersPage{Views: views(report.SubscriberCounts{})}
	filter, known := p.subscriberFilter(v, &page)
	if !known {
		return web.NotFound()
	}
	return p.exportList(v, "subscribers", look.Text("Subscribers"), filter)
}

func (p panel) exportList(v *web.Visit, name, title string, filter report.SubscriberFilter) error {
	out, err := beginSheet(v, name+"-"+report.Day(v.Now).Format(time.DateOnly), title, subscriberColumns())
	if err != nil {
		return err
	}
	err = p.Report.EachSubscriber(v.Context(), v.Operator(), filter, func(s report.Subscriber) error {
		return out.Row(subscriberCells(v, s, filter.Status == report.FallingDue)...)
	})
	if err != nil {
		return err
	}
	return out.Close()
}
