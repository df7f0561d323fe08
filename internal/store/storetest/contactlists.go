package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

// contacts imports subscribers with contact data.
func (s *fixture) contacts(rows ...admin.ImportRow) {
	s.Helper()
	for i := range rows {
		rows[i].Line, rows[i].OperatorID, rows[i].Contact.Name = i+2, s.operator.ID, rows[i].Name
		rows[i].PlanID = cmp.Or(rows[i].PlanID, s.plan.ID)
		if rows[i].Expires.IsZero() {
			rows[i].Expires = noon.Add(oneDay)
		}
	}
	_, err := s.ImportSubscribers(s.Context(), staffAction("subscriber import"), rows)
	s.must(err)
}

func contactSearches(h *harness) {
	s := h.fixture("1000")
	s.contacts(
		admin.ImportRow{SubscriberID: "100001", Mobile: "9800004321", Name: "Asha", Contact: operation.Contact{Area: "Ward 4", Address: "12, Lake Road\nKochi", BoxNumber: "AB-77123"}},
		admin.ImportRow{SubscriberID: "100002", Mobile: "9811110000", Name: "Binu", Contact: operation.Contact{Area: "ward 4", Address: "Flat 3/B\tHill View", BoxNumber: "00554321"}},
		admin.ImportRow{SubscriberID: "100003", Mobile: "4321000000", Name: "Chitra Lake", Contact: operation.Contact{Area: "Sector 12"}},
	)
	search := func(what, text string, want ...string) {
		s.Helper()
		s.listed(what, report.SubscriberFilter{Search: text}, want...)
	}
	search("a word of an address or a name", "lake", "100001", "100003")
	search("a word on the second line", "kochi", "100001")
	search("a word behind a tab", "hill", "100002")
	search("a word of an area", "sector", "100003")
	search("two words of an area", "ward 4", "100001", "100002")
	search("the first digits come first, the last ones of either number follow", "4321", "100003", "100001", "100002")
	search("more of the last digits", "04321", "100001")
	search("two digits are not looked for at the end", "21")
	search("the whole box number", "AB-77123", "100001")
	search("the last digits of the box number", "77123", "100001")
	search("the beginning of the box number", "00554", "100002")
	search("last digits with a name", "asha 321", "100001")
	search("last digits with another name", "binu 0000", "100002")
	s.listed("of an area, in any case", report.SubscriberFilter{Area: "WARD 4"}, "100001", "100002")
	areas, err := s.SubscriberAreas(h.Context(), s.operator.ID, 10)
	if want := []string{"Sector 12", "Ward 4"}; err != nil || !slices.Equal(areas, want) {
		h.Errorf("areas %q, %v; want %q", areas, err, want)
	}
	_, err = s.contactEdit("100001", 0, operation.Contact{Name: "Devi", Area: "Ward 9", Address: "1 Sea View", BoxNumber: "ZZ999"})
	h.must(err)
	search("the old name", "asha")
	search("the old address", "lake", "100003")
	search("the old box number", "77123")
	search("the new name", "devi", "100001")
	search("the new address", "sea", "100001")
	search("the number, which stays", "9800004321", "100001")
	s.listed("the old area", report.SubscriberFilter{Area: "ward 4"}, "100002")
	s.listed("the new area", report.SubscriberFilter{Area: "ward 9", Order: report.ByName}, "100001")
}

