package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/receipt"
	"github.com/coaxhq/coax/internal/subscription"
)

var receiptTests = []test{
	{"every success has the next number, and a failure none", receiptNumbersAreConsecutive},
	{"a review's success has one, whoever decides it", receiptOfReview},
	{"numbers begin anew in April, by Indian time, whatever the order of settlements", receiptYears},
	{"numbers have no gap and no repeat under load", receiptsUnderLoad},
	{"a receipt is the operator's own", receiptOfOperator},
	{"an operation is found by its receipt number", receiptSearch},
	{"the first print is told from later ones", receiptPrints},
	{"prints at the same time are one first print", receiptPrintsAtOnce},
	{"a job's receipts are those of what succeeded, in the order of its rows, in parts", receiptsOfJob},
	{"a job's first prints are told from later ones", receiptPrintsOfJob},
}

// receiptCalls are the methods of receipts, for CallEveryMethod.
var receiptCalls = []methodCall{
	{"Receipt", func(w *methodCaller) {
		op := w.settle(w.reserve(w.draft(operation.Renew)), operation.Success, nil)
		w.must(second(w.Receipt(w.Context(), op.OperatorID, op.ID)))
	}},
	{"PrintReceipt", func(w *methodCaller) {
		op := w.settle(w.reserve(w.draft(operation.Renew)), operation.Success, nil)
		w.must(second(w.PrintReceipt(w.Context(), op.OperatorID, op.ID, "web:asha", w.filled.Now)))
	}},
	{"JobReceipts", func(w *methodCaller) { w.must(first(w.JobReceipts(w.Context(), w.jobPart()))) }},
	{"PrintJobReceipts", func(w *methodCaller) {
		w.must(first(w.PrintJobReceipts(w.Context(), w.jobPart(), "web:asha", w.filled.Now)))
	}},
	{"NumberReceipts", func(w *methodCaller) { w.must(second(w.NumberReceipts(w.Context()))) }},
}

// jobPart makes a bulk renewal with a purchase that succeeded.
func (w *methodCaller) jobPart() receipt.JobPart {
	op := w.settle(w.reserve(w.draft(operation.Renew)), operation.Success, nil)
	part := receipt.JobPart{OperatorID: op.OperatorID, JobID: "WALK-" + op.ID, Limit: 10}
	row := bulk.Row{Number: 1, SubscriberID: op.SubscriberID, PlanID: w.plan.ID, Kind: operation.Renew, IdempotencyKey: op.IdempotencyKey, State: bulk.RowQueued}
	w.must(w.SaveBulkJob(w.Context(), bulk.Job{OperatorID: part.OperatorID, ID: part.JobID, Actor: "web:asha", State: bulk.Draft, CreatedAt: w.filled.Now}, []bulk.Row{row}))
	lease := bulk.Lease{OperatorID: part.OperatorID, JobID: part.JobID, Now: w.filled.Now}
	w.must(first(w.SettleBulkRow(w.Context(), lease, bulk.Outcome{Number: 1, State: bulk.RowDone, OperationID: op.ID, Amount: op.Amount})))
	return part
}

// number reads the receipt number of an operation; empty if there is no receipt.
func (s *fixture) number(op operation.Operation) string {
	s.Helper()
	r, found, err := s.Receipt(s.Context(), op.OperatorID, op.ID)
	s.must(err)
	if !found {
		return ""
	}
	return r.Number.String()
}

func (s *fixture) numbers(want ...string) func(ops ...operation.Operation) {
	return func(ops ...operation.Operation) {
		s.Helper()
		var got []string
		for _, op := range ops {
			got = append(got, s.number(op))
		}
		if !slices.Equal(got, want) {
			s.Errorf("the receipt numbers are %q; want %q", got, want)
		}
	}
}

