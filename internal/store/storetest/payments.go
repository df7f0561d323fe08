package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
)

var paymentTests = []test{
	{"a top-up credits the announcement of its reference, and names it", announcementCredited},
	{"a top-up of another operator leaves the announcement open", announcementOfAnother},
	{"announced again, a payment is the same announcement", announcedAgain},
	{"a reference is announced once, and not after it was credited", announcedReference},
	{"of many operators announcing one reference concurrently one does", announcementRace},
	{"announced and credited concurrently, a payment never stays open", announcementCreditRace},
	{"a rejection has a reason and frees the reference", announcementRejected},
	{"a proposed top-up keeps the announcement from being closed", announcementProposed},
	{"suspended and deleted operators announce nothing", announcementSuspended},
	{"an operator has a limited number of open announcements", announcementLimit},
	{"a statement uploaded again is known, and stores only new lines", statementTwice},
	{"a line is matched once, and free again after a rejection", lineMatched},
	{"a line found by the code is credited under the bank's reference", lineMatchedByCode},
	{"a line whose reference another payment has is left alone", lineOfAnother},
	{"a payment of two references is credited under one of them, whichever it is", twoReferences},
	{"of the two references of a payment, credited concurrently, one is", twoReferencesRace},
	{"a top-up and the match of its announcement, concurrently, credit once", matchRace},
	{"a payment of two references waits for approval once", twoReferencesProposed},
	{"a line that was credited by hand is done, and its announcement cannot be credited", creditedLineMatched},
	{"a payment that was credited under its own reference is not credited under its line's", creditedAnnouncementMatched},
	{"a second statement with the same lines, uploaded concurrently, counts none", statementRace},
	{"a line shows the credit or proposal of its reference", lineCredited},
	{"old lines without an announcement are removed", oldLinesRemoved},
	{"columns are kept by header", columnsKept},
	{"a payment is found by its code and the bank's reference, in any spelling", paymentSearch},
}

func announcement(operatorID int64, code, amount, reference string) admin.Announcement {
	return admin.Announcement{
		OperatorID: operatorID, Code: code, Amount: rupees(amount), Method: admin.MethodUPI, Reference: reference,
		PaidOn: paymentDay, Note: "from the counter", Actor: "web:ravi", At: noon, State: admin.Announced,
	}
}

// paymentDay is the day before noon.
var paymentDay = time.Date(2027, 2, 28, 0, 0, 0, 0, subscription.IST)

// announceLimit is as many as no test announces.
const announceLimit = 50

func (h *harness) tryAnnounce(operatorID int64, code, amount, reference string) (admin.Announcement, bool, error) {
	action := staffAction(admin.PaymentAnnounce)
	action.OperatorScope = operatorID
	return h.Announce(h.Context(), action, announcement(operatorID, code, amount, reference), announceLimit)
}

func (h *harness) announce(operatorID int64, code, amount, reference string) admin.Announcement {
	h.Helper()
	made, known, err := h.tryAnnounce(operatorID, code, amount, reference)
	h.must(err)
	if known {
		h.Fatalf("%s was announced before", reference)
	}
	return made
}

// announced reads an announcement and checks its state.
func (h *harness) announced(id int64, want admin.AnnouncementState) admin.Announcement {
	h.Helper()
	a, err := h.Announcement(h.Context(), id)
	h.must(err)
	if a = a.AsOf(noon); a.State != want {
		h.Errorf("announcement %d is %q; want %q", id, a.State, want)
	}
	return a
}

func announcementCredited(h *harness) {
	one := h.operator("one")
	a := h.announce(one.ID, "CXP222222", "5000", "631245678901")
	if want := announcement(one.ID, "CXP222222", "5000", "631245678901"); a.ID == 0 || a.Note != want.Note || !a.PaidOn.Equal(want.PaidOn) || a.Method != want.Method || a.Actor != want.Actor {
		h.Errorf("stored as %+v; want %+v", a, want)
	}
	if count, sum, err := h.OpenAnnouncements(h.Context(), one.ID); err != nil || count != 1 || sum != rupees("5000") {
		h.Errorf("open: %d, %s, %v", count, sum, err)
	}
	h.balance(one.ID, "0") // an announcement moves nothing
	h.reopen()
	if credited, err := h.credit(one.ID, "4999", "6312-4567 8901"); err != nil || !credited {
		h.Fatalf("credited %v, %v", credited, err)
	}
	a = h.announced(a.ID, admin.Credited)
	if a.Credited != rupees("4999") || a.DecidedBy != "test:asha" || !a.DecidedAt.Equal(noon) {
		h.Errorf("credited as %+v", a)
	}
	h.balance(one.ID, "4999")
	entries, err := h.FindAuditEntries(h.Context(), admin.AuditQuery{Action: string(admin.WalletTopUp), Limit: 1})
	h.must(err)
	if len(entries) != 1 || !strings.Contains(entries[0].After, `"announcement":"CXP222222"`) {
		h.Errorf("the top-up's entry does not name the announcement: %+v", entries)
	}
	if count, _, err := h.OpenAnnouncements(h.Context(), 0); err != nil || count != 0 {
		h.Errorf("%d are open, %v; want none", count, err)
	}
	// Repeated, the top-up changes nothing.
	if credited, err := h.credit(one.ID, "4999", "631245678901"); err != nil || credited {
		h.Errorf("again: credited %v, %v", credited, err)
	}
	_, err = h.CloseAnnouncement(h.Context(), staffAction("payment reject"), a.ID, admin.Rejected)
	h.refusedNaming("rejecting what is credited", err, "already been processed")
}

