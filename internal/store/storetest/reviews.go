package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

var reviewTests = []test{
	{"an operation with an expired lease is taken over once", takenOverOnce},
	{"a node that lost an operation to a claim settles nothing", claimedAway},
	{"an operation in review is claimed when it is due", claimedInTime},
	{"claims alternate between operators, within each one's limit", claimsInTurn},
	{"a new node takes over all processing operations", newNodeTakesOver},
	{"a missing add-on is claimed, settled, and closed by a person", addons},
	{"a node that lost an add-on settles nothing, and its reply is recorded", addonClaimedAway},
	{"a refunded operation is checked again, and raises one exception", lateChecks},
	{"a late provider reply is recorded with its exception", lateReply},
	{"a reply to a node that lost the operation is compared with its settlement", answeredBefore},
	{"an add-on confirmed after its closing raises an exception", addonConfirmedLate},
	{"a repeated settlement records its provider calls once", settledAgain},
	{"a person settles only operations in review", personSettles},
}

func claim(now time.Time) operation.Claim {
	return operation.Claim{Now: now, Node: "node-2", Until: now.Add(time.Minute), Limit: 8}
}

func (s *fixture) due(what string, now time.Time, want bool) {
	s.Helper()
	if due, err := s.Due(s.Context(), now); err != nil || due.Any() != want {
		s.Errorf("%s: due %v, %v; want %v", what, due, err, want)
	}
}

func takenOverOnce(h *harness) {
	s := h.fixture("10000")
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	end := op.LeaseUntil
	s.due("before the lease has ended", end.Add(-time.Millisecond), false)
	if early, err := s.ClaimReviews(s.Context(), claim(end.Add(-time.Millisecond))); err != nil || len(early) != 0 {
		s.Errorf("claimed early: %v, %v", early, err)
	}
	s.due("when it has", end, true)
	var claimed atomic.Int32
	concurrently(8, func(int) {
		ops, err := s.ClaimReviews(s.Context(), claim(end))
		if err != nil {
			s.Errorf("claim: %v", err)
		}
		for _, taken := range ops {
			claimed.Add(1)
			if taken.State != operation.NeedsReview || taken.Epoch <= op.Epoch || taken.Node != "node-2" || !taken.ReviewSince.Equal(end) {
				s.Errorf("taken over as %+v", taken)
			}
		}
	})
	if claimed.Load() != 1 {
		s.Errorf("claimed %d times; want once", claimed.Load())
	}
	s.money("in review", "9801", "199")
	history, err := s.OperationHistory(s.Context(), op.ID)
	if err != nil || len(history.Events) != 2 || history.Events[1].To != operation.NeedsReview {
		s.Errorf("its history is %+v, %v", history.Events, err)
	}
}

func claimedAway(h *harness) {
	s := h.fixture("10000")
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	ops, err := s.ClaimReviews(s.Context(), claim(op.LeaseUntil))
	s.must(err)
	// The paused node resumes with its reply.
	for _, to := range []operation.State{operation.Success, operation.Failed, operation.NeedsReview} {
		if now, settled, err := s.Settle(s.Context(), settlement(op, to)); err != nil || settled || now.State != operation.NeedsReview {
			s.Errorf("the sleeper settles as %s: %v, %v", to, settled, err)
		}
	}
	if held, err := s.ExtendLease(s.Context(), op.ID, op.Epoch, noon.Add(time.Hour)); err != nil || held {
		s.Errorf("the sleeper extends its lease: %v, %v", held, err)
	}
	s.settle(ops[0], operation.Success)
	s.money("settled by the other", "9801", "0")
}

