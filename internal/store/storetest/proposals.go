package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

var proposalTests = []test{
	{"a large top-up waits for a second person", topUpBySecondPerson},
	{"a small amount is booked at once", smallMovesAtOnce},
	{"of many concurrent approvals one takes effect", approvedOnce},
	{"concurrent approval and withdrawal: one takes effect", approvalAgainstWithdrawal},
	{"a maker cannot approve, and only the maker withdraws", ownProposals},
	{"a reference is proposed or credited once", referencesOnce},
	{"concurrent proposals of one reference make one proposal", proposedOnce},
	{"an approved adjustment is booked with its maker's reason", approvedAdjustment},
	{"an approval that fails changes nothing", approvalRefused},
	{"a manual settlement needs approval", settledByTwo},
	{"a proposal lapses and can be made again", lapsedProposals},
}

func (s *fixture) paid(amount, reference string) admin.TopUp {
	return admin.TopUp{OperatorID: s.operator.ID, Amount: rupees(amount), Reference: reference}
}

// proposed has asha propose a top-up.
func (s *fixture) proposed(amount, reference string) admin.Proposal {
	s.Helper()
	outcome, err := s.consoleUser("asha", admin.Finance).SubmitTopUp(s.Context(), s.paid(amount, reference))
	s.must(err)
	if !outcome.Waits() || outcome.Already || outcome.Proposal.ID == 0 {
		s.Fatalf("proposed %+v; want it to wait", outcome)
	}
	return outcome.Proposal
}

func topUpBySecondPerson(h *harness) {
	s := h.fixture("0")
	s.createLogin("asha", admin.Finance)
	s.createLogin("binu", admin.Administrator)
	p := s.proposed("1000.01", "NEFT-1")
	s.money("while it waits", "0", "0")
	want := admin.Proposal{
		ID: p.ID, Kind: admin.ProposedTopUp, OperatorID: s.operator.ID, Amount: rupees("1000.01"), Reference: "NEFT-1",
		Maker: "web:asha", MadeAt: noon, Status: admin.ProposalOpen,
	}
	s.reopen()
	binu := s.consoleUserAt("binu", admin.Administrator, noon.Add(time.Hour))
	if read, err := binu.Proposal(s.Context(), p.ID); err != nil || read != want {
		s.Errorf("read back %+v, %v; want %+v", read, err, want)
	}
	outcome, err := binu.Approve(s.Context(), p.ID)
	s.must(err)
	want.Status, want.Checker, want.DecidedAt = admin.ProposalApproved, "web:binu", noon.Add(time.Hour)
	if outcome.Proposal != want || outcome.Wallet.Balance != rupees("1000.01") || outcome.Waits() {
		s.Errorf("approved: %+v; want %+v", outcome, want)
	}
	s.money("approved", "1000.01", "0")
	lines, err := s.LedgerPage(s.Context(), admin.ListQuery{OperatorID: s.operator.ID})
	s.must(err)
	if len(lines) != 1 || lines[0].Description != "Top-up NEFT-1" || !lines[0].CreatedAt.Equal(noon.Add(time.Hour)) {
		s.Errorf("the ledger is %+v", lines)
	}
	var logged []string
	for _, staffAction := range s.auditEntries()[4:] {
		logged = append(logged, staffAction.Actor+" "+staffAction.Action+" "+staffAction.Subject)
	}
	wantLogged := []string{
		fmt.Sprintf("web:asha proposal make proposal %d", p.ID),
		fmt.Sprintf("web:binu wallet topup wallet of lco %d, reference NEFT-1", s.operator.ID),
		fmt.Sprintf("web:binu proposal approve proposal %d", p.ID),
	}
	if !slices.Equal(logged, wantLogged) {
		s.Errorf("the log is %q; want %q", logged, wantLogged)
	}
	_, err = binu.Approve(s.Context(), p.ID)
	s.refused("approve it again", err)
	s.money("approved again", "1000.01", "0")
}