func announcementOfAnother(h *harness) {
	one, two := h.operator("one"), h.operator("two")
	a := h.announce(one.ID, "CXP222222", "5000", "631245678901")
	if credited, err := h.credit(two.ID, "5000", "631245678901"); err != nil || !credited {
		h.Fatalf("credited %v, %v", credited, err)
	}
	h.announced(a.ID, admin.Announced)
	h.balance(one.ID, "0")
}

func announcedAgain(h *harness) {
	one := h.operator("one")
	a := h.announce(one.ID, "CXP222222", "5000", "631245678901")
	again, known, err := h.tryAnnounce(one.ID, "CXP333333", "5000", "6312 45678901")
	if err != nil || !known || again.ID != a.ID {
		h.Errorf("again: %+v, known %v, %v; want announcement %d", again, known, err, a.ID)
	}
	_, _, err = h.tryAnnounce(one.ID, "CXP333333", "5001", "631245678901")
	h.refusedNaming("another amount", err, "announced already")
	if _, _, err := h.tryAnnounce(one.ID, "CXP222222", "70", "631245678902"); !errors.Is(err, admin.ErrCodeTaken) {
		h.Errorf("the code of another: %v; want ErrCodeTaken", err)
	}
}

func announcedReference(h *harness) {
	one, two := h.operator("one"), h.operator("two")
	a := h.announce(one.ID, "CXP222222", "5000", "631245678901")
	_, _, err := h.tryAnnounce(two.ID, "CXP333333", "5000", "631245678901")
	h.refusedNaming("another operator's", err, "announced already")
	if strings.Contains(err.Error(), "one") {
		h.Errorf("an operator is told another one's name: %v", err)
	}
	if _, err := h.credit(two.ID, "10", "NEFT-7777"); err != nil {
		h.Fatal(err)
	}
	_, _, err = h.tryAnnounce(one.ID, "CXP333333", "10", "neft7777")
	h.refusedNaming("a credited reference", err, "credited already")
	if _, err := h.credit(one.ID, "5000", "631245678901"); err != nil {
		h.Fatal(err)
	}
	h.announced(a.ID, admin.Credited)
	_, _, err = h.tryAnnounce(one.ID, "CXP333333", "5000", "631245678901")
	h.refusedNaming("its own, which is credited", err, "credited already")
}

func announcementRace(h *harness) {
	var operators []int64
	for i := range 8 {
		operators = append(operators, h.operator(name("op", i)).ID)
	}
	var made atomic.Int64
	concurrently(len(operators), func(i int) {
		_, known, err := h.tryAnnounce(operators[i], fmt.Sprintf("CXP22222%d", i+2), "5000", "631245678901")
		switch {
		case err == nil && !known:
			made.Add(1)
		case err == nil:
			h.Errorf("operator %d: announced before", operators[i])
		default:
			h.refused("another one", err)
		}
	})
	if made.Load() != 1 {
		h.Errorf("%d operators announced it; want 1", made.Load())
	}
}

func announcementCreditRace(h *harness) {
	one := h.operator("one")
	for i := range 10 {
		reference := fmt.Sprintf("6312456789%02d", i)
		concurrently(2, func(which int) {
			if which == 0 {
				if _, err := h.credit(one.ID, "10", reference); err != nil {
					h.Errorf("credit %s: %v", reference, err)
				}
				return
			}
			if _, _, err := h.tryAnnounce(one.ID, fmt.Sprintf("CXP22222%c", 'A'+i), "10", reference); err != nil {
				h.refused("announced after the credit", err)
			}
		})
	}
	if count, _, err := h.OpenAnnouncements(h.Context(), one.ID); err != nil || count != 0 {
		h.Errorf("%d credited payments are open as announced, %v", count, err)
	}
	h.balance(one.ID, "100")
}

