package storetest

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
)

var reversalTests = []test{
	{"a reversed renewal gives everything back in one step", renewalReversed},
	{"a reversed advance renewal removes the booked cycle", bookingReversed},
	{"a reversed activation removes the subscriber", activationReversed},
	{"only the latest success of an idle subscriber can be reversed", reversalRefusals},
	{"while a reversal is open nothing else begins for the subscriber", reversalHoldsSubscriber},
	{"a refused reversal changes nothing and can be asked for again", reversalRefused},
	{"of many concurrent requests and answers one takes effect", reversedOnce},
	{"a reversal and a renewal never run at once", reversalAgainstRenewal},
	{"an unanswered reversal is due again under its reference", reversalPostponed},
	{"a reversal needs a role, a step-up and, above the limit, two people", reversalRights},
	{"a reversed renewal is no duplicate of the right one", reversedIsNoDuplicate},
	{"commission and totals count a reversal when it was carried out", reversalReports},
	{"a reversal counts in its own month, and leaves a closed one as it was", reversalMonths},
	{"a person settles a reversal that stays unknown as undone", settledAsUndone},
	{"a person settles a reversal that stays unknown as not undone", settledAsNotUndone},
	{"a reversal that was settled as not undone is asked for again under its reference", reversalReopened},
	{"each contradiction of an operation's reversals is an exception", contradictedAgain},
	{"an answer to a reversal is saved once", answerSavedOnce},
	{"a reversal that was never sent cannot be settled as undone", neverAsked},
	{"of a person and an answer of the provider the first settles a reversal", settledOrAnswered},
	{"settling a reversal needs a role, a step-up and, above the limit, two people", settlementRights},
}

// asked has a finance user request the reversal of an operation, a minute after noon.
func (s *fixture) asked(op operation.Operation) operation.Reversal {
	s.Helper()
	outcome, err := s.consoleUserAt("asha", admin.Finance, noon.Add(time.Minute)).SubmitReversal(s.Context(), op.ID, "wrong customer")
	s.must(err)
	if outcome.Waits() || !outcome.Reversal.State.Open() {
		s.Fatalf("requested %+v", outcome)
	}
	return outcome.Reversal
}

func reversalAnswer(r operation.Reversal, state operation.ReversalState) operation.ReversalAnswer {
	at := noon.Add(2 * time.Minute)
	a := operation.ReversalAnswer{
		Reference: r.Reference, OperationID: r.OperationID, State: state, At: at, Node: "node-1",
		Calls: []operation.ProviderCall{{Reference: r.Reference, What: "reverse", AskedAt: at, AnsweredAt: at}},
	}
	switch state {
	case operation.Reversed:
		a.ProviderTransaction = "P-" + r.Reference
	case operation.ReversalRefused:
		a.Message = "The customer has watched it."
	default:
		a.NextAt = at.Add(time.Hour)
	}
	return a
}

// reversed claims a reversal and answers it.
func (s *fixture) reversed(r operation.Reversal, state operation.ReversalState) operation.Reversal {
	s.Helper()
	claimed, err := s.ClaimReversals(s.Context(), claim(noon.Add(time.Minute)))
	s.must(err)
	if len(claimed) != 1 || claimed[0].ID != r.OperationID {
		s.Fatalf("claimed %+v; want the operation %s", claimed, r.OperationID)
	}
	s.must(s.SettleReversal(s.Context(), reversalAnswer(r, state)))
	history, err := s.OperationHistory(s.Context(), r.OperationID)
	s.must(err)
	last := history.Reversals[len(history.Reversals)-1]
	if last.Reference != r.Reference || last.State != state {
		s.Fatalf("the reversals are %+v; want the last one %s", history.Reversals, state)
	}
	return last
}

// subscription reads a subscriber as the API shows it.
func (s *fixture) subscription(id string) operation.Subscription {
	s.Helper()
	subscription, found, err := s.SubscriptionOf(s.Context(), s.operator.ID, id, "")
	s.must(err)
	if !found {
		s.Fatalf("subscriber %s is not there", id)
	}
	subscription.Version = 0
	return subscription
}

func renewalReversed(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	before, lines := s.subscription("100001"), s.ledger()
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	s.money("renewed", "9602", "0")
	r := s.asked(op)
	s.reopen()
	s.money("asked for", "9602", "0")
	r = s.reversed(r, operation.Reversed)
	if r.Amount != rupees("199") || r.Commission != rupees("4.98") || r.ProviderTransaction != "P-"+r.Reference || !r.CompletedAt.Equal(noon.Add(2*time.Minute)) {
		s.Errorf("the reversal is %+v", r)
	}
	s.reopen()
	for operatorID, want := range map[int64]int{s.operator.ID: 1, s.operator.ID + 1: 0, 0: 1} {
		if found, err := s.OperationsReversedBy(s.Context(), operatorID, r.Reference); err != nil || len(found) != want || want == 1 && found[0].ID != op.ID {
			s.Errorf("operator %d: reversed by it are %+v, %v; want %d", operatorID, found, err, want)
		}
	}
	s.money("reversed", "9801", "0")
	after := s.subscription("100001")
	if !after.Expires.Equal(before.Expires) || !after.RenewedAt.Equal(before.RenewedAt) || after.LastProviderTransaction != before.LastProviderTransaction ||
		!slices.Equal(after.Cycles, before.Cycles) || after.OpenOperation != "" {
		s.Errorf("the subscriber is %+v; want as before, %+v", after, before)
	}
	read, _, err := s.OperationByID(s.Context(), s.operator.ID, op.ID)
	s.must(err)
	if read.State != operation.Success || !read.Reversed() || read.Code() != op.Code() || read.WalletAfter() != op.WalletAfter() || read.Charged() != op.Charged() || !read.NetCharged().IsZero() {
		s.Errorf("the operation is %+v; want a success as before, reversed", read)
	}
	all := s.ledger()
	if len(all) != len(lines)+2 {
		s.Fatalf("the ledger has %d lines; want %d", len(all), len(lines)+2)
	}
	line := all[len(all)-1]
	if !line.Credit || line.Amount != rupees("199") || line.BalanceAfter != rupees("9801") || line.TransactionID != op.ID || line.Description != "Reversal: Renewal of 100001, Plan BASIC-1" {
		s.Errorf("the last ledger line is %+v", line)
	}
	entries := s.auditEntries()
	last := entries[len(entries)-1]
	if last.Action != admin.OperationReversed || last.Actor != "web:asha" || last.Reason != "wrong customer" || last.Subject != "operation "+op.ID {
		s.Errorf("the last audit entry is %+v", last)
	}
}

