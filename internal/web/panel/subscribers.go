package panel

import (
	"errors"
	"net/http"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

func (p panel) subscriberRoutes() []web.Route {
	const one = "/panel/subscribers/{id}"
	return []web.Route{
		{Method: http.MethodGet, Path: "/panel/subscribers", Area: web.Panel, Allow: everyone, Menu: look.Text("Subscribers"), Icon: "users", Handle: p.subscribers},
		{Method: http.MethodGet, Path: one, Area: web.Panel, Allow: everyone, Handle: p.subscriber},
		{Method: http.MethodGet, Path: one + "/password", Area: web.Panel, Allow: counters, FormOnly: true, Handle: p.passwordForm},
		{Method: http.MethodPost, Path: one + "/password", Area: web.Panel, Allow: counters, StepUp: true, Handle: p.resetPassword},
	}
}

// expiringSoon is how long before an expiry lists warn of it.
const expiringSoon = 7 * 24 * time.Hour

// row is a subscriber in a list.
type row struct {
	report.Subscriber
	Standing string // as named by badges
	DaysLeft int
}

func rows(found []report.Subscriber, now time.Time) []row {
	list := make([]row, 0, len(found))
	for _, s := range found {
		list = append(list, row{s, standing(s.Expires, now), s.DaysLeft(now)})
	}
	return list
}

// standing returns a subscriber's state, with a warning before the expiry.
func standing(expires, now time.Time) string {
	status := subscription.StatusAt(expires, now)
	if status == subscription.SubscriberActive && expires.Sub(now) <= expiringSoon {
		return string(report.Expiring)
	}
	return string(status)
}

// view is one filter of the list.
type view struct {
	Name, Text string
	Count      int
	Counted    bool
	Href       string
	Here       bool

	standing report.StatusFilter
	within   int
}

// views returns all filters. Counts are up to a minute old: counts of zero subscribers are
// left out, or the first subscriber would be in a list of none.
func views(counts report.SubscriberCounts) []view {
	known := counts.All > 0
	return []view{
		{Name: "", Text: look.Text("All"), Count: counts.All, Counted: known},
		{Name: "active", Text: look.Text("Active"), Count: counts.Active, Counted: known, standing: report.Active},
		{Name: "3", Text: look.Text("Within 3 days"), Count: counts.In3, Counted: known, standing: report.Expiring, within: 3},
		{Name: "7", Text: look.Text("Within 7 days"), Count: counts.In7, Counted: known, standing: report.Expiring, within: 7},
		{Name: "15", Text: look.Text("Within 15 days"), Count: counts.In15, Counted: known, standing: report.Expiring, within: 15},
		{Name: "expired", Text: look.Text("Expired"), Count: counts.Expired, Counted: known, standing: report.Expired},
		{Name: "review", Text: look.Text("In review"), standing: report.InReview},
	}
}

type subscribersPage struct {
	Search string
	Show   string
	Views  []view
	Rows   []row
	Pager  web.Pager
	Cut    bool   // the search is not complete; the next page continues it
	Empty  bool   // there is no subscriber yet
	Bulk   string // URL for renewing all listed subscribers
}

func (p panel) subscribers(v *web.Visit) error {
	counts, err := p.Report.Counts(v.Context(), v.Operator())
	if err != nil {
		return err
	}
	page := subscribersPage{Search: v.Query("q"), Show: v.Query("show"), Views: views(counts)}
	filter := report.SubscriberFilter{Search: page.Search, After: v.Query("after"), Order: report.ByName, Limit: 25}
	known := false
	for i := range page.Views {
		one := &page.Views[i]
		one.Href = v.FilterURL("/panel/subscribers", "show", one.Name)
		if one.Here = one.Name == page.Show; one.Here {
			known = true
			filter.Status, filter.Within = one.standing, one.within
		}
	}
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
	page.Empty = len(page.Rows) == 0 && page.Search == "" && page.Show == ""
	if page.Search == "" && len(page.Rows) > 0 && (filter.Status == report.Expiring || filter.Status == report.Expired) {
		page.Bulk = "/panel/bulk?within=" + page.Show
	}
	page.Pager = v.Pager(found.Next)
	if v.ByHTMX() {
		return v.ShowPart("panel/subscribers", "list", page)
	}
	return v.Show("panel/subscribers", page)
}

// cycle is one that a subscriber has, had or will have.
type cycle struct {
	Plan             string
	StartsAt, EndsAt time.Time
	Now, Coming      bool
}

type subscriberPage struct {
	report.SubscriberDetail
	Standing string
	Cycles   []cycle
	Timeline []entry
	Pending  []entry
	Settled  bool // the activation is: there is something to renew
}

// found reads a subscriber of the visitor's own operator; another's is not there.
func (p panel) found(v *web.Visit) (report.SubscriberDetail, error) {
	detail, found, err := p.Report.Subscriber(v.Context(), v.Operator(), v.R.PathValue("id"))
	if err == nil && !found {
		err = web.NotFound()
	}
	return detail, err
}

func (p panel) subscriber(v *web.Visit) error {
	detail, err := p.found(v)
	if err != nil {
		return err
	}
	page := subscriberPage{
		SubscriberDetail: detail, Standing: standing(detail.Expires, v.Now), Cycles: cyclesOf(detail, v.Now),
		Timeline: entries(detail.Timeline), Pending: entries(detail.Pending), Settled: !detail.Expires.IsZero(),
	}
	if v.ByHTMX() {
		return v.ShowPart("panel/subscriber", "whole", page)
	}
	return v.Show("panel/subscriber", page)
}

// cyclesOf lists a subscriber's cycles, the latest first. A cycle that another one cut
// short ends when that one begins.
func cyclesOf(detail report.SubscriberDetail, now time.Time) []cycle {
	list := make([]cycle, 0, len(detail.Cycles))
	current := -1
	for i := len(detail.Cycles) - 1; i >= 0; i-- {
		c := detail.Cycles[i]
		name := detail.Plans[c.PlanID]
		if name == "" {
			name = c.PlanID
		}
		list = append(list, cycle{Plan: name, StartsAt: c.StartsAt, EndsAt: c.EndsAt, Coming: c.StartsAt.After(now)})
		if current < 0 && !c.StartsAt.After(now) && c.EndsAt.After(now) {
			current = len(list) - 1
		}
	}
	if current >= 0 {
		list[current].Now = true
	}
	return list
}

// entry is an operation in a list or on its own page.
type entry struct {
	operation.Operation
	What string // in English
	Tone string // of the timeline
}

func entries(operations []operation.Operation) []entry {
	list := make([]entry, 0, len(operations))
	for _, op := range operations {
		list = append(list, entryOf(op))
	}
	return list
}

var whatWords = map[operation.Kind]string{
	operation.Activate:     look.Text("Activation"),
	operation.Renew:        look.Text("Renewal"),
	operation.AdvanceRenew: look.Text("Advance renewal"),
}

var tones = map[operation.State]string{
	operation.Success: "is-good", operation.Failed: "is-bad", operation.NeedsReview: "is-warn", operation.Processing: "",
}

func entryOf(op operation.Operation) entry {
	return entry{op, whatWords[op.Kind], tones[op.State]}
}