func announcementRejected(h *harness) {
	one, two := h.operator("one"), h.operator("two")
	a := h.announce(one.ID, "CXP222222", "5000", "631245678901")
	action := staffAction("payment reject")
	action.Reason = "no such money came in"
	closed, err := h.CloseAnnouncement(h.Context(), action, a.ID, admin.Rejected)
	h.must(err)
	if closed.State != admin.Rejected || closed.Answer != action.Reason || closed.DecidedBy != action.Actor {
		h.Errorf("rejected as %+v", closed)
	}
	_, err = h.CloseAnnouncement(h.Context(), action, a.ID, admin.Rejected)
	h.refused("rejecting it twice", err)
	_, err = h.CloseAnnouncement(h.Context(), action, 4711, admin.Rejected)
	h.refusedNaming("rejecting none", err, "no announced payment 4711")
	second := h.announce(two.ID, "CXP333333", "5000", "631245678901")
	own := staffAction(admin.PaymentWithdraw)
	own.OperatorScope = one.ID
	if _, err := h.CloseAnnouncement(h.Context(), own, second.ID, admin.Withdrawn); err == nil {
		h.Error("an operator withdrew another's announcement")
	}
	h.announced(second.ID, admin.Announced)
	// A top-up under the reference of a rejected announcement leaves that rejected.
	if _, err := h.credit(one.ID, "5000", "631245678901"); err != nil {
		h.Fatal(err)
	}
	h.announced(a.ID, admin.Rejected)
}

func announcementProposed(h *harness) {
	one := h.operator("one")
	a := h.announce(one.ID, "CXP222222", "5000", "631245678901")
	action := staffAction("proposal make")
	action.Actor = "web:asha"
	p, _, err := h.Propose(h.Context(), action, admin.Proposal{
		Kind: admin.ProposedTopUp, OperatorID: one.ID, Amount: rupees("5000"), Reference: "631245678901", Maker: action.Actor, MadeAt: noon, Status: admin.ProposalOpen,
	})
	h.must(err)
	if got := h.announced(a.ID, admin.Waiting); got.Proposal != p.ID {
		h.Errorf("it waits for proposal %d; want %d", got.Proposal, p.ID)
	}
	_, err = h.CloseAnnouncement(h.Context(), staffAction("payment reject"), a.ID, admin.Rejected)
	h.refusedNaming("rejecting what is proposed", err, "second approval")
	decline := staffAction("proposal decline")
	decline.Actor = "web:ravi"
	_, err = h.DismissProposal(h.Context(), decline, p.ID, admin.ProposalDeclined)
	h.must(err)
	h.announced(a.ID, admin.Announced)
}

func announcementSuspended(h *harness) {
	one := h.operator("one")
	a := h.announce(one.ID, "CXP222222", "5000", "631245678901")
	status := subscription.OperatorInactive
	_, err := h.ChangeOperator(h.Context(), staffAction("lco set"), one.ID, admin.OperatorChange{Status: &status})
	h.must(err)
	_, _, err = h.tryAnnounce(one.ID, "CXP333333", "5000", "631245678902")
	h.refusedNaming("a suspended operator", err, "suspended")
	withdraw := staffAction(admin.PaymentWithdraw)
	withdraw.OperatorScope = one.ID
	_, err = h.CloseAnnouncement(h.Context(), withdraw, a.ID, admin.Withdrawn)
	h.refusedNaming("a suspended operator withdraws", err, "suspended")
	h.must(h.DeleteOperator(h.Context(), staffAction("lco delete"), one.ID))
	_, _, err = h.tryAnnounce(one.ID, "CXP333333", "5000", "631245678902")
	h.refusedNaming("a deleted operator", err, "deleted")
}

func announcementLimit(h *harness) {
	one := h.operator("one")
	for i := range 3 {
		_, _, err := h.Announce(h.Context(), staffAction(admin.PaymentAnnounce), announcement(one.ID, fmt.Sprintf("CXP22222%d", i+2), "10", fmt.Sprintf("63124567890%d", i)), 3)
		h.must(err)
	}
	_, _, err := h.Announce(h.Context(), staffAction(admin.PaymentAnnounce), announcement(one.ID, "CXP333333", "10", "631245678999"), 3)
	h.refusedNaming("one more", err, "3 announced payments are open")
	var listed []int64
	for before := int64(0); ; {
		some, err := h.Announcements(h.Context(), admin.AnnouncementFilter{OperatorID: one.ID, Open: true, Before: before, Limit: 2})
		h.must(err)
		for _, a := range some {
			listed = append(listed, a.ID)
			before = a.ID
		}
		if len(some) < 2 {
			break
		}
	}
	if len(listed) != 3 || listed[0] < listed[1] || listed[1] < listed[2] {
		h.Errorf("listed %v; want three, newest first", listed)
	}
}

// bankLine is a line of a statement.
func bankLine(number int, amount, reference, narration string) admin.BankLine {
	return admin.BankLine{
		Number: number, PaidOn: paymentDay, Amount: rupees(amount), Reference: reference, Narration: narration, Key: fmt.Sprintf("%064s", narration+amount),
	}
}

