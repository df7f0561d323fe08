package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

var listTests = []test{
	{"pages add up to the whole list, for a deleted operator too", listPages},
	{"a list is limited by time", listBounds},
}

// busyFixture has seven activations, a minute apart and settled at once, with one of
// another operator among them.
func (h *harness) busyFixture() *fixture {
	s := h.fixture("10000")
	other := &fixture{harness: h, operator: h.operator("other"), plan: s.plan, sold: 100}
	other.topUp(other.operator, "199")
	other.subscriber("200001", "9700000001")
	for i := range 7 {
		d := s.activation(name("key", i), fmt.Sprintf("98000000%02d", i), fmt.Sprintf("1000%02d", i))
		d.CreatedAt = noon.Add(time.Duration(i) * time.Minute)
		st := settlement(s.reserve(d), operation.Success)
		st.At = d.CreatedAt.Add(time.Second)
		_, did, err := s.Settle(s.Context(), st)
		if err != nil || !did {
			h.Fatalf("settled %v, %v", did, err)
		}
	}
	return s
}

// paged reads a list in pages of two.
func paged[T any](h *harness, page func(limit int, last *T) ([]T, error), id func(T) string) (ids []string) {
	h.Helper()
	var last *T
	for {
		rows, err := page(2, last)
		h.must(err)
		for _, row := range rows {
			ids = append(ids, id(row))
		}
		if len(rows) < 2 || len(ids) > 100 {
			return ids
		}
		last = &rows[1]
	}
}

func ids[T any](rows []T, id func(T) string) (all []string) {
	for _, row := range rows {
		all = append(all, id(row))
	}
	return all
}

func (h *harness) same(what string, got, want []string) {
	h.Helper()
	if !slices.Equal(got, want) {
		h.Errorf("%s: %q; want %q", what, got, want)
	}
}

func (h *harness) ledgerLines(q admin.ListQuery) []string {
	h.Helper()
	return paged(h, func(limit int, last *admin.LedgerEntry) ([]admin.LedgerEntry, error) {
		if q.Limit = limit; last != nil {
			q.After.Number = last.Line
		}
		return h.LedgerPage(h.Context(), q)
	}, ledgerID)
}

func (h *harness) commissionLines(q admin.ListQuery) []string {
	h.Helper()
	return paged(h, func(limit int, last *admin.CommissionEntry) ([]admin.CommissionEntry, error) {
		if q.Limit = limit; last != nil {
			q.After = last.Cursor()
		}
		return h.CommissionPage(h.Context(), q)
	}, commissionID)
}

func (h *harness) operationLines(f admin.OperationFilter) []string {
	h.Helper()
	return paged(h, func(limit int, last *operation.Operation) ([]operation.Operation, error) {
		if f.Limit = limit; last != nil {
			f.After = admin.Cursor{At: last.CreatedAt, ID: last.ID}
		}
		return h.ListOperations(h.Context(), f)
	}, operationID)
}

func (h *harness) subscriberLines(q admin.ListQuery) []string {
	h.Helper()
	q.Now = noon.Add(time.Hour)
	return paged(h, func(limit int, last *admin.SubscriberEntry) ([]admin.SubscriberEntry, error) {
		if q.Limit = limit; last != nil {
			q.After.ID = last.ID
		}
		return h.SubscriberPage(h.Context(), q)
	}, func(s admin.SubscriberEntry) string {
		return s.ID + " " + s.Mobile + " " + s.PlanID
	})
}

func ledgerID(e admin.LedgerEntry) string         { return fmt.Sprint(e.ID, e.Description) }
func commissionID(c admin.CommissionEntry) string { return c.Cursor().ID }
func operationID(o operation.Operation) string    { return o.ID }

func listPages(h *harness) {
	s := h.busyFixture()
	wallet, err := s.Wallet(s.Context(), s.operator.ID)
	s.must(err)
	_, _, err = s.Adjust(s.Context(), staffAction("wallet adjust"), admin.Adjustment{OperatorID: s.operator.ID, Amount: wallet.Balance.Neg()})
	s.must(err)
	s.must(s.DeleteOperator(s.Context(), staffAction("lco delete"), s.operator.ID))
	for _, operatorID := range []int64{0, s.operator.ID} {
		commissions, err := s.CommissionPage(s.Context(), admin.ListQuery{OperatorID: operatorID})
		s.must(err)
		s.same("commissions", h.commissionLines(admin.ListQuery{OperatorID: operatorID}), ids(commissions, commissionID))
		auditEntries, err := s.Store.AuditPage(s.Context(), admin.ListQuery{OperatorID: operatorID})
		s.must(err)
		actID := func(a admin.AuditEntry) string { return fmt.Sprint(a.ID) }
		s.same("audit entries", paged(h, func(limit int, last *admin.AuditEntry) ([]admin.AuditEntry, error) {
			q := admin.ListQuery{OperatorID: operatorID, Limit: limit}
			if last != nil {
				q.After.Number = last.ID
			}
			return s.AuditPage(s.Context(), q)
		}, actID), ids(auditEntries, actID))
		operations, err := s.ListOperations(s.Context(), admin.OperationFilter{OperatorID: operatorID, Limit: 100})
		s.must(err)
		want := ids(operations, operationID)
		s.same("operations", h.operationLines(admin.OperationFilter{OperatorID: operatorID}), want)
		slices.Reverse(want)
		s.same("operations, oldest first", h.operationLines(admin.OperationFilter{OperatorID: operatorID, OldestFirst: true}), want)
	}
	lines, err := s.LedgerPage(s.Context(), admin.ListQuery{OperatorID: s.operator.ID})
	s.must(err)
	s.same("the ledger", h.ledgerLines(admin.ListQuery{OperatorID: s.operator.ID}), ids(lines, ledgerID))
	want := []string{}
	for i := range 7 {
		want = append(want, fmt.Sprintf("1000%02d 98000000%02d BASIC-1", i, i))
	}
	s.same("subscribers", h.subscriberLines(admin.ListQuery{OperatorID: s.operator.ID}), want)
	s.same("all subscribers", h.subscriberLines(admin.ListQuery{}), append(want, "200001 9700000001 BASIC-1"))
	_, err = s.LedgerPage(s.Context(), admin.ListQuery{OperatorID: 4711, Limit: 1})
	s.refused("an unknown operator's", err)
	_, err = s.SubscriberPage(s.Context(), admin.ListQuery{OperatorID: 4711, Limit: 1})
	s.refused("an unknown operator's", err)
}

func listBounds(h *harness) {
	s := h.busyFixture()
	// The third and fourth began two to four minutes after noon.
	from, to := noon.Add(2*time.Minute), noon.Add(4*time.Minute)
	third, fourth := "CX"+name("key", 2), "CX"+name("key", 3)
	q := admin.ListQuery{OperatorID: s.operator.ID, From: from, To: to}
	s.same("operations", h.operationLines(admin.OperationFilter{OperatorID: s.operator.ID, From: from, To: to}), []string{fourth, third})
	s.same("commissions", h.commissionLines(q), []string{third, fourth})
	if got := h.ledgerLines(q); len(got) != 2 {
		s.Errorf("the ledger has %q; want two lines", got)
	}
	s.same("subscribers", h.subscriberLines(q), []string{"100002 9800000002 BASIC-1", "100003 9800000003 BASIC-1"})
	if auditEntries, err := s.AuditPage(s.Context(), admin.ListQuery{From: from, Limit: 10}); err != nil || len(auditEntries) != 0 {
		s.Errorf("%d audit entries since then, %v; want none", len(auditEntries), err)
	}
}