func claimedInTime(h *harness) {
	s := h.fixture("10000")
	op := s.settle(s.reserve(s.activation("key-1", "9800000001", "100001")), operation.NeedsReview)
	at := op.NextCheckAt
	s.due("before its time", at.Add(-time.Millisecond), false)
	ops, err := s.ClaimReviews(s.Context(), claim(at))
	s.must(err)
	if len(ops) != 1 || ops[0].Epoch != op.Epoch+1 || ops[0].Checks != 1 || !ops[0].NextCheckAt.Equal(at.Add(time.Minute)) {
		s.Fatalf("claimed %+v", ops)
	}
	s.due("while it is held", at, false)
	p := operation.Postponement{OperationID: op.ID, Epoch: ops[0].Epoch, NextCheckAt: at.Add(time.Hour), NeedsPerson: true, Node: "node-2"}
	for epoch, want := range map[int64]bool{op.Epoch: false, ops[0].Epoch: true} {
		p.Epoch = epoch
		if held, err := s.Postpone(s.Context(), p); err != nil || held != want {
			s.Errorf("postponed with epoch %d: %v, %v; want %v", epoch, held, err, want)
		}
	}
	read, _, err := s.OperationByID(s.Context(), s.operator.ID, op.ID)
	s.must(err)
	if !read.NeedsPerson || !read.NextCheckAt.Equal(at.Add(time.Hour)) {
		s.Errorf("postponed as %+v", read)
	}
	h.reopen()
	s.due("after a restart, before its time", at, false)
	s.due("after a restart, in time", at.Add(time.Hour), true)
}

// claimsInTurn has one operator with six due operations in each queue, and another with
// one that became due after them.
func claimsInTurn(h *harness) {
	s := h.fixture("10000")
	first := s.operator.ID
	other := &fixture{harness: h, operator: h.operator("other"), plan: s.plan, sold: s.sold}
	other.topUp(other.operator, "10000")
	second := other.operator.ID
	for i := range 7 {
		for kind, prepare := range []func(*operation.Settlement){
			func(st *operation.Settlement) { st.To = operation.NeedsReview },
			func(st *operation.Settlement) {
				st.To, st.AddonState, st.AddonNextAt = operation.Success, operation.AddonFailed, noon.Add(time.Duration(i)*time.Second)
			},
			func(st *operation.Settlement) { st.To, st.Reason = operation.Failed, operation.NotConfirmed },
		} {
			owner := s
			if i == 6 {
				owner = other
			}
			n := 10*kind + i
			draft := owner.activation(name("key", n), fmt.Sprintf("98000000%02d", n), fmt.Sprintf("1000%02d", n))
			draft.Addon, draft.AddonState = "OTT-PLUS", operation.AddonWaiting
			st := settlement(owner.reserve(draft), operation.NeedsReview)
			if st.NextCheckAt = noon.Add(time.Duration(i) * time.Second); kind == 1 {
				st.NextCheckAt = time.Time{}
			}
			prepare(&st)
			if _, settled, err := s.Settle(s.Context(), st); err != nil || !settled {
				s.Fatalf("settled %v, %v", settled, err)
			}
		}
	}
	for queue, claims := range map[string]func(context.Context, operation.Claim) ([]operation.Operation, error){
		"reviews": s.ClaimReviews, "add-ons": s.ClaimAddons, "late checks": s.ClaimLateChecks,
	} {
		for _, row := range []struct {
			name               string
			limit, perOperator int
			held               map[int64][]string
			after              int64
			ofFirst, ofSecond  int
		}{
			{"one, behind the first", 1, 2, nil, first, 0, 1},
			{"an operator at its bound", 4, 2, map[int64][]string{first: {"CX-a", "CX-b"}}, 0, 0, 0},
			{"one below its bound", 4, 2, map[int64][]string{first: {"CX-a"}}, second, 1, 0},
			{"one, behind the second", 1, 2, nil, second, 1, 0},
			{"as many as fit", 4, 3, nil, 0, 3, 0},
			{"what is left", 4, 0, nil, 0, 1, 0},
			{"nothing", 4, 0, nil, 0, 0, 0},
		} {
			c := claim(noon.Add(10 * time.Second))
			c.Limit, c.PerOperator, c.Held, c.After = row.limit, row.perOperator, row.held, row.after
			ops, err := claims(s.Context(), c)
			s.must(err)
			count := map[int64]int{}
			for _, op := range ops {
				count[op.OperatorID]++
			}
			if count[first] != row.ofFirst || count[second] != row.ofSecond {
				s.Errorf("%s, %s: claimed %v; want %d of the first operator and %d of the second", queue, row.name, count, row.ofFirst, row.ofSecond)
			}
		}
		// The clock leaps past every lease: operations in progress on this node are not
		// claimed again.
		leapt := claim(noon.Add(24 * time.Hour))
		leapt.Limit, leapt.PerOperator = 3, 4
		inProgress, err := claims(s.Context(), leapt)
		s.must(err)
		leapt.Now, leapt.Until, leapt.Limit, leapt.Held = leapt.Now.Add(24*time.Hour), leapt.Until.Add(24*time.Hour), 8, map[int64][]string{}
		for _, op := range inProgress {
			leapt.Held[op.OperatorID] = append(leapt.Held[op.OperatorID], op.ID)
		}
		others, err := claims(s.Context(), leapt)
		s.must(err)
		if len(inProgress) != 3 || len(others) != 2 {
			s.Errorf("%s: %d in progress, and %d claimed beside them; want 3 and 2, one of either operator", queue, len(inProgress), len(others))
		}
		for _, op := range others {
			if slices.Contains(leapt.Held[op.OperatorID], op.ID) {
				s.Errorf("%s: %s was claimed again while in progress", queue, op.ID)
			}
		}
	}
}

