package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
)

var referenceTests = []test{
	{"a reference of another operator is refused, naming the operator", referenceOfAnotherOperator},
	{"a reference in another spelling is the same reference", referenceSpellings},
	{"an adjustment's reference is unique across operators, separate from top-ups", adjustmentReferences},
	{"of many operators credited concurrently under one reference one is", referenceRace},
	{"of many operators adjusted concurrently under one reference one is", adjustmentReferenceRace},
	{"a proposed reference blocks other operators", proposedReference},
	{"of many operators proposing one reference concurrently one does", proposedReferenceRace},
	{"a lapsed proposal frees its reference", lapsedReference},
	{"an approval of a reference credited elsewhere is refused", approvedReference},
}

func (h *harness) credit(operatorID int64, amount, reference string) (bool, error) {
	_, credited, err := h.TopUp(h.Context(), staffAction("wallet topup"), admin.TopUp{OperatorID: operatorID, Amount: rupees(amount), Reference: reference})
	return credited, err
}

func (h *harness) adjusted(operatorID int64, amount, reference string) (bool, error) {
	_, booked, err := h.Adjust(h.Context(), staffAction("wallet adjust"), admin.Adjustment{OperatorID: operatorID, Amount: rupees(amount), Reference: reference})
	return booked, err
}

// balance checks an operator's balance.
func (h *harness) balance(operatorID int64, want string) {
	h.Helper()
	if wallet, err := h.Wallet(h.Context(), operatorID); err != nil || wallet.Balance != rupees(want) {
		h.Errorf("operator %d has %s, %v; want %s", operatorID, wallet.Balance, err, want)
	}
}

func (h *harness) refusedNaming(what string, err error, parts ...string) {
	h.Helper()
	h.refused(what, err)
	for _, part := range parts {
		if err != nil && !strings.Contains(err.Error(), part) {
			h.Errorf("%s: %v; want it to name %q", what, err, part)
		}
	}
}

func referenceOfAnotherOperator(h *harness) {
	one, two := h.operator("one"), h.operator("two")
	credited, err := h.credit(one.ID, "5000", "NEFT-1")
	if err != nil || !credited {
		h.Fatalf("credited %v, %v", credited, err)
	}
	h.reopen()
	_, err = h.credit(two.ID, "5000", "NEFT-1")
	h.refusedNaming("another operator's", err, "NEFT-1", "5000.00", fmt.Sprintf("operator %d", one.ID), noon.In(subscription.IST).Format("2006-01-02"))
	h.balance(two.ID, "0")
	h.balance(one.ID, "5000")
	// A deleted operator's payment still counts as credited.
	if _, err := h.adjusted(one.ID, "-5000", ""); err != nil {
		h.Fatal(err)
	}
	h.must(h.DeleteOperator(h.Context(), staffAction("lco delete"), one.ID))
	_, err = h.credit(two.ID, "5000", "NEFT-1")
	h.refusedNaming("a deleted operator's", err, fmt.Sprintf("operator %d", one.ID))
}

func referenceSpellings(h *harness) {
	one, two := h.operator("one"), h.operator("two")
	if credited, err := h.credit(one.ID, "5000", "NEFT-1 2"); err != nil || !credited {
		h.Fatalf("credited %v, %v", credited, err)
	}
	for _, spelled := range []string{"NEFT-1 2", "neft12", "ＮＥＦＴ１２", "N\u200dEFT/12", "Neft\u034f12"} {
		if credited, err := h.credit(one.ID, "5000", spelled); err != nil || credited {
			h.Errorf("%q again: credited %v, %v; want a harmless repeat", spelled, credited, err)
		}
		_, err := h.credit(one.ID, "5000.01", spelled)
		h.refusedNaming(spelled+" with another amount", err, "NEFT-1 2", "5000.00")
		_, err = h.credit(two.ID, "5000", spelled)
		h.refusedNaming(spelled+" of another operator", err, "NEFT-1 2")
	}
	h.balance(one.ID, "5000")
	h.balance(two.ID, "0")
	lines, err := h.LedgerPage(h.Context(), admin.ListQuery{OperatorID: one.ID})
	if err != nil || len(lines) != 1 || lines[0].Description != "Top-up NEFT-1 2" {
		h.Errorf("the ledger is %+v, %v; want the reference as it was typed", lines, err)
	}
}