func (s *fixture) ledger() []admin.LedgerEntry {
	s.Helper()
	lines, err := s.LedgerPage(s.Context(), admin.ListQuery{OperatorID: s.operator.ID})
	s.must(err)
	return lines
}

func bookingReversed(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	first := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	before := s.subscription("100001")
	d := s.renewal("key-2", "100001")
	d.Kind, d.CycleStartsAt = operation.AdvanceRenew, noon.Add(20*24*time.Hour)
	op := s.settle(s.reserve(d), operation.Success)
	s.reversed(s.asked(op), operation.Reversed)
	after := s.subscription("100001")
	if !slices.Equal(after.Cycles, before.Cycles) || !after.Expires.Equal(first.ExpiryPlanned) || !after.RenewedAt.Equal(first.CompletedAt) || after.LastProviderTransaction != "P-"+first.ID {
		s.Errorf("the subscriber is %+v; want as before the booking, %+v", after, before)
	}
	// Now the one before is the latest, and can be reversed as well.
	_, err := s.consoleUserAt("asha", admin.Finance, noon.Add(time.Minute)).SubmitReversal(s.Context(), first.ID, "that one too")
	s.must(err)
}

func activationReversed(h *harness) {
	s := h.fixture("10000")
	op := s.subscriber("100001", "9800000001")
	_, err := s.contactEdit("100001", 0, operation.Contact{Name: "Asha", Area: "Sector 4"})
	s.must(err)
	s.reversed(s.asked(op), operation.Reversed)
	s.money("reversed", "10000", "0")
	if _, found, err := s.SubscriptionOf(s.Context(), s.operator.ID, "100001", ""); err != nil || found {
		s.Errorf("the subscriber is there: %v, %v", found, err)
	}
	// Number and id are free again.
	s.settle(s.reserve(s.activation("key-2", "9800000001", "100001")), operation.Success)
	s.money("activated again", "9801", "0")
}

func reversalRefusals(h *harness) {
	s := h.fixture("10000")
	activation := s.subscriber("100001", "9800000001")
	asha := s.consoleUserAt("asha", admin.Finance, noon.Add(time.Minute))
	refused := func(what string, service *admin.Service, id string) {
		s.Helper()
		_, err := service.SubmitReversal(s.Context(), id, "because")
		s.refused(what, err)
	}
	refused("an unknown transaction", asha, "CX-nobody's")
	_, err := asha.SubmitReversal(s.Context(), activation.ID, " ")
	s.refused("no reason", err)
	open := s.reserve(s.renewal("key-1", "100001"))
	refused("an operation that is under way", asha, open.ID)
	refused("while another is under way", asha, activation.ID)
	s.settle(open, operation.Failed)
	refused("a failed operation", asha, open.ID)
	renewal := s.settle(s.reserve(s.renewal("key-2", "100001")), operation.Success)
	refused("an operation that another builds on", asha, activation.ID)
	late := s.consoleUserAt("asha", admin.Finance, renewal.CompletedAt.Add(admin.DefaultReversalAge+time.Millisecond))
	refused("an operation that is too old", late, renewal.ID)
	refused("above a shorter age", asha.WithReversalAge(time.Second), renewal.ID)
	s.reversed(s.asked(renewal), operation.Reversed)
	refused("a reversed operation", asha, renewal.ID)

	combo := plan("COMBO-1", "499", "TV-BASIC")
	combo.Type, combo.Addon = "combo", "OTT-PLUS"
	saved, err := s.SetPlan(s.Context(), staffAction("plan set"), combo)
	s.must(err)
	d := s.renewal("key-3", "100001")
	d.PlanID, d.PlanVersion, d.PlanName, d.Amount, d.Addon, d.AddonState = saved.ID, saved.Version, saved.Name, saved.Price, saved.Addon, operation.AddonWaiting
	st := settlement(s.reserve(d), operation.Success)
	st.AddonState, st.AddonNextAt = operation.AddonFailed, noon.Add(time.Minute)
	s.must(second(s.Settle(s.Context(), st)))
	refused("while the add-on is followed up", asha, st.OperationID)
}

func reversalHoldsSubscriber(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	early := s.renewal("key-2", "100001")
	r := s.asked(op)
	if _, err := s.Reserve(s.Context(), early); !errors.Is(err, operation.ErrStale) {
		s.Errorf("a draft from before: %v; want %v", err, operation.ErrStale)
	}
	snapshot := s.snapshot(operation.SnapshotQuery{OperatorID: s.operator.ID, Kind: operation.Renew, SubscriberID: "100001", PlanID: s.plan.ID})
	if snapshot.Subscriber.OpenOperation != op.ID {
		s.Errorf("the operation in the way is %q; want %q", snapshot.Subscriber.OpenOperation, op.ID)
	}
	s.refused("delete the operator", s.DeleteOperator(s.Context(), staffAction("lco delete"), s.operator.ID))
	s.reversed(r, operation.Reversed)
	s.settle(s.reserve(s.renewal("key-3", "100001")), operation.Success)
}

