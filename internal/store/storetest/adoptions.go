package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

var adoptionTests = []test{
	{"an adopted operation writes all rows of a success", adoptionIsWhole},
	{"an adopted activation adds its subscriber", activationAdopted},
	{"a reference is adopted once under concurrency", adoptedOnce},
	{"an adoption outside maintenance is refused", adoptionNeedsMaintenance},
	{"an adoption that the wallet does not cover leaves no trace", adoptionNeedsMoney},
	{"an adoption on a changed or busy subscriber is stale", adoptionGuards},
	{"an adopted operation is found under its client key, and claimed once", adoptedIsClaimed},
	{"a reservation under an adopted key is stale", adoptedKeyGuards},
	{"a combo is adopted with its add-on, or with the add-on to be followed up", comboAdopted},
	{"an adoption needs a role and a step-up", adoptionRights},
}

// order returns an entry of the provider's list.
func (s *fixture) order(reference string, kind operation.Kind, subscriberID, mobile string) operation.ListedOrder {
	return operation.ListedOrder{
		Reference: reference, ClientKey: strings.Repeat("a", 60) + fmt.Sprintf("%04x", len(reference)), Kind: kind, SubscriberID: subscriberID, Mobile: mobile,
		Component: s.plan.Main, Months: 1, ExpiresAt: noon.Add(60 * 24 * time.Hour), CarriedOutAt: noon.Add(-time.Hour), Transaction: "P-" + reference,
	}
}

// adoption returns the adoption of an order, computed from the present subscriber.
func (s *fixture) adoption(order operation.ListedOrder) operation.Adoption {
	s.Helper()
	a := operation.Adoption{Main: order, Source: "a test", OperatorID: s.operator.ID, Provider: "test", Plan: s.plan, Term: subscription.ThirtyDays}
	if order.Kind != operation.Activate {
		found, err := s.SubscribersNamed(s.Context(), order.SubscriberID, order.Mobile)
		s.must(err)
		if len(found) != 1 {
			s.Fatalf("%d subscribers have the id %s or the number %s", len(found), order.SubscriberID, order.Mobile)
		}
		a.Subscriber = &found[0]
	}
	return a
}

func (s *fixture) adopt(a operation.Adoption) (operation.Operation, bool, error) {
	s.Helper()
	action := staffAction(string(admin.OperationAdopt))
	action.At = noon.Add(time.Hour)
	made, err := operation.Adopt(a, action.Actor, action.Reason, action.At)
	s.must(err)
	return s.AdoptOperation(s.Context(), action, made)
}

func (s *fixture) mustAdopt(a operation.Adoption) operation.Operation {
	s.Helper()
	op, adopted, err := s.adopt(a)
	s.must(err)
	if !adopted {
		s.Fatalf("%s was not adopted", a.Main.Reference)
	}
	return op
}

func adoptionIsWhole(h *harness) {
	s := h.fixture("1000")
	s.subscriber("100001", "9800000001")
	h.maintenanceOn()
	order := s.order("CXFORGOTTEN", operation.Renew, "100001", "9800000001")
	op := s.mustAdopt(s.adoption(order))
	s.money("adopted", "602", "0")
	read, found, err := s.OperationByID(s.Context(), s.operator.ID, op.ID)
	s.must(err)
	if !found || read.State != operation.Success || !read.Adopted() || !read.KeyUnknown() || read.KnownKey() != "" || read.Actor != "test:asha" ||
		!read.ExpiryPlanned.Equal(order.ExpiresAt) || !read.CarriedOutAt.Equal(order.CarriedOutAt) || read.ProviderTransaction != order.Transaction ||
		read.Amount != s.plan.Price || read.WalletBefore != rupees("801") || read.CommissionBPS != 250 || read.CustomerName != "Asha" {
		s.Errorf("adopted as %+v", read)
	}
	customer, _, err := s.SubscriptionOf(s.Context(), s.operator.ID, "100001", "")
	s.must(err)
	if !customer.Expires.Equal(order.ExpiresAt) || len(customer.Cycles) != 2 || customer.LastProviderTransaction != order.Transaction || customer.OpenOperation != "" {
		s.Errorf("the subscriber is %+v", customer)
	}
	history, err := s.OperationHistory(s.Context(), op.ID)
	s.must(err)
	if len(history.Events) != 2 || history.Events[0].To != operation.Processing || history.Events[1].To != operation.Success || history.Events[1].Actor != "test:asha" ||
		len(history.Calls) != 1 || history.Calls[0].What != "list" || !strings.Contains(history.Calls[0].Detail, order.ClientKey) {
		s.Errorf("its history is %+v", history)
	}
	ledger, err := s.LedgerPage(s.Context(), admin.ListQuery{OperatorID: s.operator.ID})
	s.must(err)
	if last := ledger[len(ledger)-1]; last.TransactionID != op.ID || last.Credit || last.Amount != s.plan.Price {
		s.Errorf("the last ledger line is %+v", last)
	}
	entries, err := s.AuditPage(s.Context(), admin.ListQuery{})
	s.must(err)
	if last := entries[len(entries)-1]; last.Action != string(admin.OperationAdopt) || last.Subject != "operation "+op.ID || last.OperatorID != s.operator.ID {
		s.Errorf("the last staff action is %+v", last)
	}
	if all, err := s.OperationsByID(s.Context(), []string{"CXNOBODY", op.ID}); err != nil || len(all) != 1 || all[0].ID != op.ID {
		s.Errorf("found by id: %+v, %v", all, err)
	}
}