func (h *harness) upload(lines ...admin.BankLine) (admin.BankStatement, bool) {
	h.Helper()
	stored, known, err := h.ImportStatement(h.Context(), staffAction("payment statement"),
		admin.BankStatement{FileName: "november.csv", Actor: "test:asha", At: noon, Debits: 2, Skipped: 1, Columns: `{"date":0}`}, "header", lines, noon.Add(-admin.LinesKept))
	h.must(err)
	return stored, known
}

func statementTwice(h *harness) {
	var lines []admin.BankLine
	for i := range 450 { // several commits
		lines = append(lines, bankLine(i+1, "10", fmt.Sprintf("BANK-%d", i), fmt.Sprintf("CASH %d", i)))
	}
	first, known := h.upload(lines...)
	if known || first.ID == 0 || first.Credits != 450 || first.Known != 0 || first.Debits != 2 {
		h.Errorf("stored as %+v, known %v", first, known)
	}
	h.reopen()
	again, known := h.upload(lines...)
	if !known || again.ID != first.ID {
		h.Errorf("again: %+v, known %v; want statement %d", again, known, first.ID)
	}
	more, known := h.upload(append(lines[440:], bankLine(11, "7", "BANK-new", "CASH new"))...)
	if known || more.Credits != 1 || more.Known != 10 {
		h.Errorf("with one more: %+v, known %v; want one new line and ten known", more, known)
	}
	stored, err := h.BankLines(h.Context(), more.ID)
	if err != nil || len(stored) != 1 || stored[0].Narration != "CASH new" || stored[0].Number != 11 || !stored[0].PaidOn.Equal(paymentDay) || stored[0].Amount != rupees("7") {
		h.Errorf("its lines are %+v, %v", stored, err)
	}
	if all, err := h.BankStatements(h.Context(), 10); err != nil || len(all) != 2 || all[0].ID != more.ID {
		h.Errorf("statements: %+v, %v", all, err)
	}
	_, err = h.BankStatement(h.Context(), 4711)
	h.refused("no such statement", err)
}

func lineMatched(h *harness) {
	one := h.operator("one")
	a := h.announce(one.ID, "CXP222222", "5000", "631245678901")
	statement, _ := h.upload(bankLine(1, "5000", "631245678901", "UPI/631245678901"), bankLine(2, "5000", "631245678901", "UPI/631245678901/AGAIN"))
	for _, number := range []int{1, 2} {
		h.must(h.MatchLines(h.Context(), []admin.Match{{Statement: statement.ID, Number: number, Announcement: a.ID}}))
	}
	h.announced(a.ID, admin.Matched)
	lines, err := h.LinesOfAnnouncement(h.Context(), a.ID)
	if err != nil || len(lines) != 1 || lines[0].Number != 1 || lines[0].Announcement.ID != a.ID || lines[0].Kind(noon) != admin.ExactLine {
		h.Errorf("its lines are %+v, %v; want the first", lines, err)
	}
	if free, err := h.UnmatchedLines(h.Context(), 10); err != nil || len(free) != 1 || free[0].Number != 2 {
		h.Errorf("unmatched: %+v, %v; want the second", free, err)
	}
	reject := staffAction("payment reject")
	_, err = h.CloseAnnouncement(h.Context(), reject, a.ID, admin.Rejected)
	h.must(err)
	if free, err := h.UnmatchedLines(h.Context(), 10); err != nil || len(free) != 2 {
		h.Errorf("after the rejection %d lines are unmatched, %v; want 2", len(free), err)
	}
	// A match that comes after the rejection does nothing.
	h.must(h.MatchLines(h.Context(), []admin.Match{{Statement: statement.ID, Number: 1, Announcement: a.ID}}))
	h.announced(a.ID, admin.Rejected)
	if free, err := h.UnmatchedLines(h.Context(), 10); err != nil || len(free) != 2 {
		h.Errorf("after a late match %d lines are unmatched, %v; want 2", len(free), err)
	}
}

func lineMatchedByCode(h *harness) {
	one := h.operator("one")
	a := h.announce(one.ID, "CXP222222", "5000", "631245678901")
	b := h.announce(one.ID, "CXP333333", "70", "631245678902")
	statement, _ := h.upload(bankLine(1, "5000", "631277777777", "UPI/631277777777/CXP222222"), bankLine(2, "70", "BANK-ABC", "CASH CXP333333"))
	h.match(statement, 1, a)
	h.match(statement, 2, b)
	if got := h.announced(a.ID, admin.Matched); got.Reference != "631245678901" || got.TopUpReference() != "631277777777" {
		h.Errorf("typed as %q, it is credited under %q; want the bank's reference", got.Reference, got.TopUpReference())
	}
	if got := h.announced(b.ID, admin.Matched); got.TopUpReference() != "631245678902" {
		h.Errorf("with a line without a reference it is credited under %q; want its own", got.TopUpReference())
	}
	h.credited(one.ID, "5000", "631277777777")
	h.announced(a.ID, admin.Credited)
	h.credited(one.ID, "70", "631245678902")
	h.announced(b.ID, admin.Credited)
	h.lineKinds(statement, "[credited credited]")
}