func receiptNumbersAreConsecutive(h *harness) {
	s := h.fixture("10000")
	first := s.subscriber("100001", "9800000001")
	failed := s.settle(s.reserve(s.activation("key-2", "9800000002", "100002")), operation.Failed)
	second := s.subscriber("100002", "9800000002")
	open := s.reserve(s.activation("key-3", "9800000003", "100003"))
	third := s.settle(s.reserve(s.renewal("renew-1", "100001")), operation.Success)
	s.numbers("R26-27/000001", "", "R26-27/000002", "", "R26-27/000003")(first, failed, second, open, third)

	// The same settlement again gives no other number.
	if _, did, err := s.Settle(s.Context(), settlement(open, operation.Success)); err != nil || !did {
		s.Fatalf("settled %v, %v", did, err)
	}
	if _, did, err := s.Settle(s.Context(), settlement(open, operation.Success)); err != nil || did {
		s.Fatalf("settled once more: %v, %v", did, err)
	}
	s.reopen()
	fourth := s.settle(s.reserve(s.renewal("renew-2", "100002")), operation.Success)
	s.numbers("R26-27/000004", "R26-27/000005")(open, fourth)
	if numbered, more, err := s.NumberReceipts(s.Context()); numbered != 0 || more || err != nil {
		s.Errorf("%d purchases were numbered afterwards, more %v, %v", numbered, more, err)
	}

	r, found, err := s.Receipt(s.Context(), 0, third.ID)
	if err != nil || !found || r.TransactionID != third.ID || r.Operator != s.operator.Name || r.OperatorID != s.operator.ID || r.Customer != third.CustomerName ||
		r.Mobile != third.Mobile || r.SubscriberID != "100001" || r.Plan != third.PlanName || r.Amount != third.Amount || !r.SettledAt.Equal(third.CompletedAt) ||
		!r.From.Equal(third.CycleStartsAt) || !r.Until.Equal(third.ExpiryPlanned) || !r.PrintedAt.IsZero() {
		s.Errorf("the receipt is %+v, %v, %v", r, found, err)
	}
}

func receiptOfReview(h *harness) {
	s := h.fixture("10000")
	op := s.settle(s.reserve(s.activation("key-1", "9800000001", "100001")), operation.NeedsReview)
	other := s.subscriber("100002", "9800000002")
	st := settlement(op, operation.Success)
	st.LastRead = nil
	if _, did, err := s.Settle(s.Context(), st); err != nil || !did {
		s.Fatalf("settled %v, %v", did, err)
	}
	s.numbers("R26-27/000002", "R26-27/000001")(op, other)
}

func receiptYears(h *harness) {
	s := h.fixture("10000")
	april := time.Date(2027, time.April, 1, 0, 0, 0, 0, subscription.IST)
	n := 0
	at := func(when time.Time) operation.Operation {
		n++
		op := s.reserve(s.activation(name("key", n), fmt.Sprintf("98%08d", n), fmt.Sprintf("1%05d", n)))
		st := settlement(op, operation.Success)
		st.At = when
		settled, did, err := s.Settle(s.Context(), st)
		if err != nil || !did {
			s.Fatalf("settled %v, %v", did, err)
		}
		return settled
	}
	s.numbers("R26-27/000001", "R26-27/000002", "R27-28/000001", "R26-27/000003", "R27-28/000002", "R28-29/000001", "R26-27/000004", "R28-29/000002", "R27-28/000003")(
		at(april.Add(-time.Hour)), at(april.Add(-time.Millisecond)),
		at(april), at(april.Add(-time.Millisecond)), // another node's clock
		at(april.Add(time.Second)), at(april.AddDate(1, 0, 0)),
		at(april.Add(-time.Minute)), at(april.AddDate(1, 0, 1)), at(april.AddDate(0, 11, 0)))
}

