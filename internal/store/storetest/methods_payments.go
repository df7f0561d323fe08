package storetest

import (
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
)

// paymentCalls are the methods of announced payments and bank statements.
var paymentCalls = []methodCall{
	{"Announce", (*methodCaller).paymentWalk},
	{"CloseAnnouncement", (*methodCaller).paymentWalk},
	{"Announcement", (*methodCaller).paymentWalk},
	{"MatchLines", (*methodCaller).paymentWalk},
	{"ImportStatement", (*methodCaller).paymentWalk},
	{"BankLines", (*methodCaller).paymentWalk},
	{"Announcements", func(w *methodCaller) {
		for _, filter := range []admin.AnnouncementFilter{{}, {Open: true}, {Before: 9}, {Open: true, Before: 9}} {
			for _, operatorID := range []int64{0, w.filled.OperatorID} {
				filter.OperatorID, filter.Limit = operatorID, 26
				w.must(first(w.Announcements(w.Context(), filter)))
			}
		}
	}},
	{"AnnouncementsNamed", func(w *methodCaller) {
		for _, operatorID := range []int64{0, w.filled.OperatorID} {
			w.must(first(w.AnnouncementsNamed(w.Context(), operatorID, "CXP222222", "631245678901", 10)))
		}
	}},
	{"CreditsNamed", func(w *methodCaller) {
		for _, operatorID := range []int64{0, w.filled.OperatorID} {
			w.must(first(w.CreditsNamed(w.Context(), operatorID, "neft1", 10)))
		}
	}},
	{"OpenAnnouncements", func(w *methodCaller) {
		for _, operatorID := range []int64{0, w.filled.OperatorID} {
			w.must(second(w.OpenAnnouncements(w.Context(), operatorID)))
		}
	}},
	{"UnmatchedLines", func(w *methodCaller) {
		w.must(first(w.UnmatchedLines(w.Context(), 10)))
	}},
	{"BankStatements", func(w *methodCaller) { w.must(first(w.BankStatements(w.Context(), 10))) }},
	{"BankStatement", func(w *methodCaller) {
		if _, err := w.BankStatement(w.Context(), 4711); err == nil {
			w.Error("a bank statement that is not there was read")
		}
	}},
	{"LinesOfAnnouncement", func(w *methodCaller) { w.must(first(w.LinesOfAnnouncement(w.Context(), 1))) }},
	{"CreditUnder", func(w *methodCaller) {
		w.must(second(w.CreditUnder(w.Context(), admin.TopUp{OperatorID: w.filled.OperatorID, Amount: money.Paise(5000_00), Reference: "NEFT-1"})))
	}},
	{"BankColumns", func(w *methodCaller) { w.must(first(w.BankColumns(w.Context(), "header"))) }},
}

// paymentWalk announces payments, uploads a statement, matches its lines and closes an announcement. It is done
// once, whichever of its methods is asked for first.
func (w *methodCaller) paymentWalk() {
	w.Helper()
	if w.paid {
		return
	}
	w.paid = true
	act := func(name string) admin.StaffAction {
		return admin.StaffAction{Actor: "web:asha", Action: name, Reason: "walk", At: w.filled.Now}
	}
	announce := func(code, reference string) admin.Announcement {
		a := announcement(w.filled.OperatorID, code, "5000", reference)
		a.PaidOn, a.At = w.filled.Now, w.filled.Now
		made, _, err := w.Announce(w.Context(), act(admin.PaymentAnnounce), a, announceLimit)
		w.must(err)
		return made
	}
	a, b := announce("CXP222222", "631245678901"), announce("CXP333333", "631245678902")
	late := bankLine(3, "7", "BANK-1", "CASH")
	late.PaidOn = w.filled.Now.AddDate(-3, 0, 0)
	lines := []admin.BankLine{bankLine(1, "5000", "631245678901", "UPI/1"), bankLine(2, "5000", "631277777777", "UPI/2"), late}
	upload := func() admin.BankStatement {
		stored, _, err := w.ImportStatement(w.Context(), act("payment statement"), admin.BankStatement{FileName: "walk.csv", Columns: "{}"}, "header", lines, w.filled.Now.AddDate(-2, 0, 0))
		w.must(err)
		return stored
	}
	s := upload()
	upload()
	w.must(w.MatchLines(w.Context(), []admin.Match{
		{Statement: s.ID, Number: 1, Announcement: a.ID}, {Statement: s.ID, Number: 2, Announcement: b.ID},
		{Statement: s.ID, Number: 4711, Announcement: announce("CXP444444", "631245678904").ID},
	}))
	w.must(first(w.BankLines(w.Context(), s.ID)))
	w.must(first(w.Announcement(w.Context(), b.ID)))
	w.must(first(w.CloseAnnouncement(w.Context(), act("payment reject"), b.ID, admin.Rejected)))
}
