package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

func trades(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	s.subscriber("100002", "9800000002")
	s.settle(s.reserve(s.activation("act-3", "9800000003", "100003")), operation.Failed)
	s.settle(s.reserve(s.renewal("renew-1", "100001")), operation.NeedsReview)
	got, err := s.OperationTotals(s.Context(), s.operator.ID, noon, noon.Add(time.Millisecond))
	s.must(err)
	want := []report.OperationTotal{
		{Kind: operation.Activate, State: operation.Failed, Count: 1, Amount: rupees("199")},
		{Kind: operation.Activate, State: operation.Success, Count: 2, Amount: rupees("398")},
		{Kind: operation.Renew, State: operation.NeedsReview, Count: 1, Amount: rupees("199")},
	}
	if !slices.Equal(got, want) {
		s.Errorf("%+v; want %+v", got, want)
	}
	for what, at := range map[string]time.Time{"before": noon.Add(-oneDay), "after": noon.Add(time.Millisecond)} {
		if got, err := s.OperationTotals(s.Context(), s.operator.ID, at, at.Add(time.Hour)); err != nil || len(got) != 0 {
			s.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	if all, err := s.OperationTotals(s.Context(), 0, noon, noon.Add(oneDay)); err != nil || !slices.Equal(all, want) {
		s.Errorf("of all operators: %+v, %v", all, err)
	}
}

// topUps credits a wallet with one rupee more each time, a day apart.
func (s *fixture) topUps(operator subscription.Operator, times int) {
	s.Helper()
	for i := range times {
		a := staffAction("wallet topup")
		a.At = noon.Add(time.Duration(i) * oneDay)
		_, _, err := s.TopUp(s.Context(), a, admin.TopUp{OperatorID: operator.ID, Amount: money.Paise(int64(i+1) * 100), Reference: name(fmt.Sprintf("day of %d", operator.ID), i)})
		s.must(err)
	}
}

func statements(h *harness) {
	s := h.fixture("0")
	const days = 37
	s.topUps(s.operator, days)
	s.topUps(h.operator("another"), 5)
	for from := -1; from <= days; from++ {
		for until := from; until <= days; until++ {
			b, err := s.LedgerBounds(s.Context(), s.operator.ID, report.Day(noon).Add(time.Duration(from)*oneDay), report.Day(noon).Add(time.Duration(until)*oneDay))
			s.must(err)
			first, last := int64(max(from, 0)), int64(max(until, 0))
			sum := func(n int64) money.Amount { return money.Paise(n * (n + 1) / 2 * 100) }
			if want := (report.Bounds{After: first, Last: last, Opening: sum(first), Closing: sum(last)}); b != want {
				s.Fatalf("from day %d until day %d: %+v; want %+v", from, until, b, want)
			}
		}
	}
	f := report.StatementFilter{From: noon.Add(3 * oneDay), Until: noon.Add(8 * oneDay)}
	for _, newest := range []bool{false, true} {
		f.NewestFirst = newest
		var lines []int64
		opening := money.Amount{}
		s.must(s.service(noon).EachLine(s.Context(), s.operator.ID, f, func(st report.Statement) error {
			opening = st.Opening
			return nil
		}, func(l report.LedgerLine) error {
			lines = append(lines, l.Line)
			return nil
		}))
		want := []int64{4, 5, 6, 7, 8, 9}
		if newest {
			slices.Reverse(want)
		}
		if !slices.Equal(lines, want) || opening != rupees("6") {
			s.Errorf("newest first %v: lines %v from %s; want %v from 6", newest, lines, opening, want)
		}
		f.Limit, f.After = 4, ""
		page, err := s.service(noon).Statement(s.Context(), s.operator.ID, f)
		s.must(err)
		f.After = page.Next
		rest, err := s.service(noon).Statement(s.Context(), s.operator.ID, f)
		s.must(err)
		if len(page.Rows) != 4 || len(rest.Rows) != 2 || rest.Next != "" || rest.Opening != page.Opening || rest.Rows[0].Line != want[4] {
			s.Errorf("newest first %v: %d rows, then %d", newest, len(page.Rows), len(rest.Rows))
		}
		f.After = ""
	}
}

func ledgerFilters(h *harness) {
	s := h.fixture("10000")
	one, two := s.subscriber("100001", "9800000001"), s.subscriber("100002", "9800000002")
	held := s.reserve(s.renewal("renew-1", "100001"))
	f := report.StatementFilter{From: noon, Until: noon}
	for what, tt := range map[string]struct {
		change func(*report.StatementFilter)
		want   []string
	}{
		"all":         {func(*report.StatementFilter) {}, []string{"", one.ID, two.ID}},
		"credits":     {func(f *report.StatementFilter) { f.Side = report.Credit }, []string{""}},
		"debits":      {func(f *report.StatementFilter) { f.Side = report.Debit }, []string{one.ID, two.ID}},
		"text":        {func(f *report.StatementFilter) { f.Text = "ACTIVATION of 100002" }, []string{two.ID}},
		"transaction": {func(f *report.StatementFilter) { f.TransactionID = one.ID }, []string{one.ID}},
		"nothing":     {func(f *report.StatementFilter) { f.Side, f.TransactionID = report.Credit, one.ID }, nil},
		"yesterday":   {func(f *report.StatementFilter) { f.From, f.Until = noon.Add(-oneDay), noon.Add(-oneDay) }, nil},
	} {
		changed := f
		tt.change(&changed)
		st, err := s.service(noon).Statement(s.Context(), s.operator.ID, changed)
		s.must(err)
		var got []string
		for _, line := range st.Rows {
			got = append(got, line.TransactionID)
		}
		if !slices.Equal(got, tt.want) {
			s.Errorf("%s: %q; want %q", what, got, tt.want)
		}
	}
	st, err := s.service(noon).Statement(s.Context(), s.operator.ID, f)
	s.must(err)
	if st.Opening != rupees("0") || st.Closing != rupees("9602") || st.Net() != rupees("9602") || st.Wallet.Held != rupees("199") || st.Wallet.Balance != rupees("9403") {
		s.Errorf("the statement is %+v", st)
	}
	if line := st.Rows[1]; line.Side != report.Debit || line.Amount != rupees("199") || line.BalanceAfter != rupees("9801") || !line.At.Equal(one.CompletedAt) || line.Line != 2 ||
		line.Description != one.LedgerText() {
		s.Errorf("a line is %+v", line)
	}
	holds, err := s.service(noon).Holds(s.Context(), s.operator.ID)
	s.must(err)
	if len(holds) != 1 || holds[0].ID != held.ID {
		s.Errorf("holds are %+v", holds)
	}
}

func transactions(h *harness) {
	s := h.fixture("10000")
	reserve := func(d operation.Draft, at time.Time, channel operation.Channel) operation.Operation {
		d.CreatedAt, d.Channel = at, channel
		return s.reserve(d)
	}
	a := s.settle(reserve(s.activation("a", "9800000001", "100001"), noon, operation.API), operation.Success)
	b := s.settle(reserve(s.activation("b", "9800000002", "100002"), noon, operation.Web), operation.Failed)
	c := s.settle(reserve(s.renewal("c", "100001"), noon.Add(oneDay), operation.Web), operation.NeedsReview)
	d := s.settle(reserve(s.activation("d", "9800000004", "100004"), noon.Add(2*oneDay), operation.API), operation.Success)
	for what, tt := range map[string]struct {
		filter report.TransactionFilter
		want   []string
	}{
		"all":            {report.TransactionFilter{}, []string{d.ID, c.ID, b.ID, a.ID}},
		"state":          {report.TransactionFilter{State: operation.Success}, []string{d.ID, a.ID}},
		"kind":           {report.TransactionFilter{Kind: operation.Renew}, []string{c.ID}},
		"channel":        {report.TransactionFilter{Channel: operation.Web}, []string{c.ID, b.ID}},
		"plan":           {report.TransactionFilter{PlanID: "NONE"}, nil},
		"subscriber":     {report.TransactionFilter{Subscriber: "100001"}, []string{c.ID, a.ID}},
		"from":           {report.TransactionFilter{From: noon.Add(oneDay)}, []string{d.ID, c.ID}},
		"until":          {report.TransactionFilter{Until: noon.Add(oneDay)}, []string{c.ID, b.ID, a.ID}},
		"one day":        {report.TransactionFilter{From: noon.Add(oneDay), Until: noon.Add(oneDay)}, []string{c.ID}},
		"all of them":    {report.TransactionFilter{State: operation.Success, Kind: operation.Activate, Channel: operation.API, PlanID: s.plan.ID, Subscriber: "100004"}, []string{d.ID}},
		"state and time": {report.TransactionFilter{State: operation.Success, Until: noon}, []string{a.ID}},
	} {
		for _, limit := range []int{1, 2, 50} {
			var got []string
			f := tt.filter
			for f.Limit = limit; ; {
				found, err := s.service(noon).Transactions(s.Context(), s.operator.ID, f)
				s.must(err)
				for _, op := range found.Rows {
					got = append(got, op.ID)
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
	count := 0
	s.must(s.service(noon).EachTransaction(s.Context(), s.operator.ID, report.TransactionFilter{}, func(operation.Operation) error {
		count++
		return nil
	}))
	if count != 4 {
		s.Errorf("%d transactions one by one; want 4", count)
	}
}