func (h *harness) match(statement admin.BankStatement, line int, a admin.Announcement) {
	h.Helper()
	h.must(h.MatchLines(h.Context(), []admin.Match{{Statement: statement.ID, Number: line, Announcement: a.ID}}))
}

func (h *harness) credited(operatorID int64, amount, reference string) {
	h.Helper()
	if credited, err := h.credit(operatorID, amount, reference); err != nil || !credited {
		h.Fatalf("%s: credited %v, %v", reference, credited, err)
	}
}

func (h *harness) lineKinds(statement admin.BankStatement, want string) []admin.BankLine {
	h.Helper()
	lines, err := h.BankLines(h.Context(), statement.ID)
	h.must(err)
	var kinds []admin.LineKind
	for _, line := range lines {
		kinds = append(kinds, line.Kind(noon))
	}
	if fmt.Sprint(kinds) != want {
		h.Errorf("the lines are %v; want %s", kinds, want)
	}
	return lines
}

func lineOfAnother(h *harness) {
	one, two := h.operator("one"), h.operator("two")
	a := h.announce(one.ID, "CXP222222", "5000", "631245678901")
	b := h.announce(two.ID, "CXP333333", "70", "631245678902")
	c := h.announce(two.ID, "CXP444444", "80", "631245678903")
	statement, _ := h.upload(
		bankLine(1, "5000", "631245678902", "UPI/CXP222222"), // of b, by its reference
		bankLine(2, "70", "631277777777", "UPI/CXP333333"), bankLine(3, "80", "631277777777", "UPI/CXP444444"))
	h.match(statement, 1, a)
	h.announced(a.ID, admin.Announced)
	h.match(statement, 2, b)
	h.match(statement, 3, c)
	h.announced(b.ID, admin.Matched)
	h.announced(c.ID, admin.Announced)
	h.credited(two.ID, "70", "631277777777")
	h.lineKinds(statement, "[credited credited credited]")
	// Nobody knows whose the third line is: its announcement stays for a person to decide.
	h.credited(two.ID, "80", "631245678903")
	h.announced(c.ID, admin.Credited)
	h.announced(a.ID, admin.Announced)
}

// twoReferencesOf announces the nth payment under the typed reference. The code finds its line,
// which has the bank's.
func (h *harness) twoReferencesOf(operatorID int64, n int) (a admin.Announcement, statement admin.BankStatement, typed, bank string) {
	h.Helper()
	typed, bank = fmt.Sprintf("6312456789%02d", n), fmt.Sprintf("6312777777%02d", n)
	code := fmt.Sprintf("CXP22222%c", 'A'+n)
	a = h.announce(operatorID, code, "5000", typed)
	statement, _ = h.upload(bankLine(1, "5000", bank, "UPI/"+code))
	return a, statement, typed, bank
}

func twoReferences(h *harness) {
	for n := range 2 {
		one, two := h.operator(name("one", n)), h.operator(name("two", n))
		a, statement, typed, bank := h.twoReferencesOf(one.ID, n)
		h.match(statement, 1, a)
		order := []string{typed, bank}
		if n == 1 {
			order = []string{bank, typed}
		}
		for _, reference := range order {
			_, _, err := h.tryAnnounce(two.ID, "CXP333333", "5000", reference)
			h.refusedNaming("another operator announces "+reference, err, "announced already")
			if again, known, err := h.tryAnnounce(one.ID, "CXP333333", "5000", reference); err != nil || !known || again.ID != a.ID {
				h.Errorf("announced again as %s: %+v, known %v, %v; want announcement %d", reference, again, known, err, a.ID)
			}
		}
		h.credited(one.ID, "5000", order[0])
		if got := h.announced(a.ID, admin.Credited); got.Credited != rupees("5000") {
			h.Errorf("credited as %+v", got)
		}
		h.reopen()
		for _, amount := range []string{"5000", "4000"} {
			_, err := h.credit(one.ID, amount, order[1])
			h.refusedNaming("credited again", err, "the payment with reference "+order[1]+" was credited already, as "+order[0])
		}
		_, err := h.credit(two.ID, "5000", order[1])
		h.refusedNaming("credited to another operator", err, "credited already")
		if credited, err := h.credit(one.ID, "5000", order[0]); err != nil || credited {
			h.Errorf("the same top-up again: credited %v, %v", credited, err)
		}
		for _, reference := range order {
			_, _, err := h.tryAnnounce(one.ID, "CXP333333", "5000", reference)
			h.refusedNaming("announced after it was credited", err, "credited already")
		}
		if line := h.lineKinds(statement, "[credited]")[0]; line.CreditedTo != one.ID || line.CreditedUnder != order[0] {
			h.Errorf("the line was credited as %+v; want it under %s", line, order[0])
		}
		h.balance(one.ID, "5000")
		h.balance(two.ID, "0")
	}
}

