package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

func accounts(h *harness) {
	s := h.fixture("1000")
	second := h.operator("Second Cable")
	third := h.operator("Third")
	s.must(h.DeleteOperator(h.Context(), staffAction("lco delete"), third.ID))
	s.reserve(s.activation("act-1", "9800000001", "100001"))
	s.importAll(s.operator, imported{"100002", "9800000002", "Asha", noon.Add(oneDay)})
	for what, tt := range map[string]struct {
		filter report.AccountFilter
		want   []int64
	}{
		"all":     {report.AccountFilter{}, []int64{s.operator.ID, second.ID, third.ID}},
		"by name": {report.AccountFilter{Search: "CABLE"}, []int64{second.ID}},
		"by id":   {report.AccountFilter{Search: fmt.Sprint(third.ID)}, []int64{third.ID}},
		"active":  {report.AccountFilter{Status: subscription.OperatorActive}, []int64{s.operator.ID, second.ID}},
	} {
		for _, limit := range []int{1, 50} {
			var got []int64
			f := tt.filter
			for f.Limit = limit; ; {
				found, err := s.service(noon).Accounts(s.Context(), f)
				s.must(err)
				for _, account := range found.Rows {
					got = append(got, account.ID)
				}
				if f.After = found.Next; f.After == "" {
					break
				}
			}
			if !slices.Equal(got, tt.want) {
				s.Errorf("%s, %d a page: %v; want %v", what, limit, got, tt.want)
			}
		}
	}
	found, err := s.service(noon).Accounts(s.Context(), report.AccountFilter{Counted: true, Limit: 1})
	s.must(err)
	if one := found.Rows[0]; one.Operator != s.operator || one.Wallet.Balance != rupees("801") || one.Wallet.Held != rupees("199") ||
		one.Wallet.LowBelow != s.operator.LowBalance || one.Counts.All != 2 || one.Counts.Active != 1 {
		s.Errorf("an account is %+v", one)
	}
}

func totals(h *harness) {
	empty, err := h.SystemTotals(h.Context())
	if err != nil || empty != (report.Totals{}) {
		h.Errorf("of nothing: %+v, %v", empty, err)
	}
	s := h.fixture("1000")
	s.must(h.DeleteOperator(h.Context(), staffAction("lco delete"), h.operator("gone").ID))
	s.subscriber("100001", "9800000001")
	s.reserve(s.activation("act-2", "9800000002", "100002"))
	op := s.settle(s.reserve(s.activation("act-3", "9800000003", "100003")), operation.NeedsReview)
	_, err = s.Postpone(s.Context(), operation.Postponement{OperationID: op.ID, Epoch: op.Epoch, NextCheckAt: noon.Add(time.Hour), NeedsPerson: true, Node: "node-1"})
	s.must(err)
	got, err := h.SystemTotals(h.Context())
	s.must(err)
	want := report.Totals{
		Operators: 1, ActiveOperators: 1, Subscribers: 3, Balance: rupees("403"), Held: rupees("398"), Processing: 1, InReview: 1, NeedPerson: 1, OldestReview: op.ReviewSince,
	}
	if got != want {
		s.Errorf("%+v; want %+v", got, want)
	}
}