func reversalRefused(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	before := s.subscription("100001")
	r := s.reversed(s.asked(op), operation.ReversalRefused)
	if r.Message != "The customer has watched it." || r.CompletedAt.IsZero() || !r.NextAt.IsZero() {
		s.Errorf("the reversal is %+v", r)
	}
	s.money("refused", "9602", "0")
	if after := s.subscription("100001"); !after.Expires.Equal(before.Expires) || after.OpenOperation != "" {
		s.Errorf("the subscriber is %+v; want as before", after)
	}
	again := s.asked(op)
	if again.Reference == r.Reference {
		s.Errorf("the second request has the reference of the first, %s", r.Reference)
	}
	all, err := s.Reversals(s.Context(), admin.ReversalFilter{Limit: 10})
	s.must(err)
	if len(all) != 2 {
		s.Fatalf("the reversals are %+v; want two", all)
	}
	if older, err := s.Reversals(s.Context(), admin.ReversalFilter{After: all[0].Reference, Limit: 10}); err != nil || len(older) != 1 || older[0].Reference != all[1].Reference {
		s.Errorf("after %s: %+v, %v; want %s", all[0].Reference, older, err, all[1].Reference)
	}
	s.reversed(again, operation.Reversed)
	s.money("reversed", "9801", "0")

	// A provider without the call is not asked again for a day.
	op = s.settle(s.reserve(s.renewal("key-2", "100001")), operation.Success)
	r = s.asked(op)
	s.must(first(s.ClaimReversals(s.Context(), claim(noon.Add(time.Minute)))))
	answer := reversalAnswer(r, operation.ReversalRefused)
	answer.Unsupported = true
	s.must(s.SettleReversal(s.Context(), answer))
	why, err := s.consoleUserAt("asha", admin.Finance, noon.Add(time.Hour)).WhyNotReversible(s.Context(), op.ID)
	s.must(err)
	if why == nil {
		s.Errorf("it can be reversed, and the provider has just said that it cannot undo orders")
	}
	why, err = s.consoleUserAt("asha", admin.Finance, noon.Add(25*time.Hour)).WhyNotReversible(s.Context(), op.ID)
	s.must(err)
	if why != nil {
		s.Errorf("a day later: %v; want it asked again", why)
	}
}

func reversedOnce(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	var requested, refused atomic.Int32
	asha := s.consoleUserAt("asha", admin.Finance, noon.Add(time.Minute))
	concurrently(8, func(int) {
		_, err := asha.SubmitReversal(s.Context(), op.ID, "wrong customer")
		if refusal := (*admin.Refusal)(nil); errors.As(err, &refusal) {
			refused.Add(1)
		} else if err != nil {
			s.Errorf("request: %v", err)
		} else {
			requested.Add(1)
		}
	})
	if requested.Load() != 1 || refused.Load() != 7 {
		s.Errorf("%d requested and %d refused; want 1 and 7", requested.Load(), refused.Load())
	}
	var claimed atomic.Int32
	concurrently(8, func(int) {
		ops, err := s.ClaimReversals(s.Context(), claim(noon.Add(time.Minute)))
		s.must(err)
		claimed.Add(int32(len(ops)))
	})
	if claimed.Load() != 1 {
		s.Errorf("claimed %d times; want once", claimed.Load())
	}
	r, open, err := s.PendingReversal(s.Context(), op.ID)
	s.must(err)
	if !open || r.Asks != 1 || r.State != operation.ReversalAsked {
		s.Fatalf("the open reversal is %+v, %v", r, open)
	}
	concurrently(8, func(int) {
		if err := s.SettleReversal(s.Context(), reversalAnswer(r, operation.Reversed)); err != nil {
			s.Errorf("settle: %v", err)
		}
	})
	s.money("answered eight times", "9801", "0")
	s.must(s.SettleReversal(s.Context(), reversalAnswer(r, operation.ReversalRefused)))
	s.money("refused afterwards", "9801", "0")
}

func reversalAgainstRenewal(h *harness) {
	s := h.fixture("10000")
	asha := s.consoleUserAt("asha", admin.Finance, noon.Add(time.Minute))
	for round := range 6 {
		id := name("30000", round)
		s.subscriber(id, name("98000000", round)[:7]+id[len(id)-3:])
		op := s.settle(s.reserve(s.renewal("a-"+id, id)), operation.Success)
		draft := s.renewal("b-"+id, id)
		var did [2]bool
		concurrently(2, func(i int) {
			var err error
			if i == 0 {
				_, err = asha.SubmitReversal(s.Context(), op.ID, "wrong customer")
			} else {
				_, err = s.Reserve(s.Context(), draft)
			}
			var refusal *admin.Refusal
			if err != nil && !errors.As(err, &refusal) && !errors.Is(err, operation.ErrStale) {
				s.Errorf("round %d: %v", round, err)
			}
			did[i] = err == nil
		})
		if did[0] == did[1] {
			s.Errorf("round %d: reversal requested %v, renewal reserved %v; want exactly one", round, did[0], did[1])
		}
	}
}

func reversalPostponed(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	r := s.asked(op)
	at := noon.Add(time.Minute)
	due := func(what string, now time.Time, want bool) {
		s.Helper()
		d, err := s.Due(s.Context(), now)
		s.must(err)
		if d.Reversals != want {
			s.Errorf("%s: due %v; want %v", what, d.Reversals, want)
		}
	}
	read := func(asks int, state operation.ReversalState) {
		s.Helper()
		now, open, err := s.PendingReversal(s.Context(), op.ID)
		s.must(err)
		if !open || now.Reference != r.Reference || now.Asks != asks || now.State != state {
			s.Errorf("the open reversal is %+v, %v; want %d asks and %s", now, open, asks, state)
		}
	}
	due("before it was requested", at.Add(-time.Millisecond), false)
	due("at once", at, true)
	c := claim(at)
	c.Held = map[int64][]string{s.operator.ID: {op.ID}}
	if held, err := s.ClaimReversals(s.Context(), c); err != nil || len(held) != 0 {
		s.Errorf("claimed what is held: %+v, %v", held, err)
	}
	s.must(first(s.ClaimReversals(s.Context(), claim(at))))
	read(1, operation.ReversalAsked)
	// The first call certainly never left.
	answer := reversalAnswer(r, operation.ReversalAsked)
	answer.NotSent = true
	s.must(s.SettleReversal(s.Context(), answer))
	read(0, operation.ReversalRequested)
	due("before the next time", answer.NextAt.Add(-time.Millisecond), false)
	// A node that crashed may have sent it: from then on a call that never left proves nothing.
	s.must(first(s.ClaimReversals(s.Context(), claim(answer.NextAt))))
	s.reopen()
	s.must(first(s.ClaimReversals(s.Context(), claim(answer.NextAt.Add(time.Hour)))))
	read(2, operation.ReversalAsked)
	answer.NextAt = answer.NextAt.Add(2 * time.Hour)
	s.must(s.SettleReversal(s.Context(), answer))
	read(2, operation.ReversalAsked)
	due("in time", answer.NextAt, true)
	s.must(s.SettleReversal(s.Context(), reversalAnswer(r, operation.Reversed)))
	due("reversed", answer.NextAt.Add(time.Hour), false)
	s.money("reversed", "9801", "0")
}

