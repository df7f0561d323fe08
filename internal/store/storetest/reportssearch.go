package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

// searchTests are about lists that are searched in parts, and sums that a store has a
// fast path for.
var searchTests = []test{
	{"a subscriber search with early page ends finds the same", subscribersInParts},
	{"a transaction search with early page ends finds the same", transactionsInParts},
	{"a statement search with early page ends finds the same", statementsInParts},
	{"an audit search with early page ends finds the same", auditInParts},
	{"amounts due equal the sum over subscribers", duesOneByOne},
	{"a large operator's figures are omitted until computed", figuresLater},
	{"a running month's commission is the sum of its days", runningCommission},
}

// looking returns a service whose pages scan a limited number of rows.
func (h *harness) looking(rows int) *report.Service {
	return report.New(h.Store, report.Config{Now: func() time.Time { return noon }, ScanLimit: rows})
}

func subscribersInParts(h *harness) {
	s := h.fixture("1000")
	var all []imported
	for n := range 14 {
		all = append(all, imported{
			fmt.Sprintf("1000%02d", n), fmt.Sprintf("98000000%02d", n), given[n%4] + " " + family[n%3], noon.Add(time.Duration(n-5) * 12 * time.Hour),
		})
	}
	s.importAll(s.operator, all...)
	for what, f := range map[string]report.SubscriberFilter{
		"two words": {Search: "asha sha"}, "no such pair": {Search: "asha zzz"}, "of the expired": {Search: "s", Status: report.Expired},
		"of who expires": {Search: "98", Status: report.Expiring, Within: 2}, "active by name": {Status: report.Active, Order: report.ByName},
		"one word": {Search: "a"}, "all by name": {Order: report.ByName}, "by expiry": {Status: report.Expired},
		"from the last name": {Status: report.Active, Order: report.ByName, Descending: true}, "from the last expiry": {Descending: true},
	} {
		read := func(rows, limit int) (ids []string) {
			f.After, f.Limit = "", limit
			for pages := 0; ; pages++ {
				found, err := h.looking(rows).Subscribers(s.Context(), s.operator.ID, f)
				s.must(err)
				for _, one := range found.Rows {
					ids = append(ids, one.ID)
				}
				if found.Truncated && (len(found.Rows) > limit || found.Next == "") || pages > 100 {
					s.Fatalf("%s: page %d of %d rows is cut, and goes on at %q", what, pages, len(found.Rows), found.Next)
				}
				if f.After = found.Next; f.After == "" {
					return ids
				}
			}
		}
		want := read(1000, 50)
		for rows := 1; rows <= 5; rows++ {
			for _, limit := range []int{1, 3, 50} {
				if got := read(rows, limit); !slices.Equal(got, want) {
					s.Errorf("%s, %d of %d rows a page: %v; want %v", what, limit, rows, got, want)
				}
			}
		}
	}
}

// transactionsInParts compares a search that scans a few rows at a time with one that
// scans all at once.
func transactionsInParts(h *harness) {
	s := h.fixture("10000")
	for n := range 12 {
		d := s.activation(name("key", n), fmt.Sprintf("98000000%02d", n), fmt.Sprintf("1000%02d", n))
		// Some have the same time.
		d.CreatedAt, d.Channel = noon.Add(time.Duration(n/2)*oneDay/2), operation.API
		if n%5 == 0 {
			d.Channel = operation.Web
		}
		s.settle(s.reserve(d), []operation.State{operation.Success, operation.Failed, operation.NeedsReview}[n%3])
	}
	for what, f := range map[string]report.TransactionFilter{
		"web":          {Channel: operation.Web},
		"failed":       {State: operation.Failed},
		"in review":    {State: operation.NeedsReview},
		"processing":   {State: operation.Processing},
		"no such kind": {Kind: operation.AdvanceRenew},
		"some days":    {Channel: operation.API, From: noon.Add(oneDay), Until: noon.Add(oneDay)},
		"all at once":  {Channel: operation.API, Kind: operation.Activate, State: operation.Success, PlanID: s.plan.ID, Until: noon.Add(oneDay)},
		"no filter":    {},
	} {
		read := func(rows, limit int) (ids []string, pages int) {
			f.After, f.Limit = "", limit
			for pages = 1; ; pages++ {
				found, err := h.looking(rows).Transactions(s.Context(), s.operator.ID, f)
				s.must(err)
				for _, op := range found.Rows {
					ids = append(ids, op.ID)
				}
				if cut := !found.SearchedTo.IsZero(); cut && (len(found.Rows) > limit || found.Next == "") || pages > 50 {
					s.Fatalf("%s: page %d of %d rows is cut: %v, and goes on at %q", what, pages, len(found.Rows), cut, found.Next)
				}
				if f.After = found.Next; f.After == "" {
					return ids, pages
				}
			}
		}
		want, _ := read(1000, 50)
		for rows := 1; rows <= 6; rows++ {
			for _, limit := range []int{1, 3, 50} {
				if got, _ := read(rows, limit); !slices.Equal(got, want) {
					s.Errorf("%s, %d of %d rows a page: %v; want %v", what, limit, rows, got, want)
				}
			}
		}
		if _, pages := read(2, 50); f.Kind == operation.AdvanceRenew && pages < 4 {
			s.Errorf("%s: two of twelve operations looked at a page, and %d pages", what, pages)
		}
	}
}