func commissionReports(h *harness) {
	s := h.fixture("10000")
	other := &fixture{harness: h, operator: h.operator("other"), plan: s.plan}
	other.topUp(other.operator, "1000")
	// Midnight between April and May, in India.
	may := time.Date(2027, 5, 1, 0, 0, 0, 0, subscription.IST)
	sell := func(s *fixture, key, mobile, id string, at time.Time) operation.Operation {
		op := s.reserve(s.activation(key, mobile, id))
		st := settlement(op, operation.Success)
		st.At = at
		settled, _, err := s.Settle(s.Context(), st)
		s.must(err)
		return settled
	}
	march := sell(s, "a", "9800000001", "100001", noon)
	april := sell(s, "b", "9800000002", "100002", may.Add(-time.Millisecond))
	first := sell(s, "c", "9800000003", "100003", may)
	// Settled a moment earlier, but written after rows of May.
	late := sell(s, "d", "9800000004", "100004", may.Add(-2*time.Millisecond))
	sell(other, "e", "9800000005", "100005", noon)
	_ = s.settle(s.reserve(s.activation("f", "9800000006", "100006")), operation.Failed)
	for what, tt := range map[string]struct {
		operatorID int64
		month      time.Time
		want       []string
		ids        []string
	}{
		"March of one": {s.operator.ID, noon, []string{"shop BASIC-1 Plan BASIC-1 1 199.00 4.98"}, []string{march.ID}},
		"March of all": {0, noon, []string{"shop BASIC-1 Plan BASIC-1 1 199.00 4.98", "other BASIC-1 Plan BASIC-1 1 199.00 4.98"}, []string{march.ID, "CXe"}},
		"April":        {s.operator.ID, may.Add(-time.Hour), []string{"shop BASIC-1 Plan BASIC-1 2 398.00 9.96"}, []string{april.ID, late.ID}},
		"May":          {s.operator.ID, may, []string{"shop BASIC-1 Plan BASIC-1 1 199.00 4.98"}, []string{first.ID}},
		"June":         {0, may.AddDate(0, 1, 0), nil, nil},
		"of nobody":    {4711, noon, nil, nil},
	} {
		sums, err := s.service(may).Commission(s.Context(), tt.operatorID, tt.month)
		s.must(err)
		var got []string
		for _, sum := range sums {
			got = append(got, fmt.Sprintf("%s %s %s %d %s %s", sum.OperatorName, sum.PlanID, sum.PlanName, sum.Count, sum.Sales, sum.Commission))
		}
		if !slices.Equal(got, tt.want) {
			s.Errorf("%s: %q; want %q", what, got, tt.want)
		}
		var ids []string
		s.must(s.service(may).EachCommission(s.Context(), tt.operatorID, tt.month, func(l report.CommissionLine) error {
			ids = append(ids, l.TransactionID)
			if l.Sale != rupees("199") || l.Commission != rupees("4.98") || l.RateBPS != 250 || l.PlanName != s.plan.Name {
				s.Errorf("a line is %+v", l)
			}
			return nil
		}))
		if !slices.Equal(ids, tt.ids) {
			s.Errorf("%s: lines of %q; want %q", what, ids, tt.ids)
		}
	}
	page, err := s.ListCommissions(s.Context(), report.CommissionQuery{OperatorID: s.operator.ID, From: noon, Before: may.Add(oneDay), After: 2, Limit: 2})
	s.must(err)
	if len(page) != 2 || page[0].TransactionID != april.ID || page[0].Line != 3 {
		s.Errorf("behind a line: %+v", page)
	}
}

func reviewQueues(h *harness) {
	s := h.fixture("1000")
	var want []string
	for i := range 3 {
		op := s.reserve(s.activation(name("key", i), fmt.Sprintf("980000000%d", i), fmt.Sprintf("10000%d", i)))
		st := settlement(op, operation.NeedsReview)
		// The last one is the oldest.
		st.At, st.NextCheckAt = noon.Add(-time.Duration(i)*time.Hour), noon.Add(time.Duration(i)*time.Hour)
		_, _, err := s.Settle(s.Context(), st)
		s.must(err)
		want = append([]string{op.ID}, want...)
	}
	found, err := s.service(noon).Reviews(s.Context(), "", 10)
	s.must(err)
	queue := found.Rows
	var got, parts []string
	for _, r := range queue {
		got = append(got, r.ID)
	}
	for after := ""; ; {
		part, err := s.service(noon).Reviews(s.Context(), after, 1)
		s.must(err)
		for _, r := range part.Rows {
			parts = append(parts, r.ID)
		}
		if after = part.Next; after == "" || len(parts) > len(want) {
			break
		}
	}
	if !slices.Equal(parts, want) {
		s.Errorf("the queue in parts is %v; want %v", parts, want)
	}
	if !slices.Equal(got, want) || queue[0].OperatorName != "shop" || queue[0].Age(noon) != 2*time.Hour || queue[0].Overdue(noon) || !queue[0].Overdue(noon.Add(oneDay)) {
		s.Errorf("the queue is %v, aged %s; want %v", got, queue[0].Age(noon), want)
	}
	if short, err := s.ReviewQueue(s.Context(), report.Cursor{}, 1); err != nil || len(short) != 1 || short[0].ID != want[0] {
		s.Errorf("the first of it is %+v, %v", short, err)
	}
}