// receiptsUnderLoad settles operations of several operators at once, around the beginning of a
// financial year, some of them with a refund.
func receiptsUnderLoad(h *harness) {
	const operators, each = 3, 40
	april := time.Date(2027, time.April, 1, 0, 0, 0, 0, subscription.IST)
	first := h.fixture("100000")
	var shops []*fixture
	for i := range operators {
		shop := *first
		if i > 0 {
			shop.operator = h.operator(name("shop", i))
			shop.topUp(shop.operator, "100000")
		}
		shops = append(shops, &shop)
	}
	var ops [operators * each]operation.Operation
	concurrently(len(ops), func(i int) {
		s := shops[i%operators]
		draft := s.activation(name("key", i), fmt.Sprintf("98%08d", i), fmt.Sprintf("1%05d", i))
		op, err := s.Reserve(s.Context(), draft)
		for errors.Is(err, operation.ErrStale) {
			op, err = s.Reserve(s.Context(), draft)
		}
		if err != nil {
			s.Errorf("reserve: %v", err)
			return
		}
		to := operation.Success
		if i%5 == 4 {
			to = operation.Failed
		}
		st := settlement(op, to)
		st.At = april.Add(time.Duration(i%2) * -time.Second)
		if i%7 == 0 {
			st.LastRead = nil
		}
		settled, did, err := s.Settle(s.Context(), st)
		if err != nil || !did {
			s.Errorf("settled %v, %v", did, err)
		}
		ops[i] = settled
	})
	for n, s := range shops {
		var got, want []string
		var sold [2]int64
		for i, op := range ops {
			if i%operators != n || op.State != operation.Success {
				continue
			}
			sold[i%2]++
			got = append(got, s.number(op))
			want = append(want, subscription.ReceiptNumber{Year: 2027 - i%2, Number: sold[i%2]}.String())
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || len(got) == 0 {
			s.Errorf("the receipt numbers of %s are %q; want %q", s.operator.Name, got, want)
		}
	}
}

// LateReceipts tests that purchases are numbered which an older release has settled beside this one.
// run changes rows as that release would have written them.
func LateReceipts(t *testing.T, opener Opener, run func(statement string)) {
	h := newHarness(t, opener)
	s := h.fixture("10000")
	var ops []operation.Operation
	sell := func() {
		ops = append(ops, s.subscriber(fmt.Sprintf("1%05d", len(ops)), fmt.Sprintf("98%08d", len(ops))))
	}
	for range 4 {
		sell()
	}
	// The older release settled the last two, and this one has sold one more.
	run(fmt.Sprintf(`UPDATE ledger SET receipt = NULL WHERE operation_id IN ('%s', '%s')`, ops[2].ID, ops[3].ID))
	run(fmt.Sprintf(`UPDATE wallets SET receipts = 2, receipt_lines = 3 WHERE operator_id = %d`, s.operator.ID))
	sell()
	s.topUp(s.operator, "100")
	s.numbers("R26-27/000001", "R26-27/000002", "", "", "R26-27/000003")(ops...)

	for want := 2; want >= 0; want -= 2 {
		if numbered, _, err := s.NumberReceipts(s.Context()); numbered != want || err != nil {
			t.Errorf("%d purchases were numbered, %v; want %d", numbered, err, want)
		}
	}
	sell()
	s.topUp(s.operator, "100")
	s.numbers("R26-27/000001", "R26-27/000002", "R26-27/000004", "R26-27/000005", "R26-27/000003", "R26-27/000006")(ops...)
	if numbered, more, err := s.NumberReceipts(s.Context()); numbered != 0 || more || err != nil {
		t.Errorf("%d purchases were numbered once more, more %v, %v", numbered, more, err)
	}

	// All purchases of an operator may be older than numbers.
	run(`UPDATE ledger SET receipt = NULL`)
	run(`UPDATE wallets SET receipts = 0, receipt_year = 0, receipt_lines = ledger_lines, receipts_from = ledger_lines`)
	sell()
	s.numbers("", "", "", "", "", "", "R26-27/000001")(ops...)

	// Of many, those of several years are numbered in several calls.
	run(`UPDATE ledger SET receipt = NULL`)
	run(`UPDATE wallets SET receipts = 7, receipt_year = 2030, receipts_past = '{"2025":40}', receipt_lines = 0, receipts_from = 0`)
	run(fmt.Sprintf(`UPDATE ledger SET created_at = %d WHERE operation_id IN ('%s', '%s')`, noon.AddDate(-1, 0, 0).UnixMilli(), ops[1].ID, ops[4].ID))
	run(fmt.Sprintf(`UPDATE operations SET completed_at = %d WHERE id IN ('%s', '%s')`, noon.AddDate(-1, 0, 0).UnixMilli(), ops[1].ID, ops[4].ID))
	if numbered, _, err := s.NumberReceipts(s.Context()); numbered != 7 || err != nil {
		t.Errorf("%d purchases were numbered, %v; want 7", numbered, err)
	}
	s.numbers("R26-27/000001", "R25-26/000041", "R26-27/000002", "R26-27/000003", "R25-26/000042", "R26-27/000004", "R26-27/000005")(ops...)
	sell()
	if got := s.number(ops[7]); got != "R26-27/000006" {
		t.Errorf("the next number is %s; want R26-27/000006", got)
	}
}

func receiptOfOperator(h *harness) {
	s := h.fixture("10000")
	op := s.subscriber("100001", "9800000001")
	for operatorID, want := range map[int64]bool{s.operator.ID: true, s.operator.ID + 1: false, 0: true} {
		if _, found, err := s.Receipt(s.Context(), operatorID, op.ID); err != nil || found != want {
			s.Errorf("operator %d: found %v, %v; want %v", operatorID, found, err, want)
		}
	}
	if _, found, err := s.Receipt(s.Context(), s.operator.ID, "CX-NONE"); found || err != nil {
		s.Errorf("a receipt of no purchase: %v, %v", found, err)
	}
	if _, found, err := s.PrintReceipt(s.Context(), s.operator.ID+1, op.ID, "web:eve", noon); found || err != nil {
		s.Errorf("another operator's receipt was printed: %v, %v", found, err)
	}
	if r, _, err := s.Receipt(s.Context(), s.operator.ID, op.ID); err != nil || !r.PrintedAt.IsZero() {
		s.Errorf("it was printed at %s, %v", r.PrintedAt, err)
	}
}

// receiptSearch sells more than the receipts between two that an index has, in two financial years
// and with credits among them.
func receiptSearch(h *harness) {
	const each = 70
	april := time.Date(2027, time.April, 1, 0, 0, 0, 0, subscription.IST)
	s := h.fixture("40000")
	other := *s
	other.operator = h.operator("other")
	other.topUp(other.operator, "1000")
	want := map[subscription.ReceiptNumber]string{}
	n := 0
	sell := func(s *fixture, at time.Time) operation.Operation {
		n++
		st := settlement(s.reserve(s.activation(name("key", n), fmt.Sprintf("98%08d", n), fmt.Sprintf("1%05d", n))), operation.Success)
		st.At = at
		settled, _, err := s.Settle(s.Context(), st)
		s.must(err)
		return settled
	}
	for i := range int64(each) {
		for year, at := range map[int]time.Time{2026: april.Add(-time.Minute), 2027: april} {
			want[subscription.ReceiptNumber{Year: year, Number: i + 1}] = sell(s, at).ID
		}
		if i%10 == 0 {
			s.topUp(s.operator, "1")
		}
	}
	theirs := sell(&other, april)
	for number, id := range want {
		for operatorID, all := range map[int64][]string{s.operator.ID: {id}, other.operator.ID: nil, 0: {id}} {
			if (number == subscription.ReceiptNumber{Year: 2027, Number: 1}) && operatorID != s.operator.ID {
				all = append(all, theirs.ID)
			}
			found, err := s.OperationsWithReceipt(s.Context(), operatorID, number, 10)
			s.must(err)
			var ids []string
			for _, op := range found {
				ids = append(ids, op.ID)
			}
			slices.Sort(ids)
			slices.Sort(all)
			if !slices.Equal(ids, all) {
				s.Errorf("%s of operator %d is of %v; want %v", number, operatorID, ids, all)
			}
		}
	}
	for _, number := range []subscription.ReceiptNumber{{Year: 2026, Number: each + 1}, {Year: 2025, Number: 1}, {Year: 2026, Number: 1 << 40}} {
		if found, err := s.OperationsWithReceipt(s.Context(), 0, number, 10); err != nil || len(found) != 0 {
			s.Errorf("%s is of %+v, %v; want none", number, found, err)
		}
	}
}

func receiptPrints(h *harness) {
	s := h.fixture("10000")
	op := s.subscriber("100001", "9800000001")
	first, found, err := s.PrintReceipt(s.Context(), s.operator.ID, op.ID, "web:asha", noon.Add(time.Minute))
	if err != nil || !found || !first.PrintedAt.IsZero() || first.Number.Number != 1 {
		s.Errorf("the first print is %+v, %v, %v", first, found, err)
	}
	again, _, err := s.PrintReceipt(s.Context(), s.operator.ID, op.ID, "web:ravi", noon.Add(time.Hour))
	if err != nil || !again.PrintedAt.Equal(noon.Add(time.Minute)) {
		s.Errorf("the second print follows one of %s, %v", again.PrintedAt, err)
	}
	open := s.reserve(s.activation("key-9", "9800000009", "100009"))
	if _, found, err := s.PrintReceipt(s.Context(), s.operator.ID, open.ID, "web:asha", noon); found || err != nil {
		s.Errorf("a receipt of an open operation was printed: %v, %v", found, err)
	}
}

func receiptPrintsAtOnce(h *harness) {
	s := h.fixture("10000")
	op := s.subscriber("100001", "9800000001")
	var group sync.WaitGroup
	firsts := make(chan bool, 16)
	for range cap(firsts) {
		group.Go(func() {
			r, found, err := s.PrintReceipt(s.Context(), s.operator.ID, op.ID, "web:asha", noon)
			if err != nil || !found {
				s.Errorf("printed %v, %v", found, err)
			}
			firsts <- r.PrintedAt.IsZero()
		})
	}
	group.Wait()
	close(firsts)
	n := 0
	for first := range firsts {
		if first {
			n++
		}
	}
	if n != 1 {
		s.Errorf("%d prints were the first; want 1", n)
	}
}

// soldJob is a bulk renewal of five rows: the third has failed, the fourth is open.
func (s *fixture) soldJob() (part receipt.JobPart, ops []operation.Operation) {
	s.Helper()
	job, rows := s.bulkDraft(s.operator, "job-1", 5)
	for i, row := range rows {
		s.subscriber(row.SubscriberID, row.Mobile)
		op := s.reserve(s.renewal(row.IdempotencyKey, row.SubscriberID))
		outcome := bulk.Outcome{Number: row.Number, State: bulk.RowDone, OperationID: op.ID, Amount: op.Amount}
		switch i {
		case 2:
			op, outcome.State = s.settle(op, operation.Failed), bulk.RowRefused
		case 3:
			outcome.State = bulk.RowInReview
		default:
			op = s.settle(op, operation.Success)
		}
		ops = append(ops, op)
		settled, err := s.SettleBulkRow(s.Context(), bulk.Lease{OperatorID: job.OperatorID, JobID: job.ID, Now: noon}, outcome)
		if err != nil || !settled {
			s.Fatalf("row %d settled %v, %v", row.Number, settled, err)
		}
	}
	return receipt.JobPart{OperatorID: job.OperatorID, JobID: job.ID, Limit: 10}, ops
}

func receiptsOfJob(h *harness) {
	s := h.fixture("10000")
	part, ops := s.soldJob()
	is := func(what string, part receipt.JobPart, want ...int) {
		s.Helper()
		list, err := s.JobReceipts(s.Context(), part)
		s.must(err)
		got := []int{}
		for _, r := range list {
			got = append(got, r.Row)
			alone, found, err := s.Receipt(s.Context(), s.operator.ID, ops[r.Row-1].ID)
			if err != nil || !found || r.Receipt != alone {
				s.Errorf("%s: row %d has %+v; the receipt is %+v, %v, %v", what, r.Row, r.Receipt, alone, found, err)
			}
		}
		if !slices.Equal(got, append([]int{}, want...)) {
			s.Errorf("%s: the rows %v; want %v", what, got, want)
		}
	}
	is("all", part, 1, 2, 5)
	first, second := part, part
	first.Limit, second.After, second.Limit = 2, 2, 2
	is("the first part", first, 1, 2)
	is("the second part", second, 5)
	others := part
	others.OperatorID++
	is("another operator's", others)
	none := part
	none.JobID = "job-2"
	is("no job's", none)
	s.settle(ops[3], operation.Success)
	is("after the open one succeeded", part, 1, 2, 4, 5)
}

func receiptPrintsOfJob(h *harness) {
	s := h.fixture("10000")
	part, ops := s.soldJob()
	prints := func(what string, part receipt.JobPart, at time.Time, want ...time.Time) {
		s.Helper()
		list, err := s.PrintJobReceipts(s.Context(), part, "web:asha", at)
		s.must(err)
		got := []time.Time{}
		for _, r := range list {
			got = append(got, r.PrintedAt)
		}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			s.Errorf("%s: printed before %v; want %v", what, got, want)
		}
	}
	var never time.Time
	alone, job := noon.Add(time.Minute), noon.Add(time.Hour)
	if _, _, err := s.PrintReceipt(s.Context(), s.operator.ID, ops[1].ID, "web:asha", alone); err != nil {
		s.Fatal(err)
	}
	others := part
	others.OperatorID++
	prints("another operator's", others, noon)
	first := part
	first.Limit = 2
	prints("the first part", first, job, never, alone)
	prints("all", part, job.Add(time.Minute), job, alone, never)
	prints("all again", part, job.Add(time.Hour), job, alone, job.Add(time.Minute))
	if r, _, err := s.PrintReceipt(s.Context(), s.operator.ID, ops[0].ID, "web:asha", job.Add(time.Hour)); err != nil || !r.PrintedAt.Equal(job) {
		s.Errorf("alone it was printed at %s, %v; want %s", r.PrintedAt, err, job)
	}
}
