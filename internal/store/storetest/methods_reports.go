package storetest

import (
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
)

// reportCalls are the methods of pages, with all their filters.
var reportCalls = []methodCall{
	{"Wallet", func(w *methodCaller) { w.must(first(w.Wallet(w.Context(), w.filled.OperatorID))) }},
	{"ListSubscribers", (*methodCaller).subscriberLists},
	{"TermAtOffset", func(w *methodCaller) {
		for _, terms := range [][]string{nil, {"98"}} {
			w.must(second(w.TermAtOffset(w.Context(), report.SubscriberQuery{OperatorID: w.filled.OperatorID, Terms: terms}, 20)))
		}
	}},
	{"CountSubscribers", func(w *methodCaller) {
		w.must(first(w.CountSubscribers(w.Context(), w.filled.OperatorID, w.filled.Now)))
	}},
	{"SubscriberTimeline", func(w *methodCaller) {
		w.must(first(w.SubscriberTimeline(w.Context(), w.filled.OperatorID, w.filled.Subscribers[0])))
	}},
	{"DueByDay", func(w *methodCaller) {
		w.must(first(w.DueByDay(w.Context(), w.filled.OperatorID, w.filled.Now, w.filled.Now.Add(30*oneDay))))
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
	}},
	{"ListAccounts", func(w *methodCaller) {
		w.must(first(w.ListAccounts(w.Context(), report.AccountQuery{Search: "a", Status: "active", After: 1, Limit: 10})))
	}},
	{"SystemTotals", func(w *methodCaller) { w.must(first(w.SystemTotals(w.Context()))) }},
	{"ReviewQueue", func(w *methodCaller) {
		op := w.settle(w.reserve(w.draft(operation.Renew)), operation.NeedsReview, nil)
		w.must(first(w.ReviewQueue(w.Context(), 10)))
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
	q := report.SubscriberQuery{OperatorID: w.filled.OperatorID, Now: w.filled.Now, Until: w.filled.Now.Add(15 * oneDay), Limit: 5}
	for _, q.Status = range []report.StatusFilter{report.AnyStatus, report.Active, report.Expiring, report.Expired, report.InReview} {
		for _, q.Order = range []report.Order{report.ByExpiry, report.ByName} {
			for _, q.Terms = range [][]string{nil, {"98"}, {w.filled.Subscribers[0], "a"}} {
				w.must(first(w.ListSubscribers(w.Context(), q)))
				cut := q
				cut.Last = report.Cursor{Text: "zzz", ID: "1"}
				w.must(first(w.ListSubscribers(w.Context(), cut)))
			}
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
		{State: operation.NeedsReview, From: w.filled.Now.Add(-oneDay), Before: w.filled.Now.Add(time.Hour)},
		{State: operation.Processing, After: report.Cursor{Number: w.filled.Now.UnixMilli(), ID: "CX"}},
		{Subscriber: w.filled.Subscribers[0]},
	} {
		q.OperatorID, q.Limit = w.filled.OperatorID, 20
		w.must(first(w.PageOperations(w.Context(), q)))
	}
}
