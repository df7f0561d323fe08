package storetest

import (
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
)

// reportWays are the ways of those who read pages, through all that a page can be
// asked for with.
var reportWays = []way{
	{"Wallet", func(w *walk) { w.must(first(w.Wallet(w.Context(), w.on.OperatorID))) }},
	{"ListSubscribers", (*walk).subscriberLists},
	{"TermAtOffset", func(w *walk) {
		for _, terms := range [][]string{nil, {"98"}} {
			w.must(second(w.TermAtOffset(w.Context(), report.SubscriberQuery{OperatorID: w.on.OperatorID, Terms: terms}, 20)))
		}
	}},
	{"CountSubscribers", func(w *walk) { w.must(first(w.CountSubscribers(w.Context(), w.on.OperatorID, w.on.Now))) }},
	{"SubscriberTimeline", func(w *walk) {
		w.must(first(w.SubscriberTimeline(w.Context(), w.on.OperatorID, w.on.Subscribers[0])))
	}},
	{"DueByDay", func(w *walk) {
		w.must(first(w.DueByDay(w.Context(), w.on.OperatorID, w.on.Now, w.on.Now.Add(30*oneDay))))
	}},
	{"OperationTotals", func(w *walk) {
		for _, operatorID := range []int64{0, w.on.OperatorID} {
			w.must(first(w.OperationTotals(w.Context(), operatorID, w.on.Now.Add(-oneDay), w.on.Now.Add(oneDay))))
		}
	}},
	{"LedgerBounds", func(w *walk) {
		w.must(first(w.LedgerBounds(w.Context(), w.on.OperatorID, w.on.Now.Add(-oneDay), w.on.Now)))
	}},
	{"ListLedger", (*walk).ledgerLists},
	{"OpenOperations", func(w *walk) { w.must(first(w.OpenOperations(w.Context(), w.on.OperatorID, 10))) }},
	{"PageOperations", (*walk).operationPages},
	{"OperationAtOffset", func(w *walk) {
		for _, q := range []report.OperationQuery{{}, {From: w.on.Now.Add(-oneDay), Before: w.on.Now, After: report.Cursor{Number: w.on.Now.UnixMilli(), ID: "CX"}}} {
			q.OperatorID = w.on.OperatorID
			w.must(second(w.OperationAtOffset(w.Context(), q, 20)))
		}
	}},
	{"ListAccounts", func(w *walk) {
		w.must(first(w.ListAccounts(w.Context(), report.AccountQuery{Search: "a", Status: "active", After: 1, Limit: 10})))
	}},
	{"SystemTotals", func(w *walk) { w.must(first(w.SystemTotals(w.Context()))) }},
	{"ReviewQueue", func(w *walk) {
		op := w.settle(w.reserve(w.draft(operation.Renew)), operation.NeedsReview, nil)
		w.must(first(w.ReviewQueue(w.Context(), 10)))
		w.settle(op, operation.Failed, nil)
	}},
	{"CountPlanSubscribers", func(w *walk) { w.must(first(w.CountPlanSubscribers(w.Context(), w.plan.ID, w.on.Now))) }},
	{"CommissionSums", func(w *walk) {
		w.must(first(w.CommissionSums(w.Context(), w.on.OperatorID, w.on.Now.Add(-oneDay), w.on.Now.Add(oneDay))))
	}},
	{"ListCommissions", func(w *walk) {
		w.must(first(w.ListCommissions(w.Context(), report.CommissionQuery{
			OperatorID: w.on.OperatorID, From: w.on.Now.Add(-oneDay), Before: w.on.Now.Add(oneDay), Limit: 10,
		})))
	}},
}

func (w *walk) subscriberLists() {
	q := report.SubscriberQuery{OperatorID: w.on.OperatorID, Now: w.on.Now, Until: w.on.Now.Add(15 * oneDay), Limit: 5}
	for _, q.Status = range []report.StatusFilter{report.AnyStatus, report.Active, report.Expiring, report.Expired, report.InReview} {
		for _, q.Order = range []report.Order{report.ByExpiry, report.ByName} {
			for _, q.Terms = range [][]string{nil, {"98"}, {w.on.Subscribers[0], "a"}} {
				w.must(first(w.ListSubscribers(w.Context(), q)))
				cut := q
				cut.Last = report.Cursor{Text: "zzz", ID: "1"}
				w.must(first(w.ListSubscribers(w.Context(), cut)))
			}
		}
	}
}

func (w *walk) ledgerLists() {
	q := report.LedgerQuery{OperatorID: w.on.OperatorID, Last: 1 << 30, Limit: 20}
	w.must(first(w.ListLedger(w.Context(), q)))
	q.NewestFirst = true
	w.must(first(w.ListLedger(w.Context(), q)))
	q.Side, q.Text = report.Debit, "renewal"
	w.must(first(w.ListLedger(w.Context(), q)))
	q.TransactionID = "nobody's"
	w.must(first(w.ListLedger(w.Context(), q)))
}

func (w *walk) operationPages() {
	for _, q := range []report.OperationQuery{
		{},
		{After: report.Cursor{Number: w.on.Now.UnixMilli(), ID: "CX"}},
		{From: w.on.Now.Add(-oneDay), Before: w.on.Now.Add(time.Hour)},
		{State: operation.Success, Kind: operation.Renew, Channel: operation.API, PlanID: w.plan.ID},
		{Last: report.Cursor{Number: w.on.Now.UnixMilli(), ID: "CX"}, Kind: operation.AdvanceRenew},
		{State: operation.NeedsReview, From: w.on.Now.Add(-oneDay), Before: w.on.Now.Add(time.Hour)},
		{State: operation.Processing, After: report.Cursor{Number: w.on.Now.UnixMilli(), ID: "CX"}},
		{Subscriber: w.on.Subscribers[0]},
	} {
		q.OperatorID, q.Limit = w.on.OperatorID, 20
		w.must(first(w.PageOperations(w.Context(), q)))
	}
}
