package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

var staffWorkTests = []test{
	{"an adjustment changes wallet and ledger, not below zero", adjustments},
	{"an adjustment does not touch held money", adjustmentsAndHolds},
	{"an adjustment with a voucher is booked once under concurrency", adjustmentsUnderVouchers},
	{"an adjustment with a reference is booked once", adjustmentsUnderReferences},
	{"commissions are listed at the rate of their time", commissions},
	{"an operation's history has every state and provider call", histories},
	{"operations are listed newest first, by operator, state and subscriber", operationLists},
	{"an import adds missing subscribers and can be repeated", imports},
	{"a bad import batch changes nothing", badImports},
	{"a batch imported concurrently is added once", importRaces},
	{"an import racing with activations leaves one subscriber", importAgainstActivations},
}

func adjustments(h *harness) {
	s := h.fixture("100")
	for _, row := range []struct{ amount, balance string }{{"50.50", "150.50"}, {"-150.50", "0"}, {"1", "1"}} {
		wallet, _, err := s.Adjust(s.Context(), staffAction("wallet adjust"), admin.Adjustment{OperatorID: s.operator.ID, Amount: rupees(row.amount)})
		s.must(err)
		if wallet.Balance != rupees(row.balance) {
			s.Errorf("after %s: %s; want %s", row.amount, wallet.Balance, row.balance)
		}
	}
	_, _, err := s.Adjust(s.Context(), staffAction("wallet adjust"), admin.Adjustment{OperatorID: s.operator.ID, Amount: rupees("-1.01")})
	s.refused("below zero", err)
	_, _, err = s.Adjust(s.Context(), staffAction("wallet adjust"), admin.Adjustment{OperatorID: 4711, Amount: rupees("1")})
	s.refused("nobody's wallet", err)
	s.money("after all", "1", "0")
	lines, err := s.LedgerPage(s.Context(), admin.ListQuery{OperatorID: s.operator.ID})
	s.must(err)
	var got []string
	for _, line := range lines[1:] {
		got = append(got, fmt.Sprintf("%v %s %s %s", line.Credit, line.Amount, line.BalanceAfter, line.Description))
	}
	want := []string{"true 50.50 150.50 Adjustment: because", "false 150.50 0.00 Adjustment: because", "true 1.00 1.00 Adjustment: because"}
	if !slices.Equal(got, want) {
		s.Errorf("the ledger is %q; want %q", got, want)
	}
}

func adjustmentsUnderVouchers(h *harness) {
	s := h.fixture("100")
	once := staffAction("wallet adjust")
	once.Voucher = "AAAA2222BBBB"
	once.Reason += once.VoucherNote()
	var made atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			_, _, err := s.Adjust(s.Context(), once, admin.Adjustment{OperatorID: s.operator.ID, Amount: rupees("-10")})
			var refusal *admin.Refusal
			switch {
			case err == nil:
				made.Add(1)
			case !errors.As(err, &refusal):
				s.Errorf("adjust under a voucher: %v", err)
			}
		})
	}
	callers.Wait()
	if made.Load() != 1 {
		s.Errorf("%d adjustments were made under one voucher; want 1", made.Load())
	}
	s.money("after eight tries", "90", "0")

	other := once
	other.Voucher = "CCCC3333DDDD"
	other.Reason = "because" + other.VoucherNote()
	_, _, err := s.Adjust(s.Context(), other, admin.Adjustment{OperatorID: s.operator.ID, Amount: rupees("-10")})
	s.must(err)
	s.money("after another voucher", "80", "0")
}

