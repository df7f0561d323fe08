package storetest

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
)

var periodTests = []test{
	{"a past month is closed once, with its sums", closedMonths},
	{"a month with an open operation is not closed", openMonths},
	{"of many concurrent closings of a month one takes effect", closedOnce},
	{"a plan's history has every version and its author", planHistories},
	{"the state of the provider's catalogue is readable", catalogueStates},
	{"overdue reviews are listed and counted", overdueReviews},
}

var march = admin.MonthOf(noon)

// april returns the service of finance when March is over.
func (h *harness) april(name string) *admin.Service {
	return h.consoleUserAt(name, admin.Finance, march.Ends().Add(time.Hour))
}

// earn settles renewals of one subscriber with success, at given times.
func (s *fixture) earn(at ...time.Time) {
	s.Helper()
	for _, moment := range at {
		s.sold++
		st := settlement(s.reserve(s.renewal(name("sold", s.sold), "100001")), operation.Success)
		st.At = moment
		_, did, err := s.Settle(s.Context(), st)
		s.must(err)
		if !did {
			s.Fatal("it was not settled")
		}
	}
}

func closedMonths(h *harness) {
	s := h.fixture("10000")
	idle := h.operator("idle")
	s.subscriber("100001", "9800000001")
	s.earn(march.Ends().Add(-time.Millisecond), march.Ends(), march.Begins().Add(-time.Millisecond), march.Begins())
	early := s.consoleUserAt("asha", admin.Finance, march.Ends().Add(-time.Millisecond))
	_, err := early.ClosePeriod(s.Context(), march, 0)
	s.refused("a month that is not over", err)
	_, err = s.april("asha").ClosePeriod(s.Context(), march, 4711)
	s.refused("nobody's month", err)
	_, err = s.consoleUserAt("asha", admin.Support, march.Ends().Add(time.Hour)).ClosePeriod(s.Context(), march, 0)
	s.refused("a month, by support", err)

	closed, err := s.april("asha").ClosePeriod(s.Context(), march, s.operator.ID)
	s.must(err)
	want := admin.ClosedPeriod{
		OperatorID: s.operator.ID, Month: march, Operations: 3, Amount: rupees("14.94"), // 3 × 2.5 % of 199
		ClosedBy: "web:asha", ClosedAt: march.Ends().Add(time.Hour),
	}
	if len(closed) != 1 || closed[0] != want {
		s.Errorf("closed %+v; want %+v", closed, want)
	}
	_, err = s.april("asha").ClosePeriod(s.Context(), march, s.operator.ID)
	s.refused("what is closed", err)
	rest, err := s.april("binu").ClosePeriod(s.Context(), march, 0)
	if err != nil || len(rest) != 1 || rest[0].OperatorID != idle.ID || rest[0].Operations != 0 || !rest[0].Amount.IsZero() {
		s.Errorf("the others: %+v, %v; want the idle one", rest, err)
	}
	_, err = s.april("asha").ClosePeriod(s.Context(), march, 0)
	s.refused("when all are closed", err)
	s.reopen()
	if all, err := s.ClosedPeriods(s.Context(), 0); err != nil || len(all) != 2 || all[0] != want {
		s.Errorf("read back %+v, %v", all, err)
	}
	if one, err := s.ClosedPeriods(s.Context(), idle.ID); err != nil || len(one) != 1 || one[0] != rest[0] {
		s.Errorf("the idle one's: %+v, %v", one, err)
	}
	before, err := s.april("asha").ClosePeriod(s.Context(), admin.MonthOf(march.Begins().Add(-time.Hour)), 0)
	s.refused(fmt.Sprintf("a month before there was anybody (%v)", before), err)
	auditEntries := s.auditEntries()
	if last := auditEntries[len(auditEntries)-1]; last.Subject != fmt.Sprintf("commission 2027-03 of lco %d", idle.ID) || last.After != `{"amount":0.00,"operations":0,"reversals":0}` {
		s.Errorf("the last audit entry is %+v", last)
	}
}

func openMonths(h *harness) {
	s := h.fixture("10000")
	other := h.operator("other")
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	for _, id := range []int64{0, s.operator.ID} {
		_, err := s.april("asha").ClosePeriod(s.Context(), march, id)
		s.refused("while one is open", err)
		if err != nil && !strings.Contains(err.Error(), op.ID) {
			s.Errorf("%v; want it to name %s", err, op.ID)
		}
	}
	if closed, err := s.april("asha").ClosePeriod(s.Context(), march, other.ID); err != nil || len(closed) != 1 {
		s.Errorf("the other's: %+v, %v", closed, err)
	}
	s.settle(op, operation.Failed)
	if closed, err := s.april("asha").ClosePeriod(s.Context(), march, 0); err != nil || len(closed) != 1 || closed[0].Operations != 0 {
		s.Errorf("when it had failed: %+v, %v", closed, err)
	}
}

func closedOnce(h *harness) {
	s := h.fixture("10000")
	var closed atomic.Int32
	concurrently(8, func(i int) {
		periods, err := s.april(name("clerk", i)).ClosePeriod(s.Context(), march, 0)
		if err != nil {
			s.refused("close what another has closed", err)
		}
		closed.Add(int32(len(periods)))
	})
	if all, err := s.ClosedPeriods(s.Context(), 0); err != nil || closed.Load() != 1 || len(all) != 1 {
		s.Errorf("closed %d times, %d are there, %v; want one", closed.Load(), len(all), err)
	}
}