func smallMovesAtOnce(h *harness) {
	s := h.fixture("0")
	asha := s.consoleUser("asha", admin.Finance)
	outcome, err := asha.SubmitTopUp(s.Context(), s.paid("1000", "NEFT-1"))
	s.must(err)
	if outcome.Waits() || outcome.Already || outcome.Wallet.Balance != rupees("1000") {
		s.Errorf("a small top-up: %+v", outcome)
	}
	if again, err := asha.SubmitTopUp(s.Context(), s.paid("1000", "NEFT-1")); err != nil || !again.Already {
		s.Errorf("again: %+v, %v; want it known", again, err)
	}
	_, err = asha.SubmitAdjustment(s.Context(), s.operator.ID, rupees("-1000"), "counted wrongly")
	s.must(err)
	s.money("after both", "0", "0")
	// The methods without approval refuse it too.
	_, _, err = asha.TopUp(s.Context(), s.paid("1000.01", "NEFT-2"))
	s.refused("a large top-up alone", err)
	_, err = asha.Adjust(s.Context(), s.operator.ID, rupees("-1000.01"), "because")
	s.refused("a large adjustment alone", err)
	always := admin.NewService(s.Store, sealer{}, "web:asha", func() time.Time { return noon }).WithRole(admin.Finance, admin.Limits{})
	if outcome, err := always.SubmitTopUp(s.Context(), s.paid("0.01", "NEFT-3")); err != nil || !outcome.Waits() {
		s.Errorf("without any limit: %+v, %v; want every amount to wait", outcome, err)
	}
}

func approvedOnce(h *harness) {
	s := h.fixture("0")
	p := s.proposed("5000", "NEFT-1")
	var approved, refused atomic.Int32
	concurrently(8, func(i int) {
		_, err := s.consoleUser(name("checker", i), admin.Finance).Approve(s.Context(), p.ID)
		if refusal := (*admin.Refusal)(nil); errors.As(err, &refusal) {
			refused.Add(1)
		} else if err != nil {
			s.Errorf("approve: %v", err)
		} else {
			approved.Add(1)
		}
	})
	if approved.Load() != 1 || refused.Load() != 7 {
		s.Errorf("%d approved and %d were refused; want 1 and 7", approved.Load(), refused.Load())
	}
	s.money("after all", "5000", "0")
}

func approvalAgainstWithdrawal(h *harness) {
	s := h.fixture("0")
	wins := 0
	for round := range 5 {
		p := s.proposed("5000", name("NEFT", round))
		var done [2]bool
		concurrently(2, func(i int) {
			var err error
			if i == 0 {
				_, err = s.consoleUser("binu", admin.Finance).Approve(s.Context(), p.ID)
			} else {
				_, err = s.consoleUser("asha", admin.Finance).Withdraw(s.Context(), p.ID, "not ours")
			}
			done[i] = err == nil
		})
		if done[0] == done[1] {
			s.Errorf("approved %v, withdrawn %v; want one of them", done[0], done[1])
		}
		if done[0] {
			wins++
		}
	}
	s.money("after all", fmt.Sprint(5000*wins), "0")
}

func ownProposals(h *harness) {
	s := h.fixture("0")
	asha, binu := s.consoleUser("asha", admin.Finance), s.consoleUser("binu", admin.Finance)
	first, second := s.proposed("5000", "NEFT-1"), s.proposed("6000", "NEFT-2")
	_, err := asha.Approve(s.Context(), first.ID)
	s.refused("approve one's own", err)
	_, err = asha.Decline(s.Context(), first.ID, "no")
	s.refused("decline one's own", err)
	_, err = binu.Withdraw(s.Context(), first.ID, "no")
	s.refused("withdraw another's", err)
	_, err = binu.Decline(s.Context(), first.ID, " ")
	s.refused("decline without a reason", err)
	// A caller that bypasses the service meets the store's own check.
	if _, err := s.ApproveProposal(s.Context(), admin.Approval{
		Action: admin.StaffAction{Actor: "web:asha", Action: "proposal approve", At: noon}, Proposal: first,
		CarryOut: admin.StaffAction{Actor: "web:asha", Action: "wallet topup", At: noon},
	}); err == nil {
		s.Error("the store let its maker approve a proposal")
	}
	declined, err := binu.Decline(s.Context(), first.ID, "no such payment")
	if err != nil || declined.Status != admin.ProposalDeclined || declined.Answer != "no such payment" || declined.Checker != "web:binu" {
		s.Errorf("declined: %+v, %v", declined, err)
	}
	withdrawn, err := asha.Withdraw(s.Context(), second.ID, "typed wrongly")
	if err != nil || withdrawn.Status != admin.ProposalWithdrawn || withdrawn.Checker != "web:asha" {
		s.Errorf("withdrawn: %+v, %v", withdrawn, err)
	}
	for _, id := range []int64{first.ID, second.ID, 4711} {
		_, err := binu.Approve(s.Context(), id)
		s.refused("approve what is not open", err)
	}
	s.money("after all", "0", "0")
	if open, err := binu.Proposals(s.Context(), admin.ProposalFilter{Open: true, Limit: 10}); err != nil || len(open) != 0 {
		s.Errorf("open are %+v, %v; want none", open, err)
	}
	all, err := binu.Proposals(s.Context(), admin.ProposalFilter{OperatorID: s.operator.ID, Limit: 10})
	if err != nil || len(all) != 2 || all[0] != withdrawn || all[1] != declined {
		s.Errorf("all are %+v, %v; want the newest first", all, err)
	}
	if others, err := binu.Proposals(s.Context(), admin.ProposalFilter{OperatorID: 4711, Limit: 10}); err != nil || len(others) != 0 {
		s.Errorf("another operator's are %+v, %v", others, err)
	}
}