func newNodeTakesOver(h *harness) {
	s := h.fixture("10000")
	for i := range 3 {
		s.reserve(s.activation(name("key", i), fmt.Sprintf("980000000%d", i), fmt.Sprintf("10000%d", i)))
	}
	s.due("while the leases run", noon, false)
	s.must(s.TakeOver(s.Context(), noon))
	ops, err := s.ClaimReviews(s.Context(), claim(noon))
	if err != nil || len(ops) != 3 {
		s.Errorf("taken over: %d, %v; want all three", len(ops), err)
	}
}

func addons(h *harness) {
	s := h.fixture("10000")
	draft := s.activation("key-1", "9800000001", "100001")
	draft.Addon, draft.AddonState = "OTT-PLUS", operation.AddonWaiting
	st := settlement(s.reserve(draft), operation.Success)
	st.AddonState, st.AddonAttempt, st.AddonNextAt = operation.AddonFailed, 1, noon.Add(time.Minute)
	op, _, err := s.Settle(s.Context(), st)
	s.must(err)
	if !op.AddonMissing() || op.AddonAttempt != 1 {
		s.Errorf("settled as %+v", op)
	}
	if early, err := s.ClaimAddons(s.Context(), claim(noon)); err != nil || len(early) != 0 {
		s.Errorf("claimed early: %v, %v", early, err)
	}
	claimed, err := s.ClaimAddons(s.Context(), claim(noon.Add(time.Minute)))
	if err != nil || len(claimed) != 1 {
		s.Fatalf("claimed %v, %v", claimed, err)
	}
	if again, err := s.ClaimAddons(s.Context(), claim(noon.Add(time.Minute))); err != nil || len(again) != 0 {
		s.Errorf("claimed twice: %v, %v", again, err)
	}
	missing, err := s.MissingAddons(s.Context())
	if err != nil || len(missing) != 1 {
		s.Errorf("missing: %v, %v", missing, err)
	}
	if claimed[0].AddonChecks != 1 {
		s.Errorf("claimed as checked %d times; want once", claimed[0].AddonChecks)
	}
	unknown := operation.AddonSettlement{
		OperationID: op.ID, Epoch: claimed[0].AddonEpoch, State: operation.AddonUnknown, Attempt: 1, NextAt: noon.Add(time.Hour), NeedsPerson: true,
	}
	unknown.Calls = []operation.ProviderCall{
		{Reference: op.ID + "-2", What: "status", Component: "OTT-PLUS", AskedAt: noon}, {Reference: op.ID + "-2", What: "activate", Component: "OTT-PLUS", AskedAt: noon},
	}
	s.must(s.SettleAddon(s.Context(), unknown))
	if names, err := s.CustomerNames(s.Context(), []string{op.ID, "CX-none"}); err != nil || len(names) != 1 || names[op.ID] != op.CustomerName {
		s.Errorf("the customers are %v, %v; want %s", names, err, op.CustomerName)
	}
	if calls, err := s.AddonCalls(s.Context(), []string{op.ID, "CX-none"}); err != nil || len(calls) != 1 || calls[op.ID] != 2 {
		s.Errorf("called about the add-on: %v, %v; want 2", calls, err)
	}
	unknown.Calls = nil
	if listed, err := s.MissingAddons(s.Context()); err != nil || len(listed) != 1 || !listed[0].AddonNeedsPerson || listed[0].AddonState != operation.AddonUnknown {
		s.Errorf("listed as %+v, %v; want it for a person", listed, err)
	}
	s.must(s.CloseAddon(s.Context(), staffAction("addon close"), op.ID))
	s.refused("close it again", s.CloseAddon(s.Context(), staffAction("addon close"), op.ID))
	s.refused("close nobody's", s.CloseAddon(s.Context(), staffAction("addon close"), "CX-none"))
	// A node that was following it up when a person closed it changes nothing any more.
	unknown.Attempt, unknown.NextAt = 3, noon
	s.must(s.SettleAddon(s.Context(), unknown))
	read, _, err := s.OperationByID(s.Context(), s.operator.ID, op.ID)
	s.must(err)
	if read.AddonState != operation.AddonClosed || !read.AddonNextAt.IsZero() || !read.AddonMissing() {
		s.Errorf("closed as %+v", read)
	}
	s.due("when it is closed", noon.Add(24*time.Hour), false)
}