func activationAdopted(h *harness) {
	s := h.fixture("1000")
	h.maintenanceOn()
	op := s.mustAdopt(s.adoption(s.order("CXFORGOTTEN", operation.Activate, "100001", "9800000001")))
	customer, found, err := s.SubscriptionOf(s.Context(), s.operator.ID, "100001", "")
	s.must(err)
	if !found || customer.Mobile != "9800000001" || customer.Name != operation.ForgottenName || customer.CreatedAt.IsZero() || len(customer.Cycles) != 1 {
		s.Errorf("the subscriber is %+v", customer)
	}
	if op.CycleStartsAt != noon.Add(-time.Hour) || !op.ExpiryPrevious.IsZero() {
		s.Errorf("adopted as %+v", op)
	}
	if names, err := s.SubscriberNames(s.Context(), []string{"100001", "NOBODY"}); err != nil || len(names) != 1 || names["100001"] != operation.ForgottenName {
		s.Errorf("names of subscribers: %v, %v", names, err)
	}
	// Another order for the number is not adopted.
	if _, _, err := s.adopt(s.adoption(s.order("CXFORGOTTEN2", operation.Activate, "100002", "9800000001"))); !errors.Is(err, operation.ErrStale) {
		s.Errorf("a second activation of the number: %v; want %v", err, operation.ErrStale)
	}
	s.money("adopted once", "801", "0")
}

func adoptedOnce(h *harness) {
	s := h.fixture("1000")
	s.subscriber("100001", "9800000001")
	h.maintenanceOn()
	renewal := s.adoption(s.order("CXFORGOTTEN", operation.Renew, "100001", "9800000001"))
	activation := s.adoption(s.order("CXFORGOTTEN2", operation.Activate, "100002", "9800000002"))
	var adopted, known, stale atomic.Int32
	concurrently(16, func(i int) {
		a := []operation.Adoption{renewal, activation}[i%2]
		op, did, err := s.adopt(a)
		switch {
		case err == nil && did:
			adopted.Add(1)
		case err == nil && op.ID == a.Main.Reference:
			known.Add(1)
		case errors.Is(err, operation.ErrStale):
			stale.Add(1)
		default:
			s.Errorf("adopt: %+v, %v, %v", op, did, err)
		}
	})
	if adopted.Load() != 2 || known.Load()+stale.Load() != 14 {
		s.Errorf("%d were adopted, %d were known, %d stale; want 2 adopted of 16", adopted.Load(), known.Load(), stale.Load())
	}
	s.money("adopted", "403", "0")
	for _, a := range []operation.Adoption{renewal, activation} {
		if op, did, err := s.adopt(a); err != nil || did || op.ID != a.Main.Reference {
			s.Errorf("adopted again: %s, %v, %v", op.ID, did, err)
		}
	}
}

func adoptionNeedsMaintenance(h *harness) {
	s := h.fixture("1000")
	s.subscriber("100001", "9800000001")
	_, _, err := s.adopt(s.adoption(s.order("CXFORGOTTEN", operation.Renew, "100001", "9800000001")))
	h.refused("outside maintenance", err)
	s.money("refused", "801", "0")
}