func adjustmentsUnderReferences(h *harness) {
	s := h.fixture("100")
	refund := admin.Adjustment{OperatorID: s.operator.ID, Amount: rupees("-10"), Reference: "money-001"}
	var booked atomic.Int32
	concurrently(8, func(int) {
		_, once, err := s.Adjust(s.Context(), staffAction("wallet adjust"), refund)
		if err != nil {
			s.Errorf("adjust under a reference: %v", err)
		}
		if once {
			booked.Add(1)
		}
	})
	if booked.Load() != 1 {
		s.Errorf("%d adjustments were booked under one reference; want 1", booked.Load())
	}
	s.money("after eight tries", "90", "0")
	auditEntries := len(s.auditEntries())
	h.reopen()
	other := staffAction("wallet adjust")
	other.Reason = "another reason"
	wallet, again, err := s.Adjust(s.Context(), other, refund)
	if err != nil || again || wallet.Balance != rupees("90") {
		s.Errorf("repeated with another reason: %+v, %v, %v; want the same balance and nothing booked", wallet, again, err)
	}
	wrong := refund
	wrong.Amount = rupees("-10.01")
	_, _, err = s.Adjust(s.Context(), staffAction("wallet adjust"), wrong)
	s.refused("the reference with another amount", err)
	if got := len(s.auditEntries()); got != auditEntries {
		s.Errorf("%d audit entries were written for what was not booked", got-auditEntries)
	}
	// A top-up may have the same reference.
	refund.OperatorID = h.operator("other").ID
	if _, credited, err := s.TopUp(s.Context(), staffAction("wallet topup"), admin.TopUp{OperatorID: refund.OperatorID, Amount: rupees("5"), Reference: refund.Reference}); err != nil || !credited {
		s.Errorf("a top-up: %v, %v", credited, err)
	}
	// A refused adjustment leaves its reference free.
	refund.Amount, refund.Reference = rupees("-1000"), "later"
	_, _, err = s.Adjust(s.Context(), staffAction("wallet adjust"), refund)
	s.refused("more than there is", err)
	refund.Amount = rupees("-5")
	if _, booked, err := s.Adjust(s.Context(), staffAction("wallet adjust"), refund); err != nil || !booked {
		s.Errorf("after a refusal: %v, %v", booked, err)
	}
}

func adjustmentsAndHolds(h *harness) {
	s := h.fixture("199")
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	_, _, err := s.Adjust(s.Context(), staffAction("wallet adjust"), admin.Adjustment{OperatorID: s.operator.ID, Amount: rupees("-0.01")})
	s.refused("taking what is held", err)
	s.settle(op, operation.Failed)
	s.money("after the refund", "199", "0")
}

func commissions(h *harness) {
	s := h.fixture("10000")
	first := s.subscriber("100001", "9800000001")
	rate := 1000
	_, err := s.ChangeOperator(s.Context(), staffAction("lco set"), s.operator.ID, admin.OperatorChange{CommissionBPS: &rate})
	s.must(err)
	second := s.settle(s.reserve(s.renewal("renew-1", "100001")), operation.Success)
	s.settle(s.reserve(s.renewal("renew-2", "100001")), operation.Failed)
	for _, id := range []int64{0, s.operator.ID} {
		entries, err := s.CommissionPage(s.Context(), admin.ListQuery{OperatorID: id})
		s.must(err)
		got := map[string]string{}
		for _, e := range entries {
			got[e.TransactionID] = fmt.Sprintf("%s at %d of %d", e.Amount, e.RateBPS, e.OperatorID)
		}
		want := map[string]string{
			first.ID: fmt.Sprintf("4.98 at 250 of %d", s.operator.ID), second.ID: fmt.Sprintf("19.90 at 1000 of %d", s.operator.ID),
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			s.Errorf("of %d: %v; want %v", id, got, want)
		}
	}
	if entries, err := s.CommissionPage(s.Context(), admin.ListQuery{OperatorID: h.operator("other").ID}); err != nil || len(entries) != 0 {
		s.Errorf("another operator's: %v, %v", entries, err)
	}
}

