package storetest

import (
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
)

var personalTests = []test{
	{"a subscriber is forgotten wherever it was named", subscriberForgotten},
	{"a subscriber is not forgotten while its data is needed", forgettingRefused},
	{"an interrupted forgetting is completed", forgettingCompleted},
}

// forget forgets a subscriber at a time, keeping nothing.
func (s *fixture) forget(id string, at time.Time, keep time.Duration) (admin.Forgotten, error) {
	action := staffAction("subscriber forget")
	action.At = at
	return s.ForgetSubscriber(s.Context(), action, id, keep)
}

func subscriberForgotten(h *harness) {
	s := h.fixture("5000")
	// The same person was refused under another id before.
	failed := s.activation("first-try", "9800000001", "000009")
	s.settle(s.reserve(failed), operation.Failed)
	s.subscriber("000001", "9800000001")
	other := s.subscriber("000002", "9800000002")
	renewed := s.reserve(s.renewal("renewed", "000001"))
	st := settlement(renewed, operation.Success)
	st.Calls[0].Reply = operation.Reply{Outcome: operation.Confirmed, Message: "Asha (9800000001) of 12 Street was renewed"}
	_, _, err := s.Settle(h.Context(), st)
	h.must(err)
	h.bulkDraft(s.operator, "list", 2)

	end := noon.Add(100 * day)
	got, err := s.forget("000001", end, 0)
	if err != nil || got.Operations != 3 || got.BulkRows != 1 || got.Texts != 1 || got.Already || got.OperatorID != s.operator.ID {
		h.Fatalf("%+v, %v", got, err)
	}
	data, err := s.ExportSubscriber(h.Context(), "000001")
	h.must(err)
	if p := data.Subscription; p.Name != subscription.ForgottenName || !subscription.IsForgotten(p.Mobile) || p.Email != "" || p.Address != "" {
		h.Errorf("the subscriber is %+v", p)
	}
	if len(data.Operations) != 2 || len(data.Ledger) != 2 || len(data.BulkRows) != 1 || len(data.Actions) != 1 {
		h.Errorf("%d operations, %d ledger lines, %d bulk rows, %d staff actions; want 2, 2, 1, 1", len(data.Operations), len(data.Ledger), len(data.BulkRows), len(data.Actions))
	}
	for _, key := range []string{"first-try", "act-000001", "renewed"} {
		op, found, err := s.OperationByKey(h.Context(), s.operator.ID, key)
		if err != nil || !found || op.CustomerName != subscription.ForgottenName || op.Mobile != subscription.ForgottenMobile || op.Amount != rupees("199") {
			h.Errorf("%s: %+v, %v, %v", key, op, found, err)
		}
		history, err := s.OperationHistory(h.Context(), op.ID)
		h.must(err)
		for _, call := range history.Calls {
			if strings.Contains(call.Detail, "Asha") || strings.Contains(call.Detail, "9800000001") || strings.Contains(call.Detail, "12 Street") {
				h.Errorf("%s: the provider's reply is still %q", key, call.Detail)
			}
		}
	}
	for _, search := range []string{"asha", "9800000001", "98000"} {
		found, err := s.ListSubscribers(h.Context(), report.SubscriberQuery{
			OperatorID: s.operator.ID, Source: report.FromTerms, Value: search, Terms: []string{search}, Now: end, Limit: 10,
		})
		h.must(err)
		for _, one := range found {
			if one.ID == "000001" {
				h.Errorf("a search for %s still finds it", search)
			}
		}
	}
	if kept, _, err := s.OperationByID(h.Context(), s.operator.ID, other.ID); err != nil || kept.Mobile != "9800000002" {
		h.Errorf("another subscriber's operation is %+v, %v", kept, err)
	}
	// The number is free again, for a new subscriber.
	again := s.reserve(s.activation("again", "9800000001", "000003"))
	s.settle(again, operation.Success)
}

func forgettingRefused(h *harness) {
	s := h.fixture("5000")
	first := s.subscriber("000001", "9800000001")
	runs := first.ExpiryPlanned
	_, err := s.forget("000001", runs.Add(-time.Second), 0)
	h.refused("while the subscription runs", err)
	_, err = s.forget("000007", runs, 0)
	h.refused("a subscriber that is not there", err)
	_, err = s.forget("000001", runs.Add(10*day-time.Second), 10*day)
	h.refused("before the end of retention.personal_data", err)
	open := s.reserve(s.renewal("open", "000001"))
	_, err = s.forget("000001", runs.Add(100*day), 0)
	h.refused("with an open operation", err)
	open = s.settle(open, operation.Failed)
	h.must(s.CloseLateCheck(h.Context(), operation.LateCheck{OperationID: open.ID, Node: "node-1", Exception: &operation.Exception{
		OperationID: open.ID, Kind: operation.LateSuccess, Detail: "carried out after all", At: noon,
	}}))
	_, err = s.forget("000001", runs.Add(100*day), 0)
	h.refused("with an open exception", err)
	exceptions, err := s.Exceptions(h.Context(), false)
	h.must(err)
	h.must(s.CloseException(h.Context(), staffAction("exception close"), exceptions[0].ID))
	s.reserve(s.activation("pending", "9800000005", "000005"))
	_, err = s.forget("000005", runs.Add(100*day), 0)
	h.refused("while it is being activated", err)
	before := len(s.auditEntries())
	if _, err := s.forget("000001", runs.Add(100*day), 0); err != nil {
		h.Errorf("when nothing stands in the way: %v", err)
	}
	if got := len(s.auditEntries()); got != before+1 {
		h.Errorf("%d staff actions were written; want 1", got-before)
	}
}

func forgettingCompleted(h *harness) {
	s := h.fixture("5000")
	s.subscriber("000001", "9800000001")
	end := noon.Add(100 * day)
	_, err := s.forget("000001", end, 0)
	h.must(err)
	before := len(s.auditEntries())
	h.bulkDraft(s.operator, "late", 1) // as if it had been left
	got, err := s.forget("000001", end, 0)
	if err != nil || !got.Already || got.BulkRows != 1 || got.Operations != 0 {
		h.Errorf("%+v, %v; want what was left", got, err)
	}
	if row := h.bulkRow(s.operator, "late", 1); row.CustomerName != subscription.ForgottenName || row.Mobile != subscription.ForgottenMobile {
		h.Errorf("the row has %q and %q", row.CustomerName, row.Mobile)
	}
	if got := len(s.auditEntries()); got != before {
		h.Errorf("%d staff actions were written for what had been done", got-before)
	}
}