// filtersCombine compares lists with a selection from all subscribers, for random filters, with pages
// that end after a few scanned rows.
func filtersCombine(h *harness) {
	s := h.fixture("1000")
	plans := []subscription.Plan{s.plan}
	for _, id := range []string{"ZED-1", "ALPHA-1"} {
		plan := s.plan
		plan.ID, plan.Name, plan.Price = id, map[string]string{"ZED-1": "a first", "ALPHA-1": "Z last"}[id], map[string]money.Amount{"ZED-1": money.Paise(700_00), "ALPHA-1": money.Paise(5_00)}[id]
		plan, err := s.SetPlan(h.Context(), staffAction("plan set"), plan)
		h.must(err)
		plans = append(plans, plan)
	}
	random := rand.New(rand.NewPCG(30, 11))
	areas := []string{"", "Ward 1", "ward 1", "Ward 2", "Hill"}
	var rows []admin.ImportRow
	for n := range 40 {
		rows = append(rows, admin.ImportRow{
			SubscriberID: fmt.Sprintf("1000%02d", n), Mobile: fmt.Sprintf("98%02d0000%02d", random.IntN(30), n), Name: given[n%4] + " " + family[n%3],
			PlanID: plans[random.IntN(3)].ID, Expires: noon.Add(time.Duration(random.IntN(40)-15) * 12 * time.Hour),
			Contact: operation.Contact{Area: areas[random.IntN(len(areas))], Address: fmt.Sprintf("%d Lake", n)},
		})
	}
	s.contacts(rows...)
	s.settle(s.reserve(s.activation("open", "9700000001", "200001")), operation.NeedsReview) // without an expiry
	read := func(service *report.Service, f report.SubscriberFilter, limit int) (all []report.Subscriber) {
		f.After, f.Limit = "", limit
		for range 500 {
			found, err := service.Subscribers(h.Context(), s.operator.ID, f)
			s.must(err)
			all = append(all, found.Rows...)
			if len(found.Rows) > limit {
				s.Fatalf("%+v: %d rows; want %d at most", f, len(found.Rows), limit)
			}
			if f.After = found.Next; f.After == "" {
				return all
			}
		}
		s.Fatalf("%+v: the list does not end", f)
		return nil
	}
	ids := func(list []report.Subscriber) (ids []string) {
		for _, one := range list {
			ids = append(ids, one.ID)
		}
		return ids
	}
	everybody := read(h.service(noon), report.SubscriberFilter{}, 50)
	if len(everybody) != 41 {
		h.Fatalf("%d subscribers; want 41", len(everybody))
	}
	for range 120 {
		f := report.SubscriberFilter{
			Status: []report.StatusFilter{report.AnyStatus, report.Active, report.Expiring, report.Expired, report.FallingDue}[random.IntN(5)],
			Within: random.IntN(10), Ended: random.IntN(8) - 1,
			Order: []report.Order{report.ByExpiry, report.ByName, report.ByPlan, report.ByPrice}[random.IntN(4)], Descending: random.IntN(2) == 0,
			Search: []string{"", "", "asha", "lake 98", "98"}[random.IntN(5)],
			Area:   []string{"", "ward 1", "HILL", "nowhere"}[random.IntN(4)],
		}
		if random.IntN(2) == 0 {
			f.Plan = plans[random.IntN(3)].ID
		}
		var want []report.Subscriber
		for _, one := range everybody {
			if selects(f, one) {
				want = append(want, one)
			}
		}
		got := read(h.service(noon), f, 50)
		if x, y := slices.Sorted(slices.Values(ids(got))), slices.Sorted(slices.Values(ids(want))); !slices.Equal(x, y) {
			h.Errorf("%+v: %v; want %v", f, x, y)
		}
		if f.Search == "" {
			slices.SortStableFunc(want, ordered(f))
			if !slices.Equal(ids(got), ids(want)) {
				h.Errorf("%+v: %v; want the order %v", f, ids(got), ids(want))
			}
		}
		if parts := read(h.looking(1+random.IntN(6)), f, 1+random.IntN(4)); !slices.Equal(ids(parts), ids(got)) {
			h.Errorf("%+v, in parts: %v; want %v", f, ids(parts), ids(got))
		}
	}
}