func twoReferencesRace(h *harness) {
	one, two := h.operator("one"), h.operator("two")
	for n := range 10 {
		a, statement, typed, bank := h.twoReferencesOf(one.ID, n)
		h.match(statement, 1, a)
		var made atomic.Int64
		concurrently(3, func(which int) {
			paid := []admin.TopUp{{OperatorID: one.ID, Reference: typed}, {OperatorID: one.ID, Reference: bank}, {OperatorID: two.ID, Reference: bank}}[which]
			switch credited, err := h.credit(paid.OperatorID, "5000", paid.Reference); {
			case err != nil:
				h.refused("credited already", err)
			case credited:
				made.Add(1)
			}
		})
		if made.Load() != 1 {
			h.Errorf("%s and %s are one payment, and %d top-ups were made; want 1", typed, bank, made.Load())
		}
	}
}

func matchRace(h *harness) {
	one := h.operator("one")
	for n := range 10 {
		a, statement, typed, bank := h.twoReferencesOf(one.ID, n)
		concurrently(2, func(which int) {
			if which == 0 {
				if err := h.MatchLines(h.Context(), []admin.Match{{Statement: statement.ID, Number: 1, Announcement: a.ID}}); err != nil {
					h.Errorf("match: %v", err)
				}
				return
			}
			if credited, err := h.credit(one.ID, "5000", typed); err != nil || !credited {
				h.Errorf("credited %v, %v", credited, err)
			}
		})
		h.announced(a.ID, admin.Credited)
		lines, err := h.LinesOfAnnouncement(h.Context(), a.ID)
		h.must(err)
		if len(lines) == 0 {
			continue // the top-up was first
		}
		_, err = h.credit(one.ID, "5000", bank)
		h.refusedNaming("its line's reference", err, "credited already")
		h.lineKinds(statement, "[credited]")
	}
	h.balance(one.ID, "50000")
}

func twoReferencesProposed(h *harness) {
	s := &fixture{harness: h, operator: h.operator("one")}
	one := s.operator
	for n := range 2 {
		a, statement, typed, bank := h.twoReferencesOf(one.ID, n)
		h.match(statement, 1, a)
		order := []string{typed, bank}
		if n == 1 {
			order = []string{bank, typed}
		}
		p := s.proposed("5000", order[0])
		if got := h.announced(a.ID, admin.Waiting); got.Proposal != p.ID {
			h.Errorf("it waits for proposal %d; want %d", got.Proposal, p.ID)
		}
		h.lineKinds(statement, "[approval]")
		action := staffAction("proposal make")
		action.Actor = "web:asha"
		_, _, err := h.Propose(h.Context(), action, admin.Proposal{
			Kind: admin.ProposedTopUp, OperatorID: one.ID, Amount: rupees("5000"), Reference: order[1], Maker: action.Actor, MadeAt: noon, Status: admin.ProposalOpen,
		})
		h.refusedNaming("proposed again", err, fmt.Sprintf("proposal %d", p.ID))
		_, err = h.credit(one.ID, "5000", order[1])
		h.refusedNaming("credited while it waits", err, fmt.Sprintf("proposal %d", p.ID))
		_, err = h.CloseAnnouncement(h.Context(), staffAction("payment reject"), a.ID, admin.Rejected)
		h.refusedNaming("rejecting what is proposed", err, "second approval")
	}

	// Both were proposed before the line was matched: one of them can be carried out.
	a, statement, typed, bank := h.twoReferencesOf(one.ID, 2)
	first, second := s.proposed("5000", typed), s.proposed("5000", bank)
	h.match(statement, 1, a)
	h.announced(a.ID, admin.Waiting)
	checker := s.consoleUser("binu", admin.Finance)
	_, err := checker.Approve(h.Context(), first.ID)
	h.refusedNaming("one of two", err, fmt.Sprintf("proposal %d", second.ID))
	decline := staffAction("proposal decline")
	decline.Actor = "web:ravi"
	_, err = h.DismissProposal(h.Context(), decline, second.ID, admin.ProposalDeclined)
	h.must(err)
	_, err = checker.Approve(h.Context(), first.ID)
	h.must(err)
	h.announced(a.ID, admin.Credited)
	h.lineKinds(statement, "[credited]")
	h.balance(one.ID, "5000")
}