func statementsInParts(h *harness) {
	s := h.fixture("10000")
	for n := range 9 {
		s.subscriber(fmt.Sprintf("1000%02d", n), fmt.Sprintf("98000000%02d", n))
		if n%4 == 3 {
			s.topUp(s.operator, "5")
		}
	}
	for what, f := range map[string]report.StatementFilter{
		"credits": {Side: report.Credit}, "debits": {Side: report.Debit}, "a text": {Text: "100007"}, "no such text": {Text: "nothing"}, "both": {Side: report.Debit, Text: "activation"},
	} {
		for _, f.NewestFirst = range []bool{false, true} {
			f.From, f.Until = noon, noon
			read := func(rows, limit int, whole bool) (lines []int64) {
				f.After, f.Limit, f.NoScanLimit = "", limit, whole
				for pages := 0; ; pages++ {
					st, err := h.looking(rows).Statement(s.Context(), s.operator.ID, f)
					s.must(err)
					for _, line := range st.Rows {
						lines = append(lines, line.Line)
					}
					if st.Truncated && (len(st.Rows) > limit || st.Next == "" || whole) || pages > 50 {
						s.Fatalf("%s: page %d of %d rows is cut, and goes on at %q", what, pages, len(st.Rows), st.Next)
					}
					if f.After = st.Next; f.After == "" {
						return lines
					}
				}
			}
			want := read(1000, 50, false)
			for rows := 1; rows <= 5; rows++ {
				for _, limit := range []int{1, 2, 50} {
					if got := read(rows, limit, false); !slices.Equal(got, want) {
						s.Errorf("%s, newest first %v, %d of %d rows a page: %v; want %v", what, f.NewestFirst, limit, rows, got, want)
					}
				}
			}
			if got := read(1, 50, true); !slices.Equal(got, want) {
				s.Errorf("%s, newest first %v, as a whole: %v; want %v", what, f.NewestFirst, got, want)
			}
		}
	}
}