// addonClaimedAway has two nodes follow up one add-on; the first was slow.
func addonClaimedAway(h *harness) {
	s := h.fixture("10000")
	for i, row := range []struct {
		name  string
		now   operation.AddonState // how the second node or a person leaves it
		says  operation.AddonState // the provider's reply to the first node
		first bool                 // the first node gets its reply before
		want  []operation.ExceptionKind
	}{
		{"unknown, then confirmed", operation.AddonUnknown, operation.AddonSuccess, false, nil},
		{"confirmed twice", operation.AddonSuccess, operation.AddonSuccess, false, nil},
		{"confirmed, then unknown", operation.AddonSuccess, operation.AddonUnknown, false, nil},
		{"confirmed, then rejected", operation.AddonSuccess, operation.AddonFailed, false, []operation.ExceptionKind{operation.AddonContradiction}},
		{"closed, then confirmed", operation.AddonClosed, operation.AddonSuccess, false, []operation.ExceptionKind{operation.AddonContradiction}},
		{"confirmed to the first, then closed", operation.AddonClosed, operation.AddonSuccess, true, []operation.ExceptionKind{operation.AddonContradiction}},
		{"closed, then rejected", operation.AddonClosed, operation.AddonFailed, false, nil},
		{"confirmed to the first, then rejected", operation.AddonFailed, operation.AddonSuccess, true, []operation.ExceptionKind{operation.AddonContradiction}},
	} {
		draft := s.activation(name("key", i), fmt.Sprintf("980000000%d", i), fmt.Sprintf("10000%d", i))
		draft.Addon, draft.AddonState = "OTT-PLUS", operation.AddonWaiting
		st := settlement(s.reserve(draft), operation.Success)
		st.AddonState, st.AddonNextAt = operation.AddonUnknown, noon
		op, _, err := s.Settle(s.Context(), st)
		s.must(err)
		var settlements []operation.AddonSettlement
		for node, at := range []time.Time{noon, noon.Add(time.Minute)} {
			claimed, err := s.ClaimAddons(s.Context(), claim(at))
			if err != nil || len(claimed) != 1 {
				s.Fatalf("%s: claimed %v, %v", row.name, claimed, err)
			}
			settlements = append(settlements, operation.AddonSettlement{
				OperationID: op.ID, Epoch: claimed[0].AddonEpoch, At: at, Node: name("node", node),
				Calls: []operation.ProviderCall{{Reference: op.ID + "-2", What: "status", AskedAt: at, AnsweredAt: at}},
			})
		}
		say := func(node int, state operation.AddonState) {
			a := settlements[node]
			switch a.State = state; state {
			case operation.AddonSuccess:
				a.Calls[0].Reply.Outcome = operation.Confirmed
			case operation.AddonFailed:
				a.Calls[0].Reply.Outcome, a.Attempt = operation.Rejected, 1
			default:
				a.NextAt = noon.Add(24 * time.Hour)
			}
			s.must(s.SettleAddon(s.Context(), a))
		}
		if row.first {
			say(0, row.says)
		}
		if row.now == operation.AddonClosed {
			s.must(s.CloseAddon(s.Context(), staffAction("addon close"), op.ID))
		} else {
			say(1, row.now)
		}
		if !row.first {
			say(0, row.says)
		}
		read, _, err := s.OperationByID(s.Context(), s.operator.ID, op.ID)
		s.must(err)
		rejections := 0
		if row.now == operation.AddonFailed {
			rejections = 1
		}
		if read.AddonState != row.now || read.AddonAttempt != rejections {
			s.Errorf("%s: the add-on is %s after %d rejections; want it %s after %d", row.name, read.AddonState, read.AddonAttempt, row.now, rejections)
		}
		if kinds := s.exceptionsOf(op.ID); fmt.Sprint(kinds) != fmt.Sprint(row.want) {
			s.Errorf("%s: exceptions %v; want %v", row.name, kinds, row.want)
		}
	}
}

