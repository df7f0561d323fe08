package panel

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const (
	// The days of a list of who is due, unless others are chosen.
	dueWithin = 7
	dueEnded  = 7
	// dueRows is how many customers the page lists, some 17 printed sheets; the file has all.
	dueRows = 500
)

// duePage lists who is due by area, to be printed.
type duePage struct {
	Within, Ended string
	Area          string
	Chosen        bool // others than the standard filters
	Areas         []look.Choice
	Groups        []dueArea
	Count         int
	Open          int // those with an operation in progress, which are not in the sums
	Sum           money.Amount
	More          bool // there are more than are listed
	Limit         int
	links
}

// dueArea is one area of the list.
type dueArea struct {
	Area string // empty for those without one
	Rows []dueRow
	Open int // with an operation in progress
	Sum  money.Amount
}

// dueRow is a customer as texts: the page has many of them, and a template formats slowly.
type dueRow struct {
	ID, Name, Mobile, Box, Address, Plan, Expires string
	Price                                         string // empty without a plan, and if Open
	Open                                          operation.State
}

// dueFilter reads the filters of the list: whose term ends within some days, or has ended lately.
func dueFilter(v *web.Visit, page *duePage) report.SubscriberFilter {
	days := func(name string, standard int, known ...string) (string, int) {
		text := v.Query(name)
		if !slices.Contains(known, text) {
			text = strconv.Itoa(standard)
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			n = -1 // none
		}
		return text, n
	}
	f := report.SubscriberFilter{Status: report.FallingDue, Area: v.Query("area")}
	page.Area = f.Area
	page.Within, f.Within = days("within", dueWithin, "0", "1", "3", "7", "15", "30")
	page.Ended, f.Ended = days("ended", dueEnded, "none", "0", "3", "7", "15", "30", "90")
	page.Chosen = f.Area != "" || f.Within != dueWithin || f.Ended != dueEnded
	return f
}

func (p panel) showDue(v *web.Visit) error {
	var page duePage
	filter := dueFilter(v, &page)
	filter.Limit = dueRows
	var all []report.Subscriber
	for {
		found, err := p.Report.Subscribers(v.Context(), v.Operator(), filter)
		if err != nil {
			return err
		}
		all = append(all, found.Rows...)
		if filter.After = found.Next; found.Next == "" {
			break
		}
		if filter.Limit = dueRows - len(all); filter.Limit <= 0 {
			page.More, page.Limit = true, dueRows
			break
		}
	}
	page.Groups = byArea(v, all)
	for _, group := range page.Groups {
		page.Count, page.Open, page.Sum = page.Count+len(group.Rows), page.Open+group.Open, page.Sum.Add(group.Sum)
	}
	page.links = linksOf(v, "/panel/subscribers/list/due", "")
	var err error
	if _, page.Areas, err = p.choices(v, "", page.Area); err != nil {
		return err
	}
	return v.Show("panel/due", page)
}

// byArea groups subscribers by area, those without one last. Within an area they stay in the order of
// their expiry. The sums leave out who has an operation in progress: the money may be paid already.
func byArea(v *web.Visit, all []report.Subscriber) []dueArea {
	key := func(area string) string { return strings.ToLower(area) }
	var groups []dueArea
	index := map[string]int{}
	for _, one := range all {
		at, known := index[key(one.Area)]
		if !known {
			at = len(groups)
			index[key(one.Area)], groups = at, append(groups, dueArea{Area: one.Area})
		}
		row := dueRow{
			ID: one.ID, Name: one.Name, Mobile: one.Mobile, Box: one.BoxNumber, Address: one.Address,
			Plan: cmp.Or(one.PlanName, "–"), Expires: v.Look.Day(v.Language(), one.Expires), Open: one.Open,
		}
		switch {
		case one.Open != "":
			groups[at].Open++
		case one.PlanID != "":
			groups[at].Sum = groups[at].Sum.Add(one.Price)
			row.Price = look.Rupees(one.Price)
		}
		groups[at].Rows = append(groups[at].Rows, row)
	}
	slices.SortFunc(groups, func(a, b dueArea) int {
		if (a.Area == "") != (b.Area == "") {
			return -cmp.Compare(len(a.Area), len(b.Area))
		}
		return cmp.Compare(key(a.Area), key(b.Area))
	})
	return groups
}

// exportDue downloads the whole list, by expiry.
func (p panel) exportDue(v *web.Visit) error {
	return p.exportList(v, "due", look.Text("Due list"), dueFilter(v, &duePage{}))
}