func adjustmentReferences(h *harness) {
	one, two := h.operator("one"), h.operator("two")
	if booked, err := h.adjusted(one.ID, "10", "Refund 1"); err != nil || !booked {
		h.Fatalf("booked %v, %v", booked, err)
	}
	if booked, err := h.adjusted(one.ID, "10", "REFUND1"); err != nil || booked {
		h.Errorf("in another spelling: booked %v, %v; want a harmless repeat", booked, err)
	}
	_, err := h.adjusted(two.ID, "10", "refund-1")
	h.refusedNaming("another operator's", err, "Refund 1", fmt.Sprintf("operator %d", one.ID))
	_, err = h.adjusted(one.ID, "11", "refund-1")
	h.refusedNaming("another amount", err, "Refund 1", "10.00")
	// A top-up may have the same reference as the adjustment that reverses it.
	if credited, err := h.credit(two.ID, "10", "refund 1"); err != nil || !credited {
		h.Errorf("a top-up: %v, %v; want it credited", credited, err)
	}
	h.balance(one.ID, "10")
	h.balance(two.ID, "10")
}

func referenceRace(h *harness) {
	h.race(func(operatorID int64, i int) (bool, error) {
		return h.credit(operatorID, "100", []string{"NEFT-7", "neft 7", "ＮＥＦＴ7"}[i%3])
	})
}

func adjustmentReferenceRace(h *harness) {
	h.race(func(operatorID int64, i int) (bool, error) {
		return h.adjusted(operatorID, "100", []string{"R-7", "r 7"}[i%2])
	})
}

// race credits several operators concurrently, and requires that one was credited.
func (h *harness) race(credit func(operatorID int64, i int) (bool, error)) {
	var ids []int64
	for i := range 6 {
		ids = append(ids, h.operator(name("shop", i)).ID)
	}
	var credited atomic.Int32
	concurrently(len(ids), func(i int) {
		done, err := credit(ids[i], i)
		if refusal := (*admin.Refusal)(nil); err != nil && !errors.As(err, &refusal) {
			h.Errorf("operator %d: %v; want a refusal", ids[i], err)
		}
		if done {
			credited.Add(1)
		}
	})
	total := rupees("0")
	for _, id := range ids {
		wallet, err := h.Wallet(h.Context(), id)
		h.must(err)
		total = total.Add(wallet.Balance)
	}
	if credited.Load() != 1 || total != rupees("100") {
		h.Errorf("credited %d times, %s in all; want once, 100.00", credited.Load(), total)
	}
}

func proposedReference(h *harness) {
	s := h.fixture("0")
	other := h.operator("other")
	p := s.proposed("5000", "NEFT-1")
	binu := s.consoleUser("binu", admin.Finance)
	if again, err := binu.SubmitTopUp(s.Context(), s.paid("5000", "neft 1")); err != nil || !again.Already || again.Proposal != p {
		s.Errorf("proposed in another spelling: %+v, %v; want the first one", again, err)
	}
	for _, amount := range []string{"5000", "6000", "5"} {
		_, err := binu.SubmitTopUp(s.Context(), admin.TopUp{OperatorID: other.ID, Amount: rupees(amount), Reference: "neft1"})
		s.refusedNaming("another operator's "+amount, err, "NEFT-1", "of asha", fmt.Sprintf("operator %d", s.operator.ID))
	}
	_, err := h.credit(other.ID, "5000", "NEFT 1")
	s.refusedNaming("another operator's from the command line", err, fmt.Sprintf("operator %d", s.operator.ID))
	_, err = h.credit(s.operator.ID, "5000", "NEFT 1")
	s.refused("past the proposal, in another spelling", err)
	_, err = binu.Decline(s.Context(), p.ID, "it is the other's")
	s.must(err)
	if credited, err := h.credit(other.ID, "5000", "NEFT 1"); err != nil || !credited {
		s.Errorf("after it was declined: %v, %v; want it credited", credited, err)
	}
	_, err = binu.SubmitTopUp(s.Context(), s.paid("5000", "NEFT-1"))
	s.refusedNaming("proposing what was credited to another", err, fmt.Sprintf("operator %d", other.ID))
}