func lateChecks(h *harness) {
	s := h.fixture("10000")
	st := settlement(s.reserve(s.activation("key-1", "9800000001", "100001")), operation.Failed)
	st.NextCheckAt = noon.Add(time.Minute)
	op, _, err := s.Settle(s.Context(), st)
	s.must(err)
	claimed, err := s.ClaimLateChecks(s.Context(), claim(noon.Add(time.Minute)))
	if err != nil || len(claimed) != 1 || claimed[0].ID != op.ID || claimed[0].State != operation.Failed {
		s.Fatalf("claimed %v, %v", claimed, err)
	}
	stale := operation.LateCheck{OperationID: op.ID, Check: claimed[0].Checks, NextAt: noon.Add(time.Hour), Node: "node-1", Calls: []operation.ProviderCall{
		{Reference: op.ID, What: "void", Reply: operation.Reply{Mismatch: true, Detail: "of another"}, AskedAt: noon, AnsweredAt: noon},
	}}
	again, err := s.ClaimLateChecks(s.Context(), claim(noon.Add(2*time.Minute)))
	if err != nil || len(again) != 1 || again[0].Checks != 2 {
		s.Fatalf("claimed again %v, %v", again, err)
	}
	check := operation.LateCheck{
		OperationID: op.ID, Check: again[0].Checks, Node: "node-2",
		Calls: []operation.ProviderCall{
			{Reference: op.ID, What: "void", Reply: operation.Reply{Outcome: operation.Confirmed, Transaction: "P-late"}, AskedAt: noon, AnsweredAt: noon},
		},
		Exception: &operation.Exception{OperationID: op.ID, Kind: operation.LateSuccess, Detail: "it was", At: noon},
	}
	for range 3 {
		s.must(s.CloseLateCheck(s.Context(), check))
	}
	// A node that lost the check to another postpones nothing, and its reply is
	// recorded.
	s.must(s.CloseLateCheck(s.Context(), stale))
	s.due("when the asking is over", noon.Add(24*time.Hour), false)
	history, err := s.OperationHistory(s.Context(), op.ID)
	s.must(err)
	if kinds := s.exceptionsOf(op.ID); fmt.Sprint(kinds) != "[LATE_SUCCESS WRONG_ANSWER]" || len(history.Calls) != 5 || history.Calls[1].What != "void" {
		s.Errorf("exceptions %v with the calls %+v; want both kinds, and every void", kinds, history.Calls)
	}
	entries, err := s.Exceptions(s.Context(), false)
	if err != nil || len(entries) != 2 || entries[0].TransactionID != op.ID {
		s.Fatalf("exceptions %+v, %v; want two", entries, err)
	}
	s.must(s.CloseException(s.Context(), staffAction("exception close"), entries[0].ID))
	s.refused("close it again", s.CloseException(s.Context(), staffAction("exception close"), entries[0].ID))
	s.refused("close nobody's", s.CloseException(s.Context(), staffAction("exception close"), 4711))
	open, err := s.Exceptions(s.Context(), false)
	s.must(err)
	all, err := s.Exceptions(s.Context(), true)
	if err != nil || len(open) != 1 || len(all) != 2 || all[0].ClosedBy != "test:asha" || all[0].CloseReason != "because" {
		s.Errorf("open %v, all %+v, %v", open, all, err)
	}
	s.money("all along", "10000", "0")
}