func reversalRights(h *harness) {
	s := h.fixture("10000")
	large := s.plan
	large.Price = rupees("1500")
	saved, err := s.SetPlan(s.Context(), staffAction("plan set"), large)
	s.must(err)
	s.plan = saved
	op := s.subscriber("100001", "9800000001")
	at := noon.Add(time.Minute)
	for _, role := range []admin.Role{admin.Viewer, admin.Support} {
		_, err := s.serviceOf("dev", role, at).SubmitReversal(s.Context(), op.ID, "because")
		s.refused(string(role), err)
	}
	asha, binu := s.consoleUserAt("asha", admin.Finance, at), s.consoleUserAt("binu", admin.Finance, at.Add(time.Minute))
	if _, err := asha.WithoutStepUp().SubmitReversal(s.Context(), op.ID, "because"); !errors.Is(err, admin.ErrStepUp) {
		s.Errorf("without a step-up: %v; want %v", err, admin.ErrStepUp)
	}
	outcome, err := asha.SubmitReversal(s.Context(), op.ID, "wrong customer")
	s.must(err)
	p := outcome.Proposal
	if !outcome.Waits() || outcome.Why == nil || p.Kind != admin.ProposedReversal || p.TransactionID != op.ID || p.Amount != rupees("1500") {
		s.Fatalf("above the limit: %+v; want a proposal", outcome)
	}
	if again, err := asha.SubmitReversal(s.Context(), op.ID, "wrong customer"); err != nil || !again.Already || again.Proposal.ID != p.ID {
		s.Errorf("proposed again: %+v, %v; want the first", again, err)
	}
	_, err = asha.Approve(s.Context(), p.ID)
	s.refused("one's own proposal", err)
	done, err := binu.Approve(s.Context(), p.ID)
	s.must(err)
	if done.Reversal.State != operation.ReversalRequested || done.Reversal.Actor != "web:binu" || done.Reversal.Reason != "wrong customer" {
		s.Errorf("approved: %+v", done.Reversal)
	}
	if moved, err := s.MovedWithoutApproval(s.Context(), admin.MovedQuery{People: []string{"asha", "binu"}, OperatorID: s.operator.ID, After: noon, Until: at.Add(time.Hour)}); err != nil || !moved.ByPerson.IsZero() {
		s.Errorf("an approved reversal counts as moved alone: %+v, %v", moved, err)
	}
	claimed, err := s.ClaimReversals(s.Context(), claim(at.Add(time.Minute)))
	s.must(err)
	if len(claimed) != 1 {
		s.Fatalf("claimed %d; want 1", len(claimed))
	}
	s.must(s.SettleReversal(s.Context(), reversalAnswer(done.Reversal, operation.Reversed)))
	s.money("reversed", "10000", "0")
}

func reversedIsNoDuplicate(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	q := operation.SnapshotQuery{OperatorID: s.operator.ID, Kind: operation.Renew, SubscriberID: "100001", PlanID: s.plan.ID, DuplicatesSince: noon.Add(-time.Minute)}
	if got := s.snapshot(q).Duplicate; got != op.ID {
		s.Errorf("the duplicate is %q; want %q", got, op.ID)
	}
	s.reversed(s.asked(op), operation.Reversed)
	if got := s.snapshot(q).Duplicate; got != "" {
		s.Errorf("the reversed renewal %q makes the right one a duplicate", got)
	}
}

func reversalReports(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	s.reversed(s.asked(op), operation.Reversed)
	from, before := noon.Add(-time.Hour), noon.Add(time.Hour)
	sums, err := s.CommissionSums(s.Context(), s.operator.ID, from, before)
	s.must(err)
	if len(sums) != 1 || sums[0].Count != 2 || sums[0].Reversals != 1 || sums[0].Sales != rupees("199") || sums[0].Commission != rupees("4.98") {
		s.Errorf("the commission is %+v; want two sales, and one of them taken back", sums)
	}
	lines, err := s.ListCommissions(s.Context(), report.CommissionQuery{OperatorID: s.operator.ID, From: from, Before: before, Limit: 10})
	s.must(err)
	if len(lines) != 3 || lines[2].TransactionID != op.ID || lines[2].Commission != rupees("4.98").Neg() || lines[2].Sale != rupees("199").Neg() {
		s.Errorf("the commissions are %+v; want the reversal at the end", lines)
	}
	totals, err := s.OperationTotals(s.Context(), s.operator.ID, from, before)
	s.must(err)
	var charged money.Amount
	for _, t := range totals {
		if t.State == operation.Success {
			charged = charged.Add(t.Amount)
		}
	}
	if charged != rupees("199") {
		s.Errorf("%s were charged; want 199.00 without what was reversed", charged)
	}
}

// unanswered asks for the reversal of an operation, and the provider does not say what it did.
func (s *fixture) unanswered(op operation.Operation) operation.Reversal {
	s.Helper()
	return s.reversed(s.asked(op), operation.ReversalAsked)
}

// settleable is when a person can settle what asked has requested.
var settleable = noon.Add(time.Minute + admin.DefaultReversalWait)

func (s *fixture) lastReversal(op operation.Operation) operation.Reversal {
	s.Helper()
	history, err := s.OperationHistory(s.Context(), op.ID)
	s.must(err)
	return history.Reversals[len(history.Reversals)-1]
}