func referencesOnce(h *harness) {
	s := h.fixture("0")
	asha, binu := s.consoleUser("asha", admin.Finance), s.consoleUser("binu", admin.Finance)
	p := s.proposed("5000", "NEFT-1")
	if again, err := binu.SubmitTopUp(s.Context(), s.paid("5000", "NEFT-1")); err != nil || !again.Already || again.Proposal != p {
		s.Errorf("proposed again: %+v, %v; want the first one", again, err)
	}
	_, err := binu.SubmitTopUp(s.Context(), s.paid("6000", "NEFT-1"))
	s.refused("another amount under the same reference", err)
	_, err = binu.SubmitTopUp(s.Context(), s.paid("500", "NEFT-1"))
	s.refused("a top-up past the proposal", err)
	_, _, err = s.TopUp(s.Context(), staffAction("wallet topup"), s.paid("5000", "NEFT-1"))
	s.refused("a top-up past the proposal, from the command line", err)
	s.money("while it waits", "0", "0")
	_, err = binu.Approve(s.Context(), p.ID)
	s.must(err)
	if known, err := asha.SubmitTopUp(s.Context(), s.paid("5000", "NEFT-1")); err != nil || !known.Already || known.Waits() {
		s.Errorf("proposed when it was credited: %+v, %v; want it known", known, err)
	}
	_, err = asha.SubmitTopUp(s.Context(), s.paid("6000", "NEFT-1"))
	s.refused("another amount under a credited reference", err)
	s.money("after all", "5000", "0")
}

func proposedOnce(h *harness) {
	s := h.fixture("0")
	var first atomic.Int32
	concurrently(8, func(i int) {
		outcome, err := s.consoleUser(name("maker", i), admin.Finance).SubmitTopUp(s.Context(), s.paid("5000", "NEFT-1"))
		if err != nil || !outcome.Waits() {
			s.Errorf("propose: %+v, %v", outcome, err)
		}
		if !outcome.Already {
			first.Add(1)
		}
	})
	if first.Load() != 1 {
		s.Errorf("%d are called the first; want 1", first.Load())
	}
	if open, err := s.Proposals(s.Context(), admin.ProposalFilter{Open: true, Limit: 10}); err != nil || len(open) != 1 {
		s.Errorf("open are %+v, %v; want one", open, err)
	}
}

func approvedAdjustment(h *harness) {
	s := h.fixture("5000")
	outcome, err := s.consoleUser("asha", admin.Finance).SubmitAdjustment(s.Context(), s.operator.ID, rupees("-2000"), "NEFT-7 came twice")
	s.must(err)
	_, err = s.consoleUser("binu", admin.Finance).Approve(s.Context(), outcome.Proposal.ID)
	s.must(err)
	s.money("approved", "3000", "0")
	lines, err := s.LedgerPage(s.Context(), admin.ListQuery{OperatorID: s.operator.ID})
	s.must(err)
	if last := lines[len(lines)-1]; last.Credit || last.Amount != rupees("2000") || last.Description != "Adjustment: NEFT-7 came twice" {
		s.Errorf("the last line is %+v", last)
	}
}

func approvalRefused(h *harness) {
	s := h.fixture("5000")
	s.createLogin("binu", admin.Finance)
	outcome, err := s.consoleUser("asha", admin.Finance).SubmitAdjustment(s.Context(), s.operator.ID, rupees("-4000"), "because")
	s.must(err)
	_, _, err = s.Adjust(s.Context(), staffAction("wallet adjust"), admin.Adjustment{OperatorID: s.operator.ID, Amount: rupees("-4500")})
	s.must(err)
	before := len(s.auditEntries())
	_, err = s.consoleUser("binu", admin.Finance).Approve(s.Context(), outcome.Proposal.ID)
	s.refused("what the wallet no longer has", err)
	s.money("refused", "500", "0")
	if p, err := s.Proposal(s.Context(), outcome.Proposal.ID); err != nil || p.Status != admin.ProposalOpen || len(s.auditEntries()) != before {
		s.Errorf("the proposal is %+v, %v; want it open, and nothing logged", p, err)
	}
}