func adoptionNeedsMoney(h *harness) {
	s := h.fixture("199")
	s.subscriber("100001", "9800000001")
	h.maintenanceOn()
	for _, order := range []operation.ListedOrder{
		s.order("CXFORGOTTEN", operation.Renew, "100001", "9800000001"), s.order("CXFORGOTTEN2", operation.Activate, "100002", "9800000002"),
	} {
		_, _, err := s.adopt(s.adoption(order))
		h.refused(order.Reference, err)
		if err == nil || !strings.Contains(err.Error(), "top-ups since the backup") {
			s.Errorf("the refusal is %v", err)
		}
	}
	s.money("refused", "0", "0")
	if found, err := s.SubscribersNamed(s.Context(), "100002", "9800000002"); err != nil || len(found) != 0 {
		s.Errorf("a subscriber is there: %+v, %v", found, err)
	}
	s.topUp(s.operator, "199")
	s.mustAdopt(s.adoption(s.order("CXFORGOTTEN", operation.Renew, "100001", "9800000001")))
	s.money("adopted", "0", "0")
}

func adoptionGuards(h *harness) {
	s := h.fixture("2000")
	s.subscriber("100001", "9800000001")
	s.subscriber("100002", "9800000002")
	busy := s.reserve(s.renewal("busy", "100002"))
	h.maintenanceOn()
	first := s.adoption(s.order("CXFORGOTTEN", operation.Renew, "100001", "9800000001"))
	second := s.adoption(s.order("CXFORGOTTEN22", operation.Renew, "100001", "9800000001"))
	s.mustAdopt(first)
	if _, _, err := s.adopt(second); !errors.Is(err, operation.ErrStale) {
		s.Errorf("on an older version: %v; want %v", err, operation.ErrStale)
	}
	if _, _, err := s.adopt(s.adoption(s.order("CXFORGOTTEN333", operation.Renew, "100002", "9800000002"))); !errors.Is(err, operation.ErrStale) {
		s.Errorf("while an operation is open: %v; want %v", err, operation.ErrStale)
	}
	s.settle(busy, operation.Success)
	s.mustAdopt(s.adoption(s.order("CXFORGOTTEN333", operation.Renew, "100002", "9800000002")))
	// The same client key, carried out twice: one operation per key.
	again := s.order("CXFORGOTTEN444", operation.Renew, "100002", "9800000002")
	again.ClientKey = s.order("CXFORGOTTEN333", operation.Renew, "", "").ClientKey
	if _, _, err := s.adopt(s.adoption(again)); !errors.Is(err, operation.ErrStale) {
		s.Errorf("a second order with the client key: %v; want %v", err, operation.ErrStale)
	}
}

func adoptedIsClaimed(h *harness) {
	s := h.fixture("1000")
	h.maintenanceOn()
	order := s.order("CXFORGOTTEN", operation.Activate, "100001", "9800000001")
	op := s.mustAdopt(s.adoption(order))
	key := operation.AdoptedKey(order.ClientKey, order.Reference)
	for _, keys := range [][]string{{key}, {"adopted/other", key}, {key, "adopted/2", "adopted/3", "adopted/4", "adopted/5"}} {
		if found, is, err := s.AdoptedByKey(s.Context(), s.operator.ID, keys); err != nil || !is || found.ID != op.ID {
			s.Errorf("under %v: %s, %v, %v", keys, found.ID, is, err)
		}
		for _, kind := range []operation.Kind{operation.Activate, operation.Renew} {
			query := operation.SnapshotQuery{OperatorID: s.operator.ID, IdempotencyKey: "key-1", AdoptedKeys: keys, Kind: kind, Mobile: "9800000001", PlanID: s.plan.ID, Provider: "test"}
			if snapshot := s.snapshot(query); snapshot.KnownID != op.ID {
				s.Errorf("%s: the snapshot is %+v; want %s", kind, snapshot, op.ID)
			}
		}
	}
	stranger := h.operator("stranger").ID
	if _, is, err := s.AdoptedByKey(s.Context(), stranger, []string{key}); err != nil || is {
		s.Errorf("another operator finds it: %v, %v", is, err)
	}
	var claimed atomic.Int32
	concurrently(8, func(i int) {
		claim := operation.KeyClaim{
			OperationID: op.ID, Adopted: key, IdempotencyKey: "key-1", Fingerprint: operation.Fingerprint{KeyID: 7, Sum: fmt.Appendf(nil, "sum %d", i)},
			Name: name("Asha", i), Profile: operation.Profile{Email: "a@example.com", Address: "12 Street", ConnectionType: "OTT"},
		}
		now, err := s.ClaimAdopted(s.Context(), claim)
		if err != nil || now.ID != op.ID || now.KeyUnknown() {
			s.Errorf("claim: %+v, %v", now, err)
		}
		if string(now.Fingerprint.Sum) == string(claim.Fingerprint.Sum) {
			claimed.Add(1)
		}
	})
	if claimed.Load() != 1 {
		s.Errorf("claimed %d times; want once", claimed.Load())
	}
	now, found, err := s.OperationByKey(s.Context(), s.operator.ID, "key-1")
	s.must(err)
	customer, _, err := s.SubscriptionOf(s.Context(), s.operator.ID, "100001", "")
	s.must(err)
	if !found || !strings.HasPrefix(now.CustomerName, "Asha") || customer.Name != now.CustomerName || customer.Email != "a@example.com" || !now.Adopted() {
		s.Errorf("claimed as %+v, the subscriber is %+v", now, customer)
	}
}