func auditInParts(h *harness) {
	h.components("TV-BASIC")
	one, two := h.operator("one"), h.operator("two")
	for n := range 10 {
		done := staffAction("wallet topup")
		done.Actor, done.At = []string{"web:asha", "web:ravi"}[n%2], noon.Add(time.Duration(n)*time.Hour)
		_, _, err := h.TopUp(h.Context(), done, admin.TopUp{OperatorID: []int64{one.ID, two.ID}[n%3%2], Amount: rupees("5"), Reference: name("NEFT", n)})
		h.must(err)
	}
	service := h.consoleUser("asha", admin.Administrator)
	for what, q := range map[string]admin.AuditQuery{
		"a person's": {Actor: "web:ravi"}, "a kind": {Action: "lco create"}, "a subject": {Search: "neft-007"}, "some hours": {From: noon.Add(2 * time.Hour), Before: noon.Add(4 * time.Hour)},
		"an operator's": {OperatorID: two.ID, Actor: "web:asha"}, "nothing": {Search: "nothing"}, "all": {},
	} {
		read := func(looked, limit int) (ids []int64) {
			q.Below, q.Limit, q.ScanLimit = 0, limit, looked
			for pages := 0; pages < 50; pages++ {
				found, err := service.FindAuditEntries(h.Context(), q)
				h.must(err)
				for _, one := range found.Entries {
					ids = append(ids, one.ID)
				}
				switch {
				case found.SearchedTo != 0 && len(found.Entries) < limit:
					q.Below = found.SearchedTo
				case found.SearchedTo == 0 && len(found.Entries) == limit:
					q.Below = ids[len(ids)-1]
				case found.SearchedTo == 0:
					return ids
				default:
					h.Fatalf("%s: a full page of %d says that it looked down to %d", what, limit, found.SearchedTo)
				}
			}
			h.Fatalf("%s: fifty pages and no end", what)
			return nil
		}
		want := read(1000, 100)
		for looked := 1; looked <= 5; looked++ {
			for _, limit := range []int{1, 3, 100} {
				if got := read(looked, limit); !slices.Equal(got, want) {
					h.Errorf("%s, %d a page, looking at %d: %v; want %v", what, limit, looked, got, want)
				}
			}
		}
	}
}

// duesOneByOne renews subscribers of several plans in every way, and adds up what is
// due from each subscriber alone.
func duesOneByOne(h *harness) {
	s := h.fixture("1000000")
	chance := rand.New(rand.NewPCG(7, 11))
	plans := []subscription.Plan{s.plan}
	for i, price := range []string{"250", "349.50", "0.01"} {
		made, err := s.SetPlan(s.Context(), staffAction("plan set"), plan(fmt.Sprintf("PLAN-%d", i), price, "TV-BASIC"))
		s.must(err)
		plans = append(plans, made)
	}
	const logins = 60
	var ids []string
	for n := range logins {
		id := fmt.Sprintf("1000%02d", n)
		ids = append(ids, id)
		s.importAll(s.operator, imported{id, fmt.Sprintf("98000000%02d", n), "somebody", noon.Add(time.Duration(chance.IntN(55*24)-10*24) * time.Hour)})
		for k := range chance.IntN(4) {
			d := s.renewal(fmt.Sprintf("renew-%d-%d", n, k), id)
			bought := plans[chance.IntN(len(plans))]
			d.PlanID, d.PlanVersion, d.PlanName, d.Amount = bought.ID, bought.Version, bought.Name, bought.Price
			d.ExpiryPlanned = d.ExpiryPrevious.Add(time.Duration(1+chance.IntN(20)) * oneDay)
			if chance.IntN(2) == 0 {
				d.Kind, d.CycleStartsAt = operation.AdvanceRenew, d.ExpiryPrevious
			}
			s.settle(s.reserve(d), []operation.State{operation.Success, operation.Success, operation.Failed}[chance.IntN(3)])
		}
	}
	// Prices change; amounts due are at the new prices.
	for i, price := range []string{"275", "1.99"} {
		_, err := s.SetPlan(s.Context(), staffAction("plan set"), plan(fmt.Sprintf("PLAN-%d", i), price, "TV-BASIC"))
		s.must(err)
	}
	sold, err := s.AllPlans(s.Context())
	s.must(err)
	prices := map[string]int64{}
	for _, p := range sold {
		prices[p.ID] = p.Price.Paise()
	}
	for _, days := range []int{0, 1, 7, 30, 60} {
		until := noon.Add(time.Duration(days)*oneDay + time.Hour)
		slow := map[string][2]int64{}
		for _, id := range ids {
			who, found, err := s.SubscriptionOf(s.Context(), s.operator.ID, id, "")
			s.must(err)
			if !found || !who.Expires.After(noon) || who.Expires.After(until) {
				continue
			}
			day, last := report.Day(who.Expires).UTC().String(), who.Cycles[len(who.Cycles)-1]
			sum := slow[day]
			slow[day] = [2]int64{sum[0] + 1, sum[1] + prices[last.PlanID]}
		}
		got, err := s.DueByDay(s.Context(), s.operator.ID, noon, until)
		s.must(err)
		quick := map[string][2]int64{}
		for i, due := range got {
			if i > 0 && !got[i-1].Day.Before(due.Day) {
				s.Errorf("%s comes after %s", due.Day, got[i-1].Day)
			}
			quick[due.Day.UTC().String()] = [2]int64{int64(due.Subscribers), due.Amount.Paise()}
		}
		if !maps.Equal(quick, slow) || days > 7 && len(slow) < 5 {
			s.Errorf("within %d days %v fall due; want %v", days, quick, slow)
		}
	}
}