// A line was credited by hand, and is matched to an announcement with another reference then.
func creditedLineMatched(h *harness) {
	one := h.operator("one")
	a, statement, typed, bank := h.twoReferencesOf(one.ID, 0)
	h.credited(one.ID, "5000", bank)
	h.announced(a.ID, admin.Announced)
	h.match(statement, 1, a)
	if line := h.lineKinds(statement, "[credited]")[0]; line.CreditedTo != one.ID || line.CreditedUnder != bank {
		h.Errorf("the line is %+v", line)
	}
	_, err := h.credit(one.ID, "5000", typed)
	h.refusedNaming("credited by hand under its other reference", err, "credited already, as "+bank)
	h.balance(one.ID, "5000")
	// A person who finds that it is another payment rejects the announcement first.
	_, err = h.CloseAnnouncement(h.Context(), staffAction("payment reject"), a.ID, admin.Rejected)
	h.must(err)
	h.credited(one.ID, "5000", typed)
}

// The announcement's own reference was credited to another operator, which leaves it open.
func creditedAnnouncementMatched(h *harness) {
	one, two := h.operator("one"), h.operator("two")
	a, statement, typed, bank := h.twoReferencesOf(one.ID, 0)
	h.credited(two.ID, "5000", typed)
	h.match(statement, 1, a)
	if line := h.lineKinds(statement, "[credited]")[0]; line.CreditedTo != two.ID || line.CreditedUnder != typed {
		h.Errorf("the line is %+v", line)
	}
	_, err := h.credit(one.ID, "5000", bank)
	h.refusedNaming("credited under the bank's reference", err, fmt.Sprintf("credited already, as %s: 5000.00 to operator %d", typed, two.ID))
	h.balance(one.ID, "0")
}

func statementRace(h *harness) {
	var lines []admin.BankLine
	for i := range 50 {
		lines = append(lines, bankLine(i+1, "10", fmt.Sprintf("BANK-%d", i), fmt.Sprintf("CASH %d", i)))
	}
	var credits, known atomic.Int64
	concurrently(4, func(which int) {
		// Each has a line of its own, so that none is known as a whole.
		own := append(slices.Clone(lines), bankLine(51, "7", fmt.Sprintf("BANK-own-%d", which), fmt.Sprintf("CASH own %d", which)))
		stored, _ := h.upload(own...)
		credits.Add(int64(stored.Credits))
		known.Add(int64(stored.Known))
		if has, err := h.BankLines(h.Context(), stored.ID); err != nil || len(has) != stored.Credits {
			h.Errorf("a statement with %d lines counts %d, %v", len(has), stored.Credits, err)
		}
	})
	if credits.Load() != 54 || known.Load() != 150 {
		h.Errorf("%d lines are counted as new and %d as known; want 54 and 150", credits.Load(), known.Load())
	}
}

func lineCredited(h *harness) {
	one := h.operator("one")
	statement, _ := h.upload(bankLine(1, "5000", "631245678901", "UPI/1"), bankLine(2, "70", "631245678902", "UPI/2"), bankLine(3, "80", "631245678903", "UPI/3"))
	if _, err := h.credit(one.ID, "5000", "631245678901"); err != nil {
		h.Fatal(err)
	}
	action := staffAction("proposal make")
	action.Actor = "web:asha"
	_, _, err := h.Propose(h.Context(), action, admin.Proposal{
		Kind: admin.ProposedTopUp, OperatorID: one.ID, Amount: rupees("70"), Reference: "631245678902", Maker: action.Actor, MadeAt: noon, Status: admin.ProposalOpen,
	})
	h.must(err)
	lines, err := h.BankLines(h.Context(), statement.ID)
	h.must(err)
	var kinds []admin.LineKind
	for _, line := range lines {
		kinds = append(kinds, line.Kind(noon))
	}
	if fmt.Sprint(kinds) != "[credited approval unmatched]" || lines[0].CreditedTo != one.ID || lines[0].CreditedAs != rupees("5000") || !lines[0].CreditedAt.Equal(noon) {
		h.Errorf("the lines are %v: %+v", kinds, lines)
	}
}

func oldLinesRemoved(h *harness) {
	one := h.operator("one")
	a := h.announce(one.ID, "CXP222222", "5000", "631245678901")
	first, _ := h.upload(bankLine(1, "5000", "631245678901", "UPI/1"), bankLine(2, "70", "631245678902", "UPI/2"))
	h.must(h.MatchLines(h.Context(), []admin.Match{{Statement: first.ID, Number: 1, Announcement: a.ID}}))
	late := bankLine(1, "80", "631245678903", "UPI/3")
	late.PaidOn = paymentDay.Add(2 * oneDay)
	_, _, err := h.ImportStatement(h.Context(), staffAction("payment statement"), admin.BankStatement{FileName: "late.csv", Columns: "{}"}, "header", []admin.BankLine{late}, paymentDay.Add(oneDay))
	h.must(err)
	lines, err := h.BankLines(h.Context(), first.ID)
	if err != nil || len(lines) != 1 || lines[0].Announcement.ID != a.ID {
		h.Errorf("left are %+v, %v; want the announcement's line", lines, err)
	}
	if free, err := h.UnmatchedLines(h.Context(), 10); err != nil || len(free) != 1 || free[0].Amount != rupees("80") {
		h.Errorf("the new line: %+v, %v", free, err)
	}
}