func proposedReferenceRace(h *harness) {
	s := h.fixture("0")
	var ids []int64
	for i := range 6 {
		ids = append(ids, h.operator(name("shop", i)).ID)
	}
	var proposed atomic.Int32
	concurrently(len(ids), func(i int) {
		outcome, err := s.consoleUser(name("maker", i), admin.Finance).SubmitTopUp(s.Context(), admin.TopUp{OperatorID: ids[i], Amount: rupees("5000"), Reference: "NEFT-1"})
		if refusal := (*admin.Refusal)(nil); err != nil && !errors.As(err, &refusal) {
			s.Errorf("propose for operator %d: %v; want a refusal", ids[i], err)
		}
		if err == nil && !outcome.Already {
			proposed.Add(1)
		}
	})
	if open, err := s.Proposals(s.Context(), admin.ProposalFilter{Open: true, Limit: 10}); err != nil || len(open) != 1 || proposed.Load() != 1 {
		s.Errorf("%d proposed, open are %+v, %v; want one", proposed.Load(), open, err)
	}
}

func lapsedReference(h *harness) {
	s := h.fixture("0")
	other := h.operator("other")
	old := s.proposed("5000", "NEFT-1")
	later := noon.Add(admin.ProposalLifetime)
	binu := s.consoleUserAt("binu", admin.Finance, later)
	outcome, err := binu.SubmitTopUp(s.Context(), admin.TopUp{OperatorID: other.ID, Amount: rupees("6000"), Reference: "neft-1"})
	if err != nil || !outcome.Waits() || outcome.Already {
		s.Fatalf("proposed %+v, %v; want another operator's to wait", outcome, err)
	}
	if lapsed, err := s.Proposal(s.Context(), old.ID); err != nil || lapsed.Status != admin.ProposalLapsed || !lapsed.DecidedAt.Equal(later) {
		s.Errorf("the old one is %+v, %v; want it lapsed", lapsed, err)
	}
	_, err = s.consoleUserAt("chitra", admin.Finance, later.Add(time.Minute)).Approve(s.Context(), outcome.Proposal.ID)
	s.must(err)
	s.balance(other.ID, "6000")
}

func approvedReference(h *harness) {
	s := h.fixture("0")
	p := s.proposed("5000", "NEFT-1")
	// It lapses, and is credited to another operator; a node with a slow clock approves
	// it.
	done := staffAction("wallet topup")
	done.At = noon.Add(admin.ProposalLifetime)
	other := h.operator("other")
	_, credited, err := h.TopUp(h.Context(), done, admin.TopUp{OperatorID: other.ID, Amount: rupees("5000"), Reference: "neft1"})
	if err != nil || !credited {
		s.Fatalf("credited %v, %v", credited, err)
	}
	_, err = s.consoleUser("binu", admin.Finance).Approve(s.Context(), p.ID)
	s.refusedNaming("approve it", err, fmt.Sprintf("operator %d", other.ID))
	s.balance(s.operator.ID, "0")
}

