package panel

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

func (p panel) subscriberRoutes() []web.Route {
	const one = "/panel/subscribers/{id}"
	return []web.Route{
		{Method: http.MethodGet, Path: "/panel/subscribers", Area: web.Panel, Allow: everyone, Keys: "g s", Menu: look.Text("Subscribers"), Icon: "users", Handle: p.subscribers},
		{Method: http.MethodGet, Path: "/panel/subscribers/export/csv", Area: web.Panel, Allow: everyone, Handle: p.exportSubscribers},
		{Method: http.MethodGet, Path: "/panel/subscribers/export/xlsx", Area: web.Panel, Allow: everyone, Handle: p.exportSubscribers},
		{Method: http.MethodGet, Path: "/panel/subscribers/list/due", Area: web.Panel, Allow: everyone, Handle: p.showDue},
		{Method: http.MethodGet, Path: "/panel/subscribers/list/due/export/csv", Area: web.Panel, Allow: everyone, Handle: p.exportDue},
		{Method: http.MethodGet, Path: "/panel/subscribers/list/due/export/xlsx", Area: web.Panel, Allow: everyone, Handle: p.exportDue},
		{Method: http.MethodGet, Path: one, Area: web.Panel, Allow: everyone, Handle: p.subscriber},
		{Method: http.MethodGet, Path: one + "/contact", Area: web.Panel, Allow: counters, FormOnly: true, Handle: p.contactForm},
		{Method: http.MethodPost, Path: one + "/contact", Area: web.Panel, Allow: counters, Handle: p.changeContact},
		{Method: http.MethodPost, Path: one + "/contact/tell", Area: web.Panel, Allow: counters, Handle: p.tellContact},
		{Method: http.MethodGet, Path: one + "/password", Area: web.Panel, Allow: counters, FormOnly: true, Handle: p.passwordForm},
		{Method: http.MethodPost, Path: one + "/password", Area: web.Panel, Allow: counters, StepUp: true, Handle: p.resetPassword},
	}
}

// expiringSoon is how many calendar days before an expiry lists warn of it.
const expiringSoon = 7

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
	if status == subscription.SubscriberActive && subscription.DaysLeft(expires, now) <= expiringSoon {
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

// cycle is one that a subscriber has, had or will have.
type cycle struct {
	Plan             string
	StartsAt, EndsAt time.Time
	Now, Coming      bool
}

type subscriberPage struct {
	report.SubscriberDetail
	Contact  admin.ContactRecord
	Changes  []contactChange
	Standing string
	Cycles   []cycle
	Timeline []entry
	Pending  []entry
	Settled  bool // the activation is: there is something to renew
	// Reversing is the operation that is being reversed; empty if none is.
	Reversing string
}

// errNoSubscriber is the same for an id that does not exist and for one of another operator.
var errNoSubscriber = &web.Problem{
	Status: http.StatusNotFound, Text: look.Text("There is no such subscriber. Search by a mobile number, an id or a name."),
	Next: "/panel/subscribers", NextText: look.Text("Find a subscriber"),
}

// found reads a subscriber of the visitor's own operator; another's is not there.
func (p panel) found(v *web.Visit) (report.SubscriberDetail, error) {
	detail, found, err := p.Report.Subscriber(v.Context(), v.Operator(), v.R.PathValue("id"))
	if err == nil && !found {
		err = errNoSubscriber
	}
	return detail, err
}

func (p panel) subscriber(v *web.Visit) error {
	detail, err := p.found(v)
	if err != nil {
		return err
	}
	contact, _, err := p.Contacts.Record(v.Context(), v.Operator(), detail.ID)
	if err != nil {
		return err
	}
	page := subscriberPage{
		SubscriberDetail: detail, Contact: contact, Changes: contactChanges(contact), Standing: standing(detail.Expires, v.Now), Cycles: cyclesOf(detail, v.Now),
		Timeline: entries(detail.Timeline), Pending: entries(detail.Pending), Settled: !detail.Expires.IsZero(),
	}
	if len(page.Pending) == 0 {
		page.Reversing = detail.OpenOperation
	}
	if v.ByHTMX() {
		return v.ShowPart("panel/subscriber", "whole", page)
	}
	return v.Show("panel/subscriber", page)
}

// cyclesOf lists a subscriber's cycles as they follow each other, the latest first. A stored cycle
// begins with its plan, which for a renewal is at once, although its days come after those that were
// paid before: here a cycle of the same plan begins where the one before ends, and one of another
// plan ends the one before.
func cyclesOf(detail report.SubscriberDetail, now time.Time) []cycle {
	var list []cycle
	for _, plan := range planPeriods(detail.Cycles) {
		var ends []time.Time
		for _, c := range detail.Cycles {
			if c.PlanID == plan.PlanID && c.EndsAt.After(plan.StartsAt) && c.EndsAt.Before(plan.EndsAt) {
				ends = append(ends, c.EndsAt)
			}
		}
		slices.SortFunc(ends, time.Time.Compare)
		from := plan.StartsAt
		for _, end := range append(slices.CompactFunc(ends, time.Time.Equal), plan.EndsAt) {
			list = append(list, cycle{
				Plan: cmp.Or(detail.Plans[plan.PlanID], plan.PlanID), StartsAt: from, EndsAt: end,
				Now: !from.After(now) && end.After(now), Coming: from.After(now),
			})
			from = end
		}
	}
	slices.Reverse(list)
	return list
}

// planPeriods are the periods in which a subscriber has one plan, the first one first. Cycles are in the
// order of purchase.
func planPeriods(cycles []subscription.Cycle) (periods []subscription.Cycle) {
	cycles = slices.Clone(cycles)
	slices.SortStableFunc(cycles, func(a, b subscription.Cycle) int { return a.StartsAt.Compare(b.StartsAt) })
	var paid time.Time
	for i, c := range cycles {
		if c.EndsAt.After(paid) {
			paid = c.EndsAt
		}
		c.EndsAt = paid
		if i+1 < len(cycles) && cycles[i+1].StartsAt.Before(paid) {
			c.EndsAt = cycles[i+1].StartsAt
		}
		last := len(periods) - 1
		switch {
		case !c.EndsAt.After(c.StartsAt): // another one begins with it
		case last >= 0 && periods[last].PlanID == c.PlanID && periods[last].EndsAt.Equal(c.StartsAt):
			periods[last].EndsAt = c.EndsAt
		default:
			periods = append(periods, c)
		}
	}
	return periods
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