func columnsKept(h *harness) {
	if columns, err := h.BankColumns(h.Context(), "header"); err != nil || columns != "" {
		h.Errorf("before: %q, %v", columns, err)
	}
	h.upload(bankLine(1, "5000", "631245678901", "UPI/1"))
	_, _, err := h.ImportStatement(h.Context(), staffAction("payment statement"), admin.BankStatement{FileName: "b.csv", Columns: `{"date":3}`}, "header", []admin.BankLine{bankLine(1, "6", "x", "y")}, noon.Add(-admin.LinesKept))
	h.must(err)
	h.reopen()
	if columns, err := h.BankColumns(h.Context(), "header"); err != nil || columns != `{"date":3}` {
		h.Errorf("after: %q, %v", columns, err)
	}
}

func paymentSearch(h *harness) {
	one, two := h.operator("one"), h.operator("two")
	h.announce(one.ID, "CXP222222", "5000", "SBIN526123456789")
	h.must(first(h.CloseAnnouncement(h.Context(), staffAction(admin.PaymentWithdraw), h.announce(one.ID, "CXP333333", "70", "631245678901").ID, admin.Withdrawn)))
	h.announce(two.ID, "CXP444444", "70", "631245678901")
	h.announce(two.ID, "CXP555555", "80", "631245678905")
	for _, paid := range []struct {
		operatorID        int64
		amount, reference string
	}{{two.ID, "71", "631245678901"}, {one.ID, "10", "NEFT-7777"}} {
		if credited, err := h.credit(paid.operatorID, paid.amount, paid.reference); err != nil || !credited {
			h.Fatalf("credited %v, %v", credited, err)
		}
	}
	// The bank has another reference than the operator typed.
	stored, _, err := h.ImportStatement(h.Context(), staffAction("payment statement"), admin.BankStatement{FileName: "a.csv", Columns: "{}"}, "header",
		[]admin.BankLine{bankLine(1, "80", "N555", "UPI/CXP555555")}, time.Time{})
	h.must(err)
	found, err := h.AnnouncementsNamed(h.Context(), two.ID, "CXP555555", "", 1)
	h.must(err)
	h.must(h.MatchLines(h.Context(), []admin.Match{{Statement: stored.ID, Number: 1, Announcement: found[0].ID}}))

	payments := admin.NewPayments(h.Store, admin.BankDetails{}, func() time.Time { return noon })
	staff := admin.NewService(h.Store, nil, "web:asha", func() time.Time { return noon })
	for text, want := range map[string]struct{ ofOne, ofAll string }{
		"CXP222222":         {"CXP222222 5000.00 announced", "CXP222222 5000.00 announced"},
		" cxp-222 222 ":     {"CXP222222 5000.00 announced", "CXP222222 5000.00 announced"},
		"sbin5261 23456789": {"CXP222222 5000.00 announced", "CXP222222 5000.00 announced"},
		"6312-4567 8901":    {"CXP333333 70.00 withdrawn", "CXP444444 71.00 credited; CXP333333 70.00 withdrawn"},
		"CXP444444":         {"", "CXP444444 71.00 credited"},
		"N555":              {"", "CXP555555 80.00 matched"},
		"631245678905":      {"", "CXP555555 80.00 matched"},
		"neft 7777":         {" 10.00 credited", " 10.00 credited"},
		"CXP999999":         {"", ""},
		"":                  {"", ""},
		"---":               {"", ""},
		"\x00\xff%_'":       {"", ""},
	} {
		for all, want := range map[bool]string{false: want.ofOne, true: want.ofAll} {
			found, err := payments.FindPayments(h.Context(), one.ID, text, 10)
			if all {
				found, err = staff.FindPayments(h.Context(), text, 10)
			}
			h.must(err)
			var got []string
			for _, p := range found {
				got = append(got, fmt.Sprintf("%s %s %s", p.Code, p.Amount, p.State))
				if p.Day.IsZero() || p.Reference == "" || (p.Announcement == 0) != (p.Code == "") {
					h.Errorf("%q finds %+v", text, p)
				}
			}
			if strings.Join(got, "; ") != want {
				h.Errorf("%q, of all %v: %q; want %q", text, all, got, want)
			}
		}
	}
	if found, err := staff.FindPayments(h.Context(), "631245678901", 1); err != nil || len(found) != 1 || found[0].Code != "CXP444444" {
		h.Errorf("at most one: %+v, %v; want the latest", found, err)
	}
}