func settledAsUndone(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	before := s.subscription("100001")
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	r := s.unanswered(op)
	early := s.consoleUserAt("binu", admin.Finance, settleable.Add(-time.Millisecond))
	_, err := early.SubmitReversalSettlement(s.Context(), r.Reference, true, "ticket 4711")
	s.refused("while the provider is still asked", err)
	binu := s.consoleUserAt("binu", admin.Finance, settleable)
	_, err = binu.SubmitReversalSettlement(s.Context(), "RV-nobody's", true, "ticket 4711")
	s.refused("an unknown reversal", err)
	_, err = binu.SubmitReversalSettlement(s.Context(), r.Reference, true, " ")
	s.refused("no evidence", err)
	if open, err := s.Reversals(s.Context(), admin.ReversalFilter{Open: true, Limit: 10}); err != nil || len(open) != 1 || open[0].Reference != r.Reference || early.NeedsPerson(open[0]) || !binu.NeedsPerson(open[0]) {
		s.Errorf("the open reversals are %+v, %v; want %s, which waits for a person after the wait", open, err, r.Reference)
	}
	s.money("unanswered", "9602", "0")
	outcome, err := binu.SubmitReversalSettlement(s.Context(), r.Reference, true, "ticket 4711")
	s.must(err)
	if outcome.Waits() || outcome.Reversal.State != operation.Reversed || !outcome.Reversal.CompletedAt.Equal(settleable) {
		s.Errorf("settled: %+v", outcome.Reversal)
	}
	s.reopen()
	s.money("settled", "9801", "0")
	after := s.subscription("100001")
	if !after.Expires.Equal(before.Expires) || !slices.Equal(after.Cycles, before.Cycles) || after.OpenOperation != "" {
		s.Errorf("the subscriber is %+v; want as before, %+v", after, before)
	}
	if last := s.lastReversal(op); last.SettledBy != "web:binu" || last.Evidence != "ticket 4711" || !last.ByPerson || last.Actor != "web:asha" {
		s.Errorf("the reversal is %+v; want it settled by binu", last)
	}
	entries := s.auditEntries()
	if last := entries[len(entries)-1]; last.Action != string(admin.ReversalSettle) || last.Actor != "web:binu" || last.Reason != "ticket 4711" || last.Subject != "operation "+op.ID {
		s.Errorf("the last audit entry is %+v", last)
	}
	sums, err := s.CommissionSums(s.Context(), s.operator.ID, noon.Add(-time.Hour), noon.Add(time.Hour))
	s.must(err)
	if len(sums) != 1 || sums[0].Commission != rupees("4.98") {
		s.Errorf("the commission is %+v; want that of the activation alone", sums)
	}
	commissions, err := s.CommissionPage(s.Context(), admin.ListQuery{})
	s.must(err)
	if last := commissions[len(commissions)-1]; last.Reversal != r.Reference || last.Amount != rupees("4.98").Neg() {
		s.Errorf("the commissions are %+v; want the reversal at the end", commissions)
	}
	closed, err := s.april("asha").ClosePeriod(s.Context(), march, s.operator.ID)
	s.must(err)
	if len(closed) != 1 || closed[0].Operations != 2 || closed[0].Reversals != 1 || closed[0].Amount != rupees("4.98") {
		s.Errorf("closed %+v; want two sales, one of them reversed", closed)
	}
	for _, undone := range []bool{true, false} {
		_, err = s.consoleUserAt("binu", admin.Finance, settleable).SubmitReversalSettlement(s.Context(), r.Reference, undone, "ticket 4711")
		s.refused("settle it again", err)
	}
	s.must(s.SettleReversal(s.Context(), reversalAnswer(r, operation.Reversed)))
	s.money("confirmed afterwards", "9801", "0")
	if kinds := s.exceptionsOf(op.ID); len(kinds) != 0 {
		s.Errorf("the exceptions are %v; want none, as the provider says the same", kinds)
	}
	s.must(s.SettleReversal(s.Context(), reversalAnswer(r, operation.ReversalRefused)))
	s.money("refused afterwards", "9801", "0")
	if kinds := s.exceptionsOf(op.ID); !slices.Equal(kinds, []operation.ExceptionKind{operation.ReversalContradiction}) {
		s.Errorf("the exceptions are %v; want %s, as the provider says the opposite", kinds, operation.ReversalContradiction)
	}
}

func settledAsNotUndone(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	before := s.subscription("100001")
	r := s.unanswered(op)
	outcome, err := s.consoleUserAt("binu", admin.Finance, settleable).SubmitReversalSettlement(s.Context(), r.Reference, false, "ticket 4712")
	s.must(err)
	if outcome.Reversal.State != operation.ReversalRefused || outcome.Reversal.Message != operation.NotUndoneByReview {
		s.Errorf("settled: %+v", outcome.Reversal)
	}
	s.money("settled", "9602", "0")
	if after := s.subscription("100001"); !after.Expires.Equal(before.Expires) || !slices.Equal(after.Cycles, before.Cycles) || after.OpenOperation != "" {
		s.Errorf("the subscriber is %+v; want as before, %+v", after, before)
	}
	// The provider is told never to carry it out, until it says that it will not.
	answer := voidAnswer(r, operation.ReversalAsked)
	s.voided(answer)
	s.pending(op, r.Reference, operation.ReversalRefused)
	s.voided(voidAnswer(r, operation.ReversalRefused))
	if due, err := s.Due(s.Context(), settleable.Add(240*time.Hour)); err != nil || due.Reversals {
		s.Errorf("due: %+v, %v; want the provider told no more", due, err)
	}
	if kinds := s.exceptionsOf(op.ID); len(kinds) != 0 {
		s.Errorf("the exceptions are %v; want none", kinds)
	}
	s.settle(s.reserve(s.renewal("key-1b", "100001")), operation.Failed) // others may begin
	// It can be asked for again, under another reference: nothing comes of the first.
	again := s.asked(op)
	if again.Reference == r.Reference {
		s.Errorf("asked for again under %s, which the provider has called off", r.Reference)
	}
	s.reversed(again, operation.Reversed)
	s.money("reversed", "9801", "0")

	// One that never left can be settled, too: the provider may be away for good.
	op = s.settle(s.reserve(s.renewal("key-2", "100001")), operation.Success)
	r = s.asked(op)
	_, err = s.consoleUserAt("binu", admin.Finance, settleable).SubmitReversalSettlement(s.Context(), r.Reference, false, "the provider is away")
	s.must(err)
	s.settle(s.reserve(s.renewal("key-3", "100001")), operation.Success)
}

