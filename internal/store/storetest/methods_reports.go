package storetest

import (
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

// reportCalls are the methods of pages, with all their filters.
var reportCalls = []methodCall{
	{"Wallet", func(w *methodCaller) { w.must(first(w.Wallet(w.Context(), w.filled.OperatorID))) }},
	{"ListSubscribers", (*methodCaller).subscriberLists},
	{"SubscriberAtOffset", func(w *methodCaller) { w.eachSource(func(report.SubscriberQuery) {}) }},
	{"ChangeContact", func(w *methodCaller) {
		id := w.filled.Subscribers[0]
		record, _, err := w.Contact(w.Context(), w.filled.OperatorID, id, 10)
		w.must(err)
		action := admin.StaffAction{Actor: "web:ravi", Action: admin.CustomerContactChange, At: w.filled.Now}
		record.Contact.Area, record.Contact.BoxNumber = "Lake Road", "STB-1"
		version, err := w.ChangeContact(w.Context(), action, admin.ContactEdit{OperatorID: w.filled.OperatorID, SubscriberID: id, Seen: record.Version, Contact: record.Contact})
		w.must(err)
		w.must(w.SetContactState(w.Context(), id, version, admin.ContactTold, "", w.filled.Now))
	}},
	{"BoxHolder", func(w *methodCaller) {
		w.must(second(w.BoxHolder(w.Context(), admin.BoxQuery{OperatorID: w.filled.OperatorID, BoxNumber: "STB-1"})))
	}},
	{"SubscriberAreas", func(w *methodCaller) { w.must(first(w.SubscriberAreas(w.Context(), w.filled.OperatorID, 10))) }},
	{"PlanNames", func(w *methodCaller) { w.must(first(w.PlanNames(w.Context()))) }},
	{"CountSubscribers", func(w *methodCaller) {
		w.must(first(w.CountSubscribers(w.Context(), w.filled.OperatorID, w.filled.Now)))
	}},
	{"SubscriberTimeline", func(w *methodCaller) {
		w.must(first(w.SubscriberTimeline(w.Context(), w.filled.OperatorID, w.filled.Subscribers[0])))
	}},
	{"DueByDay", func(w *methodCaller) {
		w.must(first(w.DueByDay(w.Context(), w.filled.OperatorID, w.filled.Now, w.filled.Now.Add(30*oneDay))))
	}},
	{"DueByOperator", func(w *methodCaller) {
		w.must(first(w.DueByOperator(w.Context(), w.filled.Now, w.filled.Now.Add(7*oneDay))))
	}},
	{"OperationTotals", func(w *methodCaller) {
		for _, operatorID := range []int64{0, w.filled.OperatorID} {
			w.must(first(w.OperationTotals(w.Context(), operatorID, w.filled.Now.Add(-oneDay), w.filled.Now.Add(oneDay))))
		}
	}},
	{"LedgerBounds", func(w *methodCaller) {
		w.must(first(w.LedgerBounds(w.Context(), w.filled.OperatorID, w.filled.Now.Add(-oneDay), w.filled.Now)))
	}},
	{"ListLedger", (*methodCaller).ledgerLists},
	{"OpenOperations", func(w *methodCaller) { w.must(first(w.OpenOperations(w.Context(), w.filled.OperatorID, 10))) }},
	{"PageOperations", (*methodCaller).operationPages},
	{"OperationAtOffset", func(w *methodCaller) {
		for _, q := range []report.OperationQuery{{}, {From: w.filled.Now.Add(-oneDay), Before: w.filled.Now, After: report.Cursor{Number: w.filled.Now.UnixMilli(), ID: "CX"}}} {
			q.OperatorID = w.filled.OperatorID
			w.must(second(w.OperationAtOffset(w.Context(), q, 20)))
		}
		w.must(second(w.OperationAtOffset(w.Context(), report.OperationQuery{AllOperators: true}, 20)))
	}},
	{"OperationsNamed", func(w *methodCaller) {
		for _, operatorID := range []int64{0, w.filled.OperatorID} {
			w.must(first(w.OperationsNamed(w.Context(), operatorID, "CX0", "order-1", 10)))
		}
	}},
	{"OperationsWithReceipt", func(w *methodCaller) {
		for _, operatorID := range []int64{0, w.filled.OperatorID} {
			w.must(first(w.OperationsWithReceipt(w.Context(), operatorID, subscription.ReceiptNumber{Year: subscription.FinancialYear(w.filled.Now), Number: 100}, 10)))
		}
	}},
	{"OperationsReversedBy", func(w *methodCaller) {
		for _, operatorID := range []int64{0, w.filled.OperatorID} {
			w.must(first(w.OperationsReversedBy(w.Context(), operatorID, "RV0")))
		}
	}},
	{"OperatorsWithTerm", func(w *methodCaller) { w.must(first(w.OperatorsWithTerm(w.Context(), "98", 10))) }},
	{"ListAccounts", func(w *methodCaller) {
		w.must(first(w.ListAccounts(w.Context(), report.AccountQuery{Search: "a", Status: "active", After: 1, Limit: 10})))
	}},
	{"SystemTotals", func(w *methodCaller) { w.must(first(w.SystemTotals(w.Context()))) }},
	{"ReviewQueue", func(w *methodCaller) {
		op := w.settle(w.reserve(w.draft(operation.Renew)), operation.NeedsReview, nil)
		w.must(first(w.ReviewQueue(w.Context(), report.Cursor{Number: 1, ID: "1"}, 10)))
		w.settle(op, operation.Failed, nil)
	}},
	{"CountPlanSubscribers", func(w *methodCaller) { w.must(first(w.CountPlanSubscribers(w.Context(), w.plan.ID, w.filled.Now))) }},
	{"CommissionSums", func(w *methodCaller) {
		w.must(first(w.CommissionSums(w.Context(), w.filled.OperatorID, w.filled.Now.Add(-oneDay), w.filled.Now.Add(oneDay))))
	}},
	{"ListCommissions", func(w *methodCaller) {
		w.must(first(w.ListCommissions(w.Context(), report.CommissionQuery{
			OperatorID: w.filled.OperatorID, From: w.filled.Now.Add(-oneDay), Before: w.filled.Now.Add(oneDay), Limit: 10,
		})))
	}},
}

func (w *methodCaller) subscriberLists() {
	w.eachSource(func(q report.SubscriberQuery) {
		for _, q.Plan = range []string{"", w.plan.ID} {
			for _, q.Area = range []string{"", "lake road"} {
				w.must(first(w.ListSubscribers(w.Context(), q)))
				cut := q
				cut.After = report.Cursor{Text: "a", ID: "1", Number: 1}
				cut.Last = report.Cursor{Text: "zzz", ID: "1", Number: w.filled.Now.UnixMilli()}
				if q.Descending {
					cut.After, cut.Last = cut.Last, cut.After
				}
				w.must(first(w.ListSubscribers(w.Context(), cut)))
			}
		}
	})
}

// eachSource calls list with queries of all sources, and finds a row of each.
func (w *methodCaller) eachSource(list func(report.SubscriberQuery)) {
	q := report.SubscriberQuery{OperatorID: w.filled.OperatorID, Now: w.filled.Now, Until: w.filled.Now.Add(15 * oneDay), Limit: 5}
	scanned := []report.Source{report.FromTerms, report.FromNames, report.FromExpiry, report.FromArea, report.FromPlan}
	for _, q.Status = range []report.StatusFilter{report.AnyStatus, report.Active, report.Expiring, report.Expired, report.FallingDue} {
		for _, q.Source = range append(scanned, report.FromPending, report.FromReview, report.FromAreaByExpiry, report.FromPlanByExpiry) {
			values := []string{"lake road"}
			switch q.Source {
			case report.FromTerms:
				q.Terms, values = []string{"981", "001", "a"}, []string{"981", "<189"}
			case report.FromPlan, report.FromPlanByExpiry:
				values = []string{w.plan.ID}
			}
			for _, q.Value = range values {
				for _, q.Descending = range []bool{false, true} {
					list(q)
					if slices.Contains(scanned, q.Source) {
						_, _, _, err := w.SubscriberAtOffset(w.Context(), q, 20)
						w.must(err)
					}
				}
			}
			q.Terms = nil
		}
	}
}

func (w *methodCaller) ledgerLists() {
	q := report.LedgerQuery{OperatorID: w.filled.OperatorID, Last: 1 << 30, Limit: 20}
	w.must(first(w.ListLedger(w.Context(), q)))
	q.NewestFirst = true
	w.must(first(w.ListLedger(w.Context(), q)))
	q.Side, q.Text = report.Debit, "renewal"
	w.must(first(w.ListLedger(w.Context(), q)))
	q.TransactionID = "nobody's"
	w.must(first(w.ListLedger(w.Context(), q)))
}

func (w *methodCaller) operationPages() {
	for _, q := range []report.OperationQuery{
		{},
		{After: report.Cursor{Number: w.filled.Now.UnixMilli(), ID: "CX"}},
		{From: w.filled.Now.Add(-oneDay), Before: w.filled.Now.Add(time.Hour)},
		{State: operation.Success, Kind: operation.Renew, Channel: operation.API, PlanID: w.plan.ID},
		{Last: report.Cursor{Number: w.filled.Now.UnixMilli(), ID: "CX"}, Kind: operation.AdvanceRenew},
		{State: operation.State(operation.Reversed)},
		{State: operation.NeedsReview, From: w.filled.Now.Add(-oneDay), Before: w.filled.Now.Add(time.Hour)},
		{State: operation.Processing, After: report.Cursor{Number: w.filled.Now.UnixMilli(), ID: "CX"}},
		{Subscriber: w.filled.Subscribers[0]},
		{ProviderTransaction: "PT-1", Last: report.Cursor{Number: w.filled.Now.UnixMilli(), ID: "CX"}},
		{ProviderTransaction: "PT-1", AllOperators: true, Last: report.Cursor{Number: w.filled.Now.UnixMilli(), ID: "CX"}},
	} {
		q.Limit = 20
		if !q.AllOperators {
			q.OperatorID = w.filled.OperatorID
		}
		w.must(first(w.PageOperations(w.Context(), q)))
	}
}