// selects reports whether a filter selects a subscriber, in the simplest way.
func selects(f report.SubscriberFilter, s report.Subscriber) bool {
	active := s.Expires.After(noon)
	switch f.Status {
	case report.Active:
		if !active {
			return false
		}
	case report.Expired:
		if active || s.Expires.IsZero() {
			return false
		}
	case report.Expiring:
		if !active || s.DaysLeft(noon) > f.Within {
			return false
		}
	case report.FallingDue:
		ended := int(report.Day(noon).Sub(report.Day(s.Expires)) / oneDay)
		if s.Expires.IsZero() || active && s.DaysLeft(noon) > f.Within || !active && ended > f.Ended {
			return false
		}
	}
	text := strings.ToLower(s.Name + " " + s.Area + " " + s.Address + " " + s.Mobile + " " + s.ID)
	for _, term := range report.Terms(f.Search) {
		if !slices.ContainsFunc(strings.Fields(text), func(word string) bool { return strings.HasPrefix(word, term) }) {
			return false
		}
	}
	return (f.Plan == "" || s.PlanID == f.Plan) && (f.Area == "" || strings.EqualFold(s.Area, f.Area))
}

// ordered compares subscribers in the order of a filter.
func ordered(f report.SubscriberFilter) func(a, b report.Subscriber) int {
	direction := 1
	if f.Descending {
		direction = -1
	}
	byName := func(a, b report.Subscriber) int {
		return direction * cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.ID, b.ID))
	}
	return func(a, b report.Subscriber) int {
		switch {
		case f.Order == report.ByName:
			return byName(a, b)
		case a.Expires.IsZero() != b.Expires.IsZero():
			return map[bool]int{true: 1, false: -1}[a.Expires.IsZero()]
		case f.Order == report.ByPlan:
			return cmp.Or(direction*cmp.Compare(strings.ToLower(a.PlanName), strings.ToLower(b.PlanName)), byName(a, b))
		case f.Order == report.ByPrice:
			return cmp.Or(direction*cmp.Compare(a.Price.Paise(), b.Price.Paise()), byName(a, b))
		}
		return direction * cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID))
	}
}

func fallingDue(h *harness) {
	s := h.fixture("1000")
	midnight := report.Day(noon)
	for i, at := range []time.Time{
		midnight.AddDate(0, 0, -2).Add(-time.Second), midnight.AddDate(0, 0, -2), midnight, noon, noon.Add(time.Second),
		midnight.AddDate(0, 0, 1), midnight.AddDate(0, 0, 2).Add(-time.Second), midnight.AddDate(0, 0, 2),
	} {
		s.contacts(admin.ImportRow{SubscriberID: fmt.Sprintf("10000%d", i), Mobile: fmt.Sprintf("980000000%d", i), Name: "Asha", Expires: at})
	}
	s.listed("today and tomorrow, none that has ended", report.SubscriberFilter{Status: report.FallingDue, Within: 1, Ended: -1}, "100004", "100005", "100006")
	s.listed("today, and ended today", report.SubscriberFilter{Status: report.FallingDue, Within: 0, Ended: 0}, "100002", "100003", "100004")
	s.listed("ended two days ago or later", report.SubscriberFilter{Status: report.FallingDue, Within: 0, Ended: 2}, "100001", "100002", "100003", "100004")
}

func plansFollow(h *harness) {
	s := h.fixture("5000")
	other := s.plan
	other.ID, other.Name = "OTHER-1", "Other"
	other, err := s.SetPlan(h.Context(), staffAction("plan set"), other)
	h.must(err)
	s.subscriber("100001", "9800000001")
	s.listed("the plan", report.SubscriberFilter{Plan: s.plan.ID}, "100001")
	change := s.renewal("change", "100001")
	change.PlanID, change.PlanName, change.PlanVersion = other.ID, other.Name, other.Version
	s.settle(s.reserve(change), operation.Success)
	for _, order := range []report.Order{report.ByName, report.ByExpiry, report.ByPlan} {
		s.listed("the plan before, by "+string(order), report.SubscriberFilter{Plan: s.plan.ID, Order: order})
		s.listed("the plan after, by "+string(order), report.SubscriberFilter{Plan: other.ID, Order: order}, "100001")
	}
	s.listed("once, by plan", report.SubscriberFilter{Order: report.ByPlan}, "100001")
	_, err = s.contactEdit("100001", 0, operation.Contact{Name: "Zoya"})
	h.must(err)
	s.subscriber("100002", "9800000002")
	s.listed("under the new name", report.SubscriberFilter{Order: report.ByName}, "100002", "100001")
}