// voidAnswer is an answer to the void of a reversal: it was carried out, it never will be, or that is not
// known.
func voidAnswer(r operation.Reversal, state operation.ReversalState) operation.ReversalAnswer {
	a := reversalAnswer(r, state)
	a.At = settleable.Add(time.Second)
	if state == operation.ReversalRefused {
		a.Voided, a.Message = true, operation.NeverCarriedOut
	}
	a.Calls[0].What, a.Calls[0].AskedAt, a.Calls[0].AnsweredAt = "void", a.At, a.At
	if state.Open() {
		a.NextAt = a.At.Add(time.Hour)
	}
	return a
}

// voided claims a reversal that was settled as not undone, and answers the void.
func (s *fixture) voided(a operation.ReversalAnswer) {
	s.Helper()
	claimed, err := s.ClaimReversals(s.Context(), claim(settleable.Add(48*time.Hour)))
	s.must(err)
	if len(claimed) != 1 || claimed[0].ID != a.OperationID {
		s.Fatalf("claimed %+v; want the operation %s", claimed, a.OperationID)
	}
	s.must(s.SettleReversal(s.Context(), a))
}

// pending requires that the provider is asked about a reversal of an operation.
func (s *fixture) pending(op operation.Operation, reference string, state operation.ReversalState) operation.Reversal {
	s.Helper()
	r, pending, err := s.PendingReversal(s.Context(), op.ID)
	s.must(err)
	if !pending || r.Reference != reference || r.State != state {
		s.Fatalf("pending is %+v, %v; want %s, %s", r, pending, reference, state)
	}
	return r
}

// What a person has settled as not undone is asked for again under its reference, as long as the provider
// may carry it out: its answer settles it, whatever it did.
func reversalReopened(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	binu := s.consoleUserAt("binu", admin.Finance, settleable)
	notUndone := func(r operation.Reversal) {
		s.Helper()
		s.must(first(binu.SubmitReversalSettlement(s.Context(), r.Reference, false, "ticket 4712")))
	}
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	r := s.unanswered(op)
	notUndone(r)
	later := s.consoleUserAt("asha", admin.Finance, settleable.Add(time.Minute))
	outcome, err := later.SubmitReversal(s.Context(), op.ID, "once more")
	s.must(err)
	again := outcome.Reversal
	if again.Reference != r.Reference || again.State != operation.ReversalAsked || again.Reason != "once more" || !again.RequestedAt.Equal(settleable.Add(time.Minute)) || again.ByPerson || !again.AskedAt.IsZero() {
		s.Fatalf("asked for again: %+v; want %s reopened", again, r.Reference)
	}
	// It waits for a person only after the wait has begun again.
	_, err = s.consoleUserAt("binu", admin.Finance, settleable.Add(time.Minute+time.Second)).SubmitReversalSettlement(s.Context(), r.Reference, true, "ticket 4713")
	s.refused("at once", err)
	s.must(s.SettleReversal(s.Context(), reversalAnswer(r, operation.Reversed)))
	s.money("the provider had carried it out", "9801", "0")
	if kinds := s.exceptionsOf(op.ID); len(kinds) != 0 {
		s.Errorf("the exceptions are %v; want none: the books agree with the provider", kinds)
	}

	// A void that was under way when it was asked for again: nothing comes of its reference.
	op = s.settle(s.reserve(s.renewal("key-2", "100001")), operation.Success)
	r = s.unanswered(op)
	notUndone(r)
	s.must(first(later.SubmitReversal(s.Context(), op.ID, "once more")))
	s.must(s.SettleReversal(s.Context(), voidAnswer(r, operation.ReversalRefused)))
	if last := s.lastReversal(op); last.State != operation.ReversalRefused || last.ByPerson || !last.Voided || last.Message != operation.NeverCarriedOut || s.subscription("100001").OpenOperation != "" {
		s.Errorf("the reversal is %+v; want it refused, for a new reference", last)
	}

	// The provider has carried it out before the void. A new request returns the money.
	r = s.unanswered(op)
	notUndone(r)
	s.voided(voidAnswer(r, operation.Reversed))
	s.money("carried out all the same", "9602", "0")
	if kinds := s.exceptionsOf(op.ID); !slices.Equal(kinds, []operation.ExceptionKind{operation.ReversalContradiction}) {
		s.Errorf("the exceptions are %v; want %s", kinds, operation.ReversalContradiction)
	}
	exceptions, err := s.Exceptions(s.Context(), false)
	s.must(err)
	s.must(s.CloseException(s.Context(), staffAction("exception close"), exceptions[0].ID))
	s.asked(op)
	s.must(s.SettleReversal(s.Context(), reversalAnswer(r, operation.Reversed)))
	s.money("asked for again", "9801", "0")
}

// Each contradiction is an exception of its own, once.
func contradictedAgain(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	binu := s.consoleUserAt("binu", admin.Finance, settleable)
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	for round := range 3 {
		r := s.unanswered(op)
		s.must(first(binu.SubmitReversalSettlement(s.Context(), r.Reference, false, "ticket 4712")))
		for range 2 { // the commit of the first is not known
			s.must(s.SettleReversal(s.Context(), voidAnswer(r, operation.Reversed)))
		}
		open, err := s.Exceptions(s.Context(), false)
		s.must(err)
		all, err := s.Exceptions(s.Context(), true)
		s.must(err)
		if len(open) != 1 || open[0].Kind != operation.ReversalContradiction || len(all) != round+1 {
			s.Fatalf("round %d: the open exceptions are %+v of %+v; want one more %s", round, open, all, operation.ReversalContradiction)
		}
		s.must(s.CloseException(s.Context(), staffAction("exception close"), open[0].ID))
	}
}