func planHistories(h *harness) {
	h.components("TV-BASIC")
	for i, price := range []string{"10", "20"} {
		by := staffAction("plan set")
		by.Actor = name("cli:asha", i)
		_, err := h.SetPlan(h.Context(), by, plan("A-1", price, "TV-BASIC"))
		h.must(err)
	}
	_, err := h.SetPlan(h.Context(), staffAction("plan set"), plan("A-2", "1", "TV-BASIC"))
	h.must(err)
	h.must(h.RetirePlan(h.Context(), staffAction("plan retire"), "A-1"))
	versions, err := h.PlanHistory(h.Context(), "A-1")
	h.must(err)
	var got []string
	for _, v := range versions {
		got = append(got, fmt.Sprintf("%d %s %v %s %s", v.Version, v.Price, v.Retired, v.By, v.UpdatedAt.Format(time.DateOnly)))
	}
	want := "3 20.00 true test:asha 2027-03-01, 2 20.00 false cli:asha-001 2027-03-01, 1 10.00 false cli:asha-000 2027-03-01"
	if strings.Join(got, ", ") != want {
		h.Errorf("the history is %q; want %q", got, want)
	}
	_, err = h.PlanHistory(h.Context(), "NONE-1")
	h.refused("no plan's history", err)
}

func catalogueStates(h *harness) {
	if state, err := h.CatalogueState(h.Context(), "test"); err != nil || !state.AttemptedAt.IsZero() || len(state.Components) != 0 {
		h.Errorf("before the first comparison: %+v, %v", state, err)
	}
	h.components("TV-BASIC", "OTT-PLUS")
	later := noon.Add(time.Hour)
	h.must(h.RecordComparison(h.Context(), catalogue.Comparison{Provider: "test", At: later, Components: []catalogue.Component{
		{Code: "TV-BASIC", Name: "Basic", Role: catalogue.Main},
	}}))
	h.must(h.RecordFailure(h.Context(), "test", "no answer", later.Add(time.Minute)))
	state, err := h.CatalogueState(h.Context(), "test")
	h.must(err)
	if !state.VerifiedAt.Equal(later) || !state.AttemptedAt.Equal(later.Add(time.Minute)) || state.Problem != "no answer" {
		h.Errorf("compared %+v", state)
	}
	want := fmt.Sprint([]admin.ComponentState{
		{Component: catalogue.Component{Code: "OTT-PLUS", Name: "OTT-PLUS", Role: catalogue.Addon}, SeenAt: noon},
		{Component: catalogue.Component{Code: "TV-BASIC", Name: "Basic", Role: catalogue.Main}, Sellable: true, SeenAt: later},
	})
	if got := fmt.Sprint(state.Components); got != want {
		h.Errorf("components %s; want %s", got, want)
	}
}

func overdueReviews(h *harness) {
	s := h.fixture("10000")
	var ids []string
	for i, after := range []time.Duration{2 * time.Hour, time.Hour, 3 * time.Hour} {
		op := s.reserve(s.activation(name("key", i), fmt.Sprintf("980000000%d", i), fmt.Sprintf("10000%d", i)))
		st := settlement(op, operation.NeedsReview)
		st.At = noon.Add(after)
		_, _, err := s.Settle(s.Context(), st)
		s.must(err)
		ids = append(ids, op.ID)
	}
	if holds, err := s.Holds(s.Context()); err != nil || len(holds) != 1 || holds[operation.NeedsReview].Count != 3 {
		s.Errorf("Holds() = %v, %v; want three in review", holds, err)
	}
	open := s.reserve(s.activation("key-9", "9800000009", "100009"))
	want := map[operation.State]admin.Hold{
		operation.Processing:  {Count: 1, Amount: open.Amount, Oldest: open.CreatedAt},
		operation.NeedsReview: {Count: 3, Amount: open.Amount.Add(open.Amount).Add(open.Amount), Oldest: noon.Add(time.Hour)},
	}
	if holds, err := s.Holds(s.Context()); err != nil || !reflect.DeepEqual(holds, want) {
		s.Errorf("Holds() = %v, %v; want %v", holds, err, want)
	}
	service := s.consoleUser("asha", admin.Viewer)
	for _, row := range []struct {
		now  time.Time
		want []string
	}{
		{noon.Add(time.Hour + admin.ReviewDue - time.Millisecond), nil},
		{noon.Add(time.Hour + admin.ReviewDue), []string{ids[1]}},
		{noon.Add(9*time.Hour + admin.ReviewDue), []string{ids[1], ids[0], ids[2]}},
	} {
		ops, err := service.OverdueReviews(s.Context(), row.now)
		s.must(err)
		var got []string
		for _, op := range ops {
			got = append(got, op.ID)
		}
		count, err := s.CountOverdueReviews(s.Context(), row.now.Add(-admin.ReviewDue))
		if err != nil || count != len(row.want) || fmt.Sprint(got) != fmt.Sprint(row.want) {
			s.Errorf("at %s: %v, and %d counted, %v; want %v", row.now, got, count, err, row.want)
		}
	}
}