func histories(h *harness) {
	s := h.fixture("10000")
	op := s.settle(s.settle(s.reserve(s.activation("key-1", "9800000001", "100001")), operation.NeedsReview), operation.Success)
	history, err := s.OperationHistory(s.Context(), op.ID)
	s.must(err)
	var steps []string
	for _, e := range history.Events {
		steps = append(steps, string(e.From)+">"+string(e.To))
	}
	if want := []string{">processing", "processing>needs_review", "needs_review>success"}; !slices.Equal(steps, want) {
		s.Errorf("steps %v; want %v", steps, want)
	}
	if len(history.Calls) != 2 || history.Calls[0].Reference != op.ID || history.Calls[0].Outcome != "unknown" || history.State != operation.Success {
		s.Errorf("the history is %+v", history)
	}
	_, err = s.OperationHistory(s.Context(), "CX-none")
	s.refused("an unknown transaction", err)
}

func operationLists(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	failed := s.settle(s.reserve(s.renewal("renew-1", "100001")), operation.Failed)
	open := s.reserve(s.activation("key-2", "9800000002", "100002"))
	list := func(filter admin.OperationFilter) string {
		if filter.Limit == 0 {
			filter.Limit = 10
		}
		operations, err := s.ListOperations(s.Context(), filter)
		s.must(err)
		var ids []string
		for _, op := range operations {
			ids = append(ids, op.ID)
		}
		return strings.Join(ids, " ")
	}
	for _, row := range []struct {
		filter admin.OperationFilter
		want   string
	}{
		{admin.OperationFilter{}, "CXrenew-1 CXkey-2 CXact-100001"},
		{admin.OperationFilter{Limit: 1}, "CXrenew-1"},
		{admin.OperationFilter{State: operation.Failed}, failed.ID},
		{admin.OperationFilter{State: operation.Processing, OperatorID: s.operator.ID}, open.ID},
		{admin.OperationFilter{Subscriber: "100001"}, "CXrenew-1 CXact-100001"},
		{admin.OperationFilter{OperatorID: h.operator("other").ID}, ""},
	} {
		if got := list(row.filter); got != row.want {
			s.Errorf("%+v: %s; want %s", row.filter, got, row.want)
		}
	}
	_, err := s.ListOperations(s.Context(), admin.OperationFilter{OperatorID: 4711, Limit: 1})
	s.refused("an unknown operator's", err)
}

func (s *fixture) importRow(line int, id, mobile string) admin.ImportRow {
	return admin.ImportRow{
		Line: line, OperatorID: s.operator.ID, SubscriberID: id, Mobile: mobile, Name: "Asha", PlanID: s.plan.ID,
		Expires: noon.Add(5 * 24 * time.Hour),
	}
}

func imports(h *harness) {
	s := h.fixture("10000")
	rows := []admin.ImportRow{s.importRow(2, "200001", "9700000001"), s.importRow(3, "200002", "9700000002")}
	for i, want := range []int{2, 0} {
		added, err := s.ImportSubscribers(s.Context(), staffAction("subscriber import"), rows)
		if err != nil || added != want {
			s.Errorf("time %d: %d, %v; want %d", i+1, added, err, want)
		}
	}
	operatorID, found, err := s.FindSubscriber(s.Context(), "200001")
	s.must(err)
	plan, active := subscription.PlanAt(found.Cycles, found.Expires, noon)
	if operatorID != s.operator.ID || !found.Expires.Equal(rows[0].Expires) || plan != s.plan.ID || !active || found.OpenOperation != "" {
		s.Errorf("imported %d %+v", operatorID, found)
	}
	// An imported subscriber is renewed like any other.
	renewed := s.settle(s.reserve(s.renewal("renew-1", "200001")), operation.Success)
	if !renewed.ExpiryPrevious.Equal(rows[0].Expires) {
		s.Errorf("renewed from %s; want %s", renewed.ExpiryPrevious, rows[0].Expires)
	}
	if auditEntries := s.auditEntries(); auditEntries[len(auditEntries)-1].Action != "subscriber import" {
		s.Errorf("the last audit entry is %q", auditEntries[len(auditEntries)-1].Action)
	}
	_, _, err = s.FindSubscriber(s.Context(), "999999")
	s.refused("nobody", err)
}