// An answer may be saved again after a commit whose outcome is unknown.
func answerSavedOnce(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	r := s.unanswered(op)
	calls := func() int {
		s.Helper()
		history, err := s.OperationHistory(s.Context(), op.ID)
		s.must(err)
		return len(history.Calls)
	}
	before := calls()
	answer := reversalAnswer(r, operation.Reversed)
	answer.Calls[0].Reply.Outcome = operation.Confirmed // to a call within the millisecond of the unanswered one
	for range 3 {
		s.must(s.SettleReversal(s.Context(), answer))
	}
	if got := calls(); got != before+1 {
		s.Errorf("%d calls are saved; want 1", got-before)
	}
	s.money("reversed", "9801", "0")
}

// Only a provider that was asked can have undone an order, and it is asked for the whole wait.
func neverAsked(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	op := s.settle(s.reserve(s.renewal("key-1", "100001")), operation.Success)
	r := s.asked(op)
	settle := func(at time.Time, undone bool) error {
		_, err := s.consoleUserAt("binu", admin.Finance, at).SubmitReversalSettlement(s.Context(), r.Reference, undone, "ticket 4711")
		return err
	}
	s.refused("undone, and never asked", settle(settleable.Add(time.Hour), true))
	s.must(first(s.ClaimReversals(s.Context(), claim(settleable))))
	neverLeft := reversalAnswer(r, operation.ReversalAsked)
	neverLeft.NotSent, neverLeft.NextAt = true, settleable.Add(time.Minute)
	s.must(s.SettleReversal(s.Context(), neverLeft))
	s.refused("undone, and the only call never left", settle(settleable.Add(time.Hour), true))
	s.must(first(s.ClaimReversals(s.Context(), claim(settleable.Add(time.Minute)))))
	answer := reversalAnswer(r, operation.ReversalAsked)
	answer.Calls[0].AskedAt = settleable.Add(time.Minute)
	s.must(s.SettleReversal(s.Context(), answer))
	asked := settleable.Add(time.Minute)
	for _, undone := range []bool{true, false} {
		s.refused("before the wait since the first call", settle(asked.Add(admin.DefaultReversalWait-time.Millisecond), undone))
	}
	s.must(settle(asked.Add(admin.DefaultReversalWait), true))
	s.money("settled", "9801", "0")
}

func settledOrAnswered(h *harness) {
	s := h.fixture("100000")
	binu := s.consoleUserAt("binu", admin.Finance, settleable)
	balance := func() money.Amount {
		s.Helper()
		wallet, err := s.Wallet(s.Context(), s.operator.ID)
		s.must(err)
		return wallet.Balance
	}
	for round := range 12 {
		id := name("30000", round)
		s.subscriber(id, name("98000000", round)[:7]+id[len(id)-3:])
		op := s.settle(s.reserve(s.renewal("a-"+id, id)), operation.Success)
		before := balance()
		r := s.unanswered(op)
		undone, answer := round%2 == 0, reversalAnswer(r, operation.Reversed)
		if round%4 > 1 {
			answer = reversalAnswer(r, operation.ReversalRefused)
		}
		settled := make([]bool, 4)
		concurrently(len(settled), func(i int) {
			if i%2 == 0 {
				s.must(s.SettleReversal(s.Context(), answer))
				return
			}
			_, err := binu.SettleReversal(s.Context(), r.Reference, undone, "ticket 4711")
			if refusal := (*admin.Refusal)(nil); err != nil && !errors.As(err, &refusal) {
				s.Errorf("round %d: %v", round, err)
			}
			settled[i] = err == nil
		})
		last, want := s.lastReversal(op), answer.State
		byPerson := settled[1] || settled[3]
		if settled[1] && settled[3] {
			s.Errorf("round %d: it was settled twice", round)
		}
		if byPerson {
			want = operation.ReversalRefused
			if undone {
				want = operation.Reversed
			}
		}
		if last.State != want || last.ByPerson != byPerson {
			s.Errorf("round %d: it is %s, settled by a person: %v; want %s, %v", round, last.State, last.ByPerson, want, byPerson)
		}
		back := money.Amount{}
		if last.State == operation.Reversed {
			back = op.Amount
		}
		if got := balance(); got != before.Add(back) {
			s.Errorf("round %d: %s in the wallet; want %s", round, got, before.Add(back))
		}
		if contradicted := len(s.exceptionsOf(op.ID)) == 1; contradicted != (last.State != answer.State) {
			s.Errorf("round %d: it is %s and the provider says %s; an exception: %v", round, last.State, answer.State, contradicted)
		}
	}
}