func adoptedKeyGuards(h *harness) {
	s := h.fixture("1000")
	s.subscriber("100001", "9800000001")
	draft := s.activation("key-2", "9800000002", "100002")
	h.maintenanceOn()
	order := s.order("CXFORGOTTEN", operation.Renew, "100001", "9800000001")
	s.mustAdopt(s.adoption(order))
	h.maintenanceOff()
	draft.AdoptedKeys = []string{"adopted/other", operation.AdoptedKey(order.ClientKey, order.Reference)}
	if _, err := s.Reserve(s.Context(), draft); !errors.Is(err, operation.ErrStale) {
		s.Errorf("reserved under an adopted key: %v; want %v", err, operation.ErrStale)
	}
	draft.AdoptedKeys = draft.AdoptedKeys[:1]
	s.reserve(draft)
}

func comboAdopted(h *harness) {
	s := h.fixture("1000")
	combo := plan("COMBO-1", "299", "TV-BASIC")
	combo.Type, combo.Addon = subscription.Combo, "OTT-PLUS"
	saved, err := s.SetPlan(s.Context(), staffAction("plan set"), combo)
	s.must(err)
	s.plan = saved
	h.maintenanceOn()
	whole := s.adoption(s.order("CXFORGOTTEN", operation.Activate, "100001", "9800000001"))
	addon := whole.Main
	addon.Reference, addon.Component, addon.Transaction = "CXFORGOTTEN-2.1", "OTT-PLUS", "P-2"
	whole.Addon, whole.AddonAttempt = &addon, 1
	op := s.mustAdopt(whole)
	history, err := s.OperationHistory(s.Context(), op.ID)
	s.must(err)
	if history.AddonState != operation.AddonSuccess || history.AddonAttempt != 1 || len(history.Calls) != 2 || history.Calls[1].Reference != addon.Reference {
		s.Errorf("adopted with its add-on: %+v", history)
	}
	op = s.mustAdopt(s.adoption(s.order("CXFORGOTTEN2", operation.Activate, "100002", "9800000002")))
	missing, err := s.MissingAddons(s.Context())
	s.must(err)
	if len(missing) != 1 || missing[0].ID != op.ID || missing[0].AddonState != operation.AddonWaiting || missing[0].AddonNextAt.IsZero() {
		s.Errorf("without its add-on: %+v", missing)
	}
}

func adoptionRights(h *harness) {
	s := h.fixture("1000")
	h.maintenanceOn()
	a := s.adoption(s.order("CXFORGOTTEN", operation.Activate, "100001", "9800000001"))
	now := func() time.Time { return noon }
	staff := admin.NewService(h.Store, nil, "web:asha", now)
	_, _, err := staff.WithRole(admin.Finance, admin.Limits{}).Adopt(s.Context(), a, "compared")
	h.refused("finance", err)
	if _, _, err := staff.WithRole(admin.Administrator, admin.Limits{}).WithoutStepUp().Adopt(s.Context(), a, "compared"); !errors.Is(err, admin.ErrStepUp) {
		s.Errorf("without a step-up: %v; want %v", err, admin.ErrStepUp)
	}
	_, _, err = staff.Adopt(s.Context(), a, " ")
	h.refused("without a reason", err)
	s.money("refused", "1000", "0")
	if _, adopted, err := staff.WithRole(admin.Administrator, admin.Limits{}).Adopt(s.Context(), a, "compared"); err != nil || !adopted {
		s.Errorf("an administrator: %v, %v", adopted, err)
	}
}