func importRaces(h *harness) {
	s := h.fixture("10000")
	var rows, backwards []admin.ImportRow
	for i := range 20 {
		rows = append(rows, s.importRow(i+2, fmt.Sprintf("2000%02d", i), fmt.Sprintf("97000000%02d", i)))
	}
	for _, row := range slices.Backward(rows) {
		backwards = append(backwards, row)
	}
	var total atomic.Int64
	concurrently(8, func(i int) {
		batch := rows
		if i%2 == 1 {
			batch = backwards // the batches must not deadlock
		}
		added, err := s.ImportSubscribers(s.Context(), staffAction("subscriber import"), batch)
		if err != nil || added != 0 && added != len(rows) {
			s.Errorf("%d were added, %v; want all of them or none", added, err)
		}
		total.Add(int64(added))
	})
	if total.Load() != int64(len(rows)) {
		s.Errorf("%d were added in all; want %d", total.Load(), len(rows))
	}
}

func importAgainstActivations(h *harness) {
	s := h.fixture("10000")
	for i := range 5 {
		mobile := fmt.Sprintf("97000000%02d", i)
		var wins atomic.Int64
		concurrently(4, func(j int) {
			id := fmt.Sprintf("2%02d%03d", i, j)
			if j == 0 {
				added, err := s.ImportSubscribers(s.Context(), staffAction("subscriber import"), []admin.ImportRow{s.importRow(2, id, mobile)})
				wins.Add(int64(added))
				if err != nil {
					s.refused("an import of a number that is taken", err)
				}
				return
			}
			_, err := s.Reserve(s.Context(), s.activation("key-"+id, mobile, id))
			if err == nil {
				wins.Add(1)
			} else if !errors.Is(err, operation.ErrStale) {
				s.Errorf("an activation of a number that is taken: %v", err)
			}
		})
		if wins.Load() != 1 {
			s.Errorf("%d have the number %s; want one", wins.Load(), mobile)
		}
	}
}

func badImports(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	stranger := s.importRow(2, "200009", "9700000009")
	stranger.OperatorID = 4711
	unplanned := s.importRow(3, "200008", "9700000008")
	unplanned.PlanID = "NONE-1"
	other := s.importRow(6, "100001", "9800000001")
	other.OperatorID = h.operator("other").ID
	rows := []struct {
		row     admin.ImportRow
		problem string
		known   bool
	}{
		{stranger, "there is no operator 4711", false},
		{unplanned, "there is no plan NONE-1", false},
		{s.importRow(4, "100001", "9700000007"), "subscriber_id 100001 belongs to another subscriber", false},
		{s.importRow(5, "200007", "9800000001"), "mobile 9800000001 belongs to another subscriber", false},
		{other, "subscriber_id 100001 belongs to another subscriber", false},
		{s.importRow(7, "100001", "9800000001"), "subscriber 100001 is there already, with another name, plan or expiry", false},
		{s.importRow(8, "200006", "9700000006"), "", false},
	}
	good := s.importRow(9, "200005", "9700000005")
	auditEntries := len(s.auditEntries())
	for _, row := range rows {
		verdicts, err := s.CheckImport(s.Context(), []admin.ImportRow{row.row}, noon)
		s.must(err)
		if want := (admin.ImportResult{Known: row.known, Problem: row.problem}); verdicts[0] != want {
			s.Errorf("line %d: %+v; want %+v", row.row.Line, verdicts[0], want)
		}
		if row.problem == "" {
			continue
		}
		_, err = s.ImportSubscribers(s.Context(), staffAction("subscriber import"), []admin.ImportRow{good, row.row})
		s.refused(row.problem, err)
	}
	if _, _, err := s.FindSubscriber(s.Context(), "200005"); err == nil {
		s.Error("a good row of a bad batch was imported")
	}
	if got := len(s.auditEntries()); got != auditEntries {
		s.Errorf("%d audit entries were written for what was refused", got-auditEntries)
	}
}