func figuresLater(h *harness) {
	s := h.fixture("1000")
	s.importAll(s.operator, imported{"100001", "9800000001", "Asha", noon.Add(oneDay)}, imported{"100002", "9800000002", "Ravi", noon.Add(oneDay)})
	now := noon
	service := report.New(h.Store, report.Config{Now: func() time.Time { return now }, SumLimit: 1})
	home := func(wait bool) report.Home {
		home, err := service.Home(s.Context(), s.operator.ID, wait)
		s.must(err)
		return home
	}
	if quick := home(false); quick.Figures != nil || quick.Counts.All != 2 || len(quick.Soon) != 2 || quick.Wallet.Balance != rupees("1000") {
		s.Errorf("at first there is %+v; want all but the figures", quick)
	}
	if waited := home(true); waited.Figures == nil || waited.Figures.Forecast.Week.Subscribers != 2 || len(waited.Figures.Days) != report.HomeDays {
		s.Errorf("who waits sees %+v", waited.Figures)
	}
	if again := home(false); again.Figures == nil || again.Figures.Forecast.Week.Subscribers != 2 {
		s.Errorf("once they are known there are the figures %+v", again.Figures)
	}
	due := home(true).Figures.Forecast.Week.Amount
	if _, later, err := service.WeekDues(s.Context(), false); err != nil || !later {
		s.Errorf("at first what falls due is added up at once: %v", err)
	}
	if one, err := service.WeekDue(s.Context(), s.operator.ID); err != nil || !one.IsZero() {
		s.Errorf("at first %s falls due for the operator, %v; want nothing", one, err)
	}
	for _, wait := range []bool{true, false} {
		dues, later, err := service.WeekDues(s.Context(), wait)
		if err != nil || later || due.IsZero() || dues[s.operator.ID] != due {
			s.Errorf("then %v falls due, %v, %v; want %s", dues, later, err, due)
		}
	}
	if one, err := service.WeekDue(s.Context(), s.operator.ID); err != nil || one != due {
		s.Errorf("then %s falls due for the operator, %v; want %s", one, err, due)
	}
	if low, later, err := service.LowAccounts(s.Context(), false); err != nil || later || len(low) != 0 {
		s.Errorf("low are %v, %v, %v; want none", low, later, err)
	}
	now = now.Add(time.Hour)
	if later := home(false); later.Figures != nil {
		s.Errorf("an hour later there are still %+v", later.Figures)
	}
}

func runningCommission(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	now := noon.Add(10 * oneDay)
	s.earn(noon.Add(time.Hour), noon.Add(5*oneDay), now.Add(-time.Minute))
	service := report.New(h.Store, report.Config{Now: func() time.Time { return now }, SumLimit: 2})
	quick := func(want bool) {
		h.Helper()
		if is, err := service.CommissionIsQuick(s.Context(), s.operator.ID, now); err != nil || is != want {
			h.Errorf("the fast path is reported: %v, %v; want %v", is, err, want)
		}
	}
	sums := func(what string, count int, sales string) {
		h.Helper()
		got, err := service.Commission(s.Context(), 0, now)
		s.must(err)
		if len(got) != 1 || got[0].Count != count || got[0].Sales != rupees(sales) || got[0].PlanID != s.plan.ID || got[0].OperatorName == "" {
			h.Errorf("%s: %+v; want %d for %s", what, got, count, sales)
		}
	}
	quick(false)
	sums("at first", 4, "796")
	quick(true)
	s.earn(now)
	sums("a sale later, within the minute", 4, "796")
	now = now.Add(time.Minute)
	quick(true)
	sums("a minute later", 5, "995")
	quick(true)
}