func settlementRights(h *harness) {
	s := h.fixture("10000")
	large := s.plan
	large.Price = rupees("1500")
	saved, err := s.SetPlan(s.Context(), staffAction("plan set"), large)
	s.must(err)
	s.plan = saved
	op := s.subscriber("100001", "9800000001")
	requested := func(op operation.Operation) operation.Reversal {
		outcome, err := s.consoleUserAt("asha", admin.Finance, noon.Add(time.Minute)).SubmitReversal(s.Context(), op.ID, "wrong customer")
		s.must(err)
		approved, err := s.consoleUserAt("binu", admin.Finance, noon.Add(time.Minute)).Approve(s.Context(), outcome.Proposal.ID)
		s.must(err)
		return approved.Reversal
	}
	reference := requested(op).Reference
	s.must(first(s.ClaimReversals(s.Context(), claim(noon.Add(time.Minute)))))
	for _, role := range []admin.Role{admin.Viewer, admin.Support} {
		_, err := s.serviceOf("dev", role, settleable).SubmitReversalSettlement(s.Context(), reference, true, "because")
		s.refused(string(role), err)
	}
	asha, binu := s.consoleUserAt("asha", admin.Finance, settleable), s.consoleUserAt("binu", admin.Finance, settleable.Add(time.Minute))
	if _, err := asha.WithoutStepUp().SettleReversal(s.Context(), reference, true, "because"); err == nil {
		s.Error("it was settled without a step-up")
	}
	outcome, err := asha.SubmitReversalSettlement(s.Context(), reference, true, "ticket 4711")
	s.must(err)
	p := outcome.Proposal
	if !outcome.Waits() || !p.SettlesReversal() || !p.Confirm || p.TransactionID != reference || p.Amount != rupees("1500") || p.Action() != admin.ReversalSettle {
		s.Fatalf("above the limit: %+v; want a proposal", outcome)
	}
	_, err = asha.SubmitReversalSettlement(s.Context(), reference, false, "ticket 4711")
	s.refused("the opposite, while that waits", err)
	_, err = asha.Approve(s.Context(), p.ID)
	s.refused("one's own proposal", err)
	s.money("proposed", "8500", "0")
	done, err := binu.Approve(s.Context(), p.ID)
	s.must(err)
	if done.Reversal.State != operation.Reversed || s.lastReversal(op).SettledBy != "web:binu" {
		s.Errorf("approved: %+v", done.Reversal)
	}
	s.money("approved", "10000", "0")

	// The provider's answer comes before the second person.
	again := s.subscriber("100002", "9800000002")
	r := requested(again)
	s.must(first(s.ClaimReversals(s.Context(), claim(noon.Add(time.Minute)))))
	outcome, err = asha.SubmitReversalSettlement(s.Context(), r.Reference, true, "ticket 4713")
	s.must(err)
	s.must(s.SettleReversal(s.Context(), reversalAnswer(r, operation.Reversed)))
	_, err = binu.Approve(s.Context(), outcome.Proposal.ID)
	s.refused("approve what has an outcome", err)
	s.money("answered", "10000", "0")
}

func reversalMonths(h *harness) {
	s := h.fixture("10000")
	s.subscriber("100001", "9800000001")
	s.earn(march.Ends().Add(-2*time.Hour), march.Ends().Add(-time.Hour))
	op := s.newest("100001")
	april := admin.MonthOf(march.Ends())
	finance := func(at time.Time) *admin.Service { return s.consoleUserAt("asha", admin.Finance, at) }

	// Requested in March, and without an answer when March is over.
	outcome, err := finance(march.Ends().Add(-time.Minute)).SubmitReversal(s.Context(), op, "wrong customer")
	s.must(err)
	r := outcome.Reversal
	_, err = s.april("binu").ClosePeriod(s.Context(), march, 0)
	s.refused("while a reversal from March is open", err)
	if err == nil || !strings.Contains(err.Error(), r.Reference) {
		s.Errorf("the refusal is %v; want it to name %s", err, r.Reference)
	}
	// A clock that is behind does not take it into March.
	answer := reversalAnswer(r, operation.ReversalRefused)
	answer.At = r.RequestedAt.Add(-time.Second)
	s.must(s.SettleReversal(s.Context(), answer))
	if last := s.lastReversal(operation.Operation{ID: op}); !last.CompletedAt.Equal(r.RequestedAt) {
		s.Errorf("it was settled at %v; want not before %v", last.CompletedAt, r.RequestedAt)
	}
	closed, err := s.april("binu").ClosePeriod(s.Context(), march, 0)
	s.must(err)
	if len(closed) != 1 || closed[0].Operations != 3 || closed[0].Reversals != 0 || closed[0].Amount != rupees("14.94") {
		s.Errorf("closed %+v; want three sales", closed)
	}

	// A sale of March that is reversed in April counts against April.
	outcome, err = finance(march.Ends().Add(2*time.Hour)).SubmitReversal(s.Context(), op, "wrong customer")
	s.must(err)
	answer = reversalAnswer(outcome.Reversal, operation.Reversed)
	answer.At = march.Ends().Add(3 * time.Hour)
	s.must(s.SettleReversal(s.Context(), answer))
	if again, err := s.ClosedPeriods(s.Context(), 0); err != nil || len(again) != 1 || again[0] != closed[0] {
		s.Errorf("March is %+v, %v; want it as it was closed, %+v", again, err, closed)
	}
	of := func(month admin.Month) []operation.Reversal {
		list, err := s.Reversals(s.Context(), admin.ReversalFilter{From: month.Begins(), Before: month.Ends(), OperatorID: s.operator.ID, Limit: 10})
		s.must(err)
		return list
	}
	if in, out := of(april), of(march); len(in) != 1 || in[0].Reference != outcome.Reversal.Reference || len(out) != 0 {
		s.Errorf("reversed in April: %+v, in March: %+v; want one in April", in, out)
	}
	entries, err := s.CommissionPage(s.Context(), admin.ListQuery{OperatorID: s.operator.ID})
	s.must(err)
	if last := entries[len(entries)-1]; len(entries) != 4 || last.Reversal != outcome.Reversal.Reference || last.TransactionID != op || last.Amount != rupees("4.98").Neg() || !last.CreatedAt.Equal(answer.At) {
		s.Errorf("the commissions are %+v; want the reversal at the end", entries)
	}
	s.same("pages of commissions", s.commissionLines(admin.ListQuery{}), ids(entries, commissionID))
	closed, err = finance(april.Ends().Add(time.Hour)).ClosePeriod(s.Context(), april, 0)
	s.must(err)
	if len(closed) != 1 || closed[0].Operations != 0 || closed[0].Reversals != 1 || closed[0].Amount != rupees("4.98").Neg() {
		s.Errorf("closed %+v; want one reversal, below zero", closed)
	}
	if again, err := s.ClosedPeriods(s.Context(), s.operator.ID); err != nil || len(again) != 2 || again[0] != closed[0] {
		s.Errorf("closed months are %+v, %v; want April first, %+v", again, err, closed)
	}
}

// newest is the operation of a subscriber's newest cycle.
func (s *fixture) newest(subscriber string) string {
	s.Helper()
	all, err := s.ListOperations(s.Context(), admin.OperationFilter{Subscriber: subscriber, Limit: 1})
	s.must(err)
	return all[0].ID
}