// reportTenancy gives two operators the same data, and looks for one's rows in all
// reports of the other.
func reportTenancy(h *harness) {
	s := h.fixture("10000")
	other := &fixture{harness: h, operator: h.operator("other"), plan: s.plan}
	other.topUp(other.operator, "10000")
	for i, who := range []*fixture{s, other} {
		mark := fmt.Sprint(i + 1)
		who.importAll(who.operator, imported{mark + "00001", "980000000" + mark, "Asha Sharma", noon.Add(oneDay)}, imported{mark + "00002", "981000000" + mark, "Asha Rao", noon.Add(-oneDay)})
		who.subscriber(mark+"00003", "982000000"+mark)
		who.settle(who.reserve(who.renewal("review-"+mark, mark+"00001")), operation.NeedsReview)
	}
	theirs := func(id string) bool { return strings.HasPrefix(id, "2") }
	service, ctx, id := s.service(noon), s.Context(), s.operator.ID
	for _, standing := range []report.StatusFilter{report.AnyStatus, report.Active, report.Expiring, report.Expired, report.InReview, report.FallingDue} {
		for _, search := range []string{"", "a", "asha", "98", "2", "200001", "9800000002", "asha sharma"} {
			for i, order := range []report.Order{report.ByExpiry, report.ByName, report.ByPlan, report.ByExpiry, report.ByName, report.ByPrice} {
				f := report.SubscriberFilter{Status: standing, Search: search, Order: order, Descending: i > 2, Within: 15}
				for _, after := range []string{"", report.Cursor{Number: 1, Text: "a", ID: "1"}.String()} {
					f.After = after
					page, err := service.Subscribers(ctx, id, f)
					s.must(err)
					for _, row := range page.Rows {
						if theirs(row.ID) || strings.HasSuffix(row.OpenTransaction, "-2") {
							s.Errorf("%+v shows %+v", f, row)
						}
					}
				}
			}
		}
	}
	if detail, found, err := service.Subscriber(ctx, id, "200001"); err != nil || found {
		s.Errorf("their subscriber is %v, %+v, %v", found, detail, err)
	}
	if timeline, err := s.SubscriberTimeline(ctx, id, "200001"); err != nil || len(timeline) != 0 {
		s.Errorf("their subscriber's timeline is %+v, %v", timeline, err)
	}
	ops := func(what string, found []operation.Operation, err error, want int) {
		s.Helper()
		s.must(err)
		for _, op := range found {
			if op.OperatorID != id {
				s.Errorf("%s has %s of operator %d", what, op.ID, op.OperatorID)
			}
		}
		if len(found) != want {
			s.Errorf("%s has %d operations; want %d", what, len(found), want)
		}
	}
	for filter, want := range map[report.TransactionFilter]int{
		{}: 2, {State: operation.NeedsReview}: 1, {Subscriber: "200001"}: 0, {Subscriber: "100001"}: 1, {PlanID: s.plan.ID}: 2, {Kind: operation.Renew}: 1,
		{After: report.Cursor{Number: noon.Add(oneDay).UnixMilli(), ID: "CX"}.String()}: 2,
	} {
		page, err := service.Transactions(ctx, id, filter)
		ops(fmt.Sprintf("%+v", filter), page.Rows, err, want)
	}
	holds, err := service.Holds(ctx, id)
	ops("holds", holds, err, 1)
	for _, filter := range []report.StatementFilter{{}, {TransactionID: "CXact-200003"}, {Text: "200003"}, {Text: "activation"}, {NewestFirst: true}} {
		filter.From, filter.Until = noon.Add(-oneDay), noon.Add(oneDay)
		st, err := service.Statement(ctx, id, filter)
		s.must(err)
		for _, line := range st.Rows {
			if strings.Contains(line.Description, "200003") || line.TransactionID == "CXact-200003" {
				s.Errorf("%+v shows %+v", filter, line)
			}
		}
	}
	home, err := service.Home(ctx, id, false)
	s.must(err)
	if count, amount := home.Today.Sum(); count != 2 || amount != rupees("398") || home.Counts.All != 3 || home.Figures.Forecast.Month.Subscribers != 2 || len(home.Soon) != 2 {
		s.Errorf("at home %d operations for %s, %+v, %+v", count, amount, home.Counts, home.Figures)
	}
	sums, err := service.Commission(ctx, id, noon)
	s.must(err)
	if len(sums) != 1 || sums[0].Count != 1 {
		s.Errorf("commission is %+v", sums)
	}
}