// exceptionsOf returns the kinds of an operation's open exceptions.
func (s *fixture) exceptionsOf(id string) (kinds []operation.ExceptionKind) {
	s.Helper()
	entries, err := s.Exceptions(s.Context(), false)
	s.must(err)
	for _, e := range entries {
		if e.TransactionID == id {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// answered returns a settlement with a definite provider reply.
func answered(op operation.Operation, to operation.State, transaction string) operation.Settlement {
	st := settlement(op, to)
	st.ProviderTransaction, st.Calls[0].Reply.Transaction = transaction, transaction
	st.Calls[0].Reply.Outcome = map[operation.State]operation.Outcome{operation.Success: operation.Confirmed, operation.Failed: operation.Rejected}[to]
	return st
}

func lateReply(h *harness) {
	s := h.fixture("10000")
	for i, row := range []struct {
		name     string
		settled  operation.State
		as       string
		says     operation.State // what the provider's late answer would settle
		saysAs   string
		want     []operation.ExceptionKind
		byPerson bool
	}{
		{name: "refunded, then confirmed", settled: operation.Failed, says: operation.Success, saysAs: "P-late", want: []operation.ExceptionKind{operation.LateSuccess}},
		{name: "confirmed, then rejected", settled: operation.Success, as: "P-1", says: operation.Failed, want: []operation.ExceptionKind{operation.RejectedAfterSuccess}},
		{name: "confirmed by a person, then rejected", settled: operation.Success, byPerson: true, says: operation.Failed, want: []operation.ExceptionKind{operation.RejectedAfterSuccess}},
		{name: "refunded by a person, then confirmed", settled: operation.Failed, byPerson: true, says: operation.Success, saysAs: "P-late", want: []operation.ExceptionKind{operation.LateSuccess}},
		{name: "settled under another number", settled: operation.Success, as: "P-1", says: operation.Success, saysAs: "P-late", want: []operation.ExceptionKind{operation.DuplicateEffect}},
		{name: "settled alike", settled: operation.Success, as: "P-1", says: operation.Success, saysAs: "P-1"},
		{name: "refunded, then rejected", settled: operation.Failed, says: operation.Failed},
		{name: "confirmed, then unknown", settled: operation.Success, as: "P-1", says: operation.NeedsReview},
	} {
		op := s.reserve(s.activation(name("key", i), fmt.Sprintf("980000000%d", i), fmt.Sprintf("10000%d", i)))
		claimed, err := s.ClaimReviews(s.Context(), claim(op.LeaseUntil))
		s.must(err)
		if row.byPerson {
			st := operation.Settlement{OperationID: op.ID, To: row.settled, At: noon.Add(time.Minute), Actor: "test:asha", Why: "because"}
			if row.settled == operation.Failed {
				st.Reason = operation.RejectedByReview
			}
			_, err = s.SettleReview(s.Context(), staffAction("review settle"), st)
		} else {
			_, _, err = s.Settle(s.Context(), answered(claimed[0], row.settled, row.as))
		}
		s.must(err)
		late := answered(op, row.says, row.saysAs)
		// Twice, as when the first reply of the store is lost.
		for range 2 {
			if now, settled, err := s.Settle(s.Context(), late); err != nil || settled || now.State != row.settled {
				s.Fatalf("%s: settled %v as %s, %v", row.name, settled, now.State, err)
			}
		}
		if kinds := s.exceptionsOf(op.ID); fmt.Sprint(kinds) != fmt.Sprint(row.want) {
			s.Errorf("%s: exceptions %v; want %v", row.name, kinds, row.want)
		}
		history, err := s.OperationHistory(s.Context(), op.ID)
		s.must(err)
		if last := history.Calls[len(history.Calls)-1]; last.Outcome != late.Calls[0].Reply.Outcome.String() {
			s.Errorf("%s: the last call that is kept says %s; want %s", row.name, last.Outcome, late.Calls[0].Reply.Outcome)
		}
	}
}

// addonConfirmedLate has a node lose its lease after the provider confirmed both
// components. Meanwhile review settles the operation, and a person closes the add-on.
func addonConfirmedLate(h *harness) {
	s := h.fixture("10000")
	draft := s.activation("key-1", "9800000001", "100001")
	draft.Addon, draft.AddonState = "OTT-PLUS", operation.AddonWaiting
	op := s.reserve(draft)
	claimed, err := s.ClaimReviews(s.Context(), claim(op.LeaseUntil))
	s.must(err)
	st := answered(claimed[0], operation.Success, "P-1")
	st.AddonState, st.AddonNextAt = operation.AddonUnknown, noon.Add(time.Hour)
	_, _, err = s.Settle(s.Context(), st)
	s.must(err)
	s.must(s.CloseAddon(s.Context(), staffAction("addon close"), op.ID))
	late := answered(op, operation.Success, "P-1")
	late.AddonState = operation.AddonSuccess
	late.Calls = append(late.Calls, operation.ProviderCall{
		Reference: op.ID + "-2", What: "activate", Reply: operation.Reply{Outcome: operation.Confirmed}, AskedAt: noon, AnsweredAt: noon,
	})
	if now, settled, err := s.Settle(s.Context(), late); err != nil || settled || now.AddonState != operation.AddonClosed {
		s.Errorf("settled %v with the add-on %s, %v", settled, now.AddonState, err)
	}
	if kinds := s.exceptionsOf(op.ID); fmt.Sprint(kinds) != fmt.Sprint([]operation.ExceptionKind{operation.AddonContradiction}) {
		s.Errorf("exceptions %v; want %s", kinds, operation.AddonContradiction)
	}
}

// answeredBefore has a node receive a definite provider reply after it lost the
// operation to review. The reply is compared with what review or a person settles.
func answeredBefore(h *harness) {
	s := h.fixture("10000")
	for i, row := range []struct {
		name     string
		says     operation.State
		to       operation.State
		byPerson bool
		want     []operation.ExceptionKind
	}{
		{"rejected, then confirmed", operation.Failed, operation.Success, false, []operation.ExceptionKind{operation.RejectedAfterSuccess}},
		{"rejected, then confirmed by a person", operation.Failed, operation.Success, true, []operation.ExceptionKind{operation.RejectedAfterSuccess}},
		{"confirmed, then voided", operation.Success, operation.Failed, false, []operation.ExceptionKind{operation.LateSuccess}},
		{"confirmed, then refunded by a person", operation.Success, operation.Failed, true, []operation.ExceptionKind{operation.LateSuccess}},
		{"confirmed under another number", operation.Success, operation.Success, false, []operation.ExceptionKind{operation.DuplicateEffect}},
		{"confirmed, then confirmed by a person", operation.Success, operation.Success, true, nil},
		{"rejected twice", operation.Failed, operation.Failed, false, nil},
	} {
		op := s.reserve(s.activation(name("key", i), fmt.Sprintf("980000000%d", i), fmt.Sprintf("10000%d", i)))
		claimed, err := s.ClaimReviews(s.Context(), claim(op.LeaseUntil))
		s.must(err)
		if now, settled, err := s.Settle(s.Context(), answered(op, row.says, "P-before")); err != nil || settled || now.State != operation.NeedsReview {
			s.Fatalf("%s: settled %v as %s, %v", row.name, settled, now.State, err)
		}
		if row.byPerson {
			st := operation.Settlement{OperationID: op.ID, To: row.to, At: noon.Add(time.Minute), Actor: "test:asha", Why: "because"}
			if row.to == operation.Failed {
				st.Reason = operation.RejectedByReview
			}
			_, err = s.SettleReview(s.Context(), staffAction("review settle"), st)
		} else {
			_, _, err = s.Settle(s.Context(), answered(claimed[0], row.to, "P-after"))
		}
		s.must(err)
		if kinds := s.exceptionsOf(op.ID); fmt.Sprint(kinds) != fmt.Sprint(row.want) {
			s.Errorf("%s: exceptions %v; want %v", row.name, kinds, row.want)
		}
	}
}

func settledAgain(h *harness) {
	s := h.fixture("10000")
	for i, to := range []operation.State{operation.Success, operation.Failed, operation.NeedsReview} {
		op := s.reserve(s.activation(name("key", i), fmt.Sprintf("980000000%d", i), fmt.Sprintf("10000%d", i)))
		s.settle(op, to)
		if now, settled, err := s.Settle(s.Context(), settlement(op, to)); err != nil || settled || now.State != to {
			s.Errorf("%s again: %s, %v, %v", to, now.State, settled, err)
		}
		history, err := s.OperationHistory(s.Context(), op.ID)
		if err != nil || len(history.Calls) != 1 || len(history.Events) != 2 {
			s.Errorf("%s: %d calls and %d events, %v; want 1 and 2", to, len(history.Calls), len(history.Events), err)
		}
	}
}

func personSettles(h *harness) {
	s := h.fixture("10000")
	decide := func(id string, to operation.State) (operation.Operation, error) {
		st := operation.Settlement{OperationID: id, To: to, At: noon.Add(time.Minute), Actor: "test:asha", Why: "because"}
		if to == operation.Failed {
			st.Reason, st.ProviderMessage = operation.RejectedByReview, "No."
		}
		return s.SettleReview(s.Context(), staffAction("review settle"), st)
	}
	processing := s.reserve(s.activation("key-0", "9800000000", "100000"))
	_, err := decide(processing.ID, operation.Success)
	s.refused("one that is processing", err)
	_, err = decide("CX-none", operation.Success)
	s.refused("nobody's", err)
	s.settle(processing, operation.Failed)
	_, err = decide(processing.ID, operation.Success)
	s.refused("one that has failed", err)

	auditEntries := len(s.auditEntries())
	for i, to := range []operation.State{operation.Success, operation.Failed} {
		op := s.settle(s.reserve(s.activation(name("key", i+1), fmt.Sprintf("981000000%d", i), fmt.Sprintf("11000%d", i))), operation.NeedsReview)
		held, err := s.ClaimReviews(s.Context(), claim(op.NextCheckAt))
		if err != nil || len(held) != 1 {
			s.Fatalf("held %v, %v", held, err)
		}
		decided, err := decide(op.ID, to)
		s.must(err)
		if decided.State != to {
			s.Errorf("decided as %s; want %s", decided.State, to)
		}
		// A node that was querying the provider finds it settled.
		if _, settled, err := s.Settle(s.Context(), settlement(held[0], operation.Success)); err != nil || settled {
			s.Errorf("settled over a person's decision: %v, %v", settled, err)
		}
	}
	s.money("one charged, one refunded", "9801", "0")
	if logged := s.auditEntries()[auditEntries:]; len(logged) != 2 || logged[0].Action != "review settle" || logged[0].Reason != "because" {
		s.Errorf("logged %+v", logged)
	}
}