// OldReferences opens a store in which older releases have credited several operators
// under one reference, in one spelling or more, without a row in credited_references:
// as it is right after the migration that added the table. The store runs the
// statements that create that state.
func OldReferences(t *testing.T, opener Opener, run func(statement string)) {
	h := newHarness(t, opener)
	one, two := h.operator("one"), h.operator("two")
	for i, paid := range []admin.TopUp{
		{OperatorID: two.ID, Amount: rupees("20"), Reference: "first"},
		{OperatorID: one.ID, Amount: rupees("10"), Reference: "second"},
		{OperatorID: one.ID, Amount: rupees("30"), Reference: "third"},
		{OperatorID: one.ID, Amount: rupees("1"), Reference: "fourth"},
	} {
		done := staffAction("wallet topup")
		done.At = noon.Add(time.Duration(i) * time.Minute)
		_, _, err := h.TopUp(h.Context(), done, paid)
		h.must(err)
	}
	for i, id := range []int64{one.ID, two.ID} {
		booked, err := h.adjusted(id, "5", name("adjusted", i))
		if err != nil || !booked {
			h.Fatalf("booked %v, %v", booked, err)
		}
	}
	s := &fixture{harness: h, operator: one}
	proposed := s.proposed("5000", "waits")
	h.must(h.Close())
	for _, statement := range []string{
		`DELETE FROM credited_references`,
		`UPDATE wallet_entries SET reference = 'NEFT-1' WHERE reference IN ('first', 'second')`,
		`UPDATE wallet_entries SET reference = 'neft 1' WHERE reference = 'third'`,
		`UPDATE wallet_entries SET reference = '--' WHERE reference = 'fourth'`,
		`UPDATE adjustment_references SET reference = 'R-1'`,
		`UPDATE proposals SET reference_key = NULL, matter = 'topup waits'`,
		// A second operator's proposal, which older releases allowed.
		`INSERT INTO proposals (kind, operator_id, amount_paise, reference, matter, maker, made_at, status)
		 SELECT kind, operator_id + 1, amount_paise, 'Waits', 'topup Waits', maker, made_at, status FROM proposals`,
	} {
		run(statement)
	}
	h.Store = opener.Open(t)
	h.sign()
	// An operator's own reference is still a repeat.
	for _, old := range []struct {
		operator  int64
		amount    string
		reference string
	}{{two.ID, "20", "NEFT-1"}, {one.ID, "10", "ＮＥＦＴ-1"}, {one.ID, "30", "NEFT1"}} {
		if credited, err := h.credit(old.operator, old.amount, old.reference); err != nil || credited {
			h.Errorf("%+v again: credited %v, %v; want a harmless repeat", old, credited, err)
		}
	}
	three := h.operator("three")
	_, err := h.credit(three.ID, "20", "neft1")
	h.refusedNaming("a third operator's", err, fmt.Sprintf("operator %d", two.ID), "NEFT-1") // the oldest
	_, err = h.credit(one.ID, "77", "neft1")
	h.refused("another amount", err)
	_, err = h.adjusted(three.ID, "5", "r1")
	h.refused("a third operator's adjustment", err)
	if booked, err := h.adjusted(two.ID, "5", "R 1"); err != nil || booked {
		h.Errorf("the second operator's adjustment again: booked %v, %v", booked, err)
	}
	_, err = s.consoleUser("binu", admin.Finance).SubmitTopUp(h.Context(), admin.TopUp{OperatorID: three.ID, Amount: rupees("5000"), Reference: "WAITS"})
	h.refusedNaming("proposing what waits", err, fmt.Sprintf("proposal %d", proposed.ID))
	// Of the two old proposals one is credited.
	_, err = s.consoleUser("binu", admin.Finance).Approve(h.Context(), proposed.ID)
	h.must(err)
	_, err = s.consoleUser("binu", admin.Finance).Approve(h.Context(), proposed.ID+1)
	h.refused("approve the other of the two", err)
	h.reopen()
	h.balance(one.ID, "5046")
	h.balance(two.ID, "25")
	h.balance(three.ID, "0")
	h.must(h.Close())
}