func settledByTwo(h *harness) {
	s := h.fixture("10000")
	op := s.settle(s.reserve(s.activation("key-1", "9800000001", "100001")), operation.NeedsReview)
	strict := func(name string) *admin.Service {
		s.createLogin(name, admin.Finance)
		return admin.NewService(s.Store, sealer{}, "web:"+name, func() time.Time { return noon.Add(time.Hour) }).
			WithRole(admin.Finance, admin.Limits{ApprovalAbove: rupees("198.99")})
	}
	asha, binu := strict("asha"), strict("binu")
	_, err := asha.SettleReview(s.Context(), op.ID, true, "alone")
	s.refused("settle it alone", err)
	outcome, err := asha.SubmitSettlement(s.Context(), op.ID, true, "the provider says so")
	s.must(err)
	if !outcome.Waits() || outcome.Proposal.Amount != op.Amount {
		s.Fatalf("proposed %+v", outcome)
	}
	_, err = binu.SubmitSettlement(s.Context(), op.ID, false, "I say no")
	s.refused("the contrary of what is proposed", err)
	s.money("while it waits", "9801", "199")
	approved, err := binu.Approve(s.Context(), outcome.Proposal.ID)
	if err != nil || approved.Operation.State != operation.Success {
		s.Errorf("approved %+v, %v", approved, err)
	}
	s.money("approved", "9801", "0")
	history, err := s.OperationHistory(s.Context(), op.ID)
	s.must(err)
	if last := history.Events[len(history.Events)-1]; last.Actor != "web:binu" || last.Why != "the provider says so" {
		s.Errorf("its last event is %+v", last)
	}
	_, err = asha.SubmitSettlement(s.Context(), op.ID, true, "again")
	s.refused("what is no longer in review", err)
	// An operation that review settles meanwhile is not settled again.
	op = s.settle(s.reserve(s.activation("key-2", "9800000002", "100002")), operation.NeedsReview)
	outcome, err = asha.SubmitSettlement(s.Context(), op.ID, false, "not there")
	s.must(err)
	s.settle(op, operation.Success)
	_, err = binu.Approve(s.Context(), outcome.Proposal.ID)
	s.refused("approve what was settled meanwhile", err)
	s.money("after all", "9602", "0")
}

func lapsedProposals(h *harness) {
	s := h.fixture("0")
	p := s.proposed("5000", "NEFT-1")
	just, late := noon.Add(admin.ProposalLifetime-time.Millisecond), noon.Add(admin.ProposalLifetime)
	if open, err := s.consoleUserAt("binu", admin.Finance, just).Proposals(s.Context(), admin.ProposalFilter{Open: true, Limit: 10}); err != nil || len(open) != 1 {
		s.Errorf("just in time: %+v, %v", open, err)
	}
	binu := s.consoleUserAt("binu", admin.Finance, late)
	if open, err := binu.Proposals(s.Context(), admin.ProposalFilter{Open: true, Limit: 10}); err != nil || len(open) != 0 {
		s.Errorf("too late: %+v, %v", open, err)
	}
	_, err := binu.Approve(s.Context(), p.ID)
	s.refused("approve what has lapsed", err)
	// The store checks the lifetime too, not only the service.
	_, err = s.ApproveProposal(s.Context(), admin.Approval{
		Action: admin.StaffAction{Actor: "web:binu", Action: "proposal approve", At: late}, Proposal: p,
		CarryOut: admin.StaffAction{Actor: "web:binu", Action: "wallet topup", At: late},
	})
	s.refused("approve it past the service", err)
	again, err := binu.SubmitTopUp(s.Context(), s.paid("6000", "NEFT-1"))
	if err != nil || !again.Waits() || again.Already || again.Proposal.ID == p.ID {
		s.Errorf("proposed again: %+v, %v", again, err)
	}
	if was, err := s.Proposal(s.Context(), p.ID); err != nil || was.Status != admin.ProposalLapsed || !was.DecidedAt.Equal(late) || was.Checker != "" {
		s.Errorf("the first one is %+v, %v; want it lapsed", was, err)
	}
}
