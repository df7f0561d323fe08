package audit

import (
	"fmt"
	"strings"

	"github.com/coaxhq/coax/internal/money"
)

// checkCredits compares the money that staff moved with the ledger lines and the staff
// actions.
func (f *fold) checkCredits(actions []staffAction) {
	f.checkBooked()
	payments := map[string][]staffAction{} // top-ups by their subject
	var adjustments []staffAction
	for _, action := range actions {
		if action.action == "wallet topup" {
			payments[action.subject] = append(payments[action.subject], action)
		} else {
			adjustments = append(adjustments, action)
		}
	}
	seen := map[string]int64{}
	adjusted := 0
	for _, e := range f.credits {
		where := fmt.Sprintf("%s, wallet entry %d", f.subject, e.seq)
		if e.kind == "adjust" {
			if adjusted < len(adjustments) {
				f.checkAction(where, e, adjustments[adjusted])
			}
			adjusted++
			continue
		}
		if first, twice := seen[e.reference.String]; twice {
			f.a.found("M8", where, "reference %q was credited by entry %d already; expected one top-up a reference", e.reference.String, first)
			continue
		}
		seen[e.reference.String] = e.seq
		subject := fmt.Sprintf("wallet of lco %d, reference %s", f.id, e.reference.String)
		if paid := payments[subject]; len(paid) != 1 {
			f.a.found("A9", where, "the top-up of %s with reference %q has %d staff actions; expected 1",
				rupees(e.amount), e.reference.String, len(paid))
		} else {
			f.checkAction(where, e, paid[0])
		}
		delete(payments, subject)
	}
	if adjusted != len(adjustments) {
		f.a.found("A9", f.subject, "the wallet was adjusted %d times, and %d staff actions say so", adjusted, len(adjustments))
	}
	for _, action := range actions {
		if _, left := payments[action.subject]; left {
			f.a.found("A9", f.subject, "staff action %d is a top-up (%s), and the wallet has no entry of it", action.id, action.subject)
		}
	}
}

// checkAction compares a credit with the staff action that made it.
func (f *fold) checkAction(where string, e entry, by staffAction) {
	if by.actor != e.actor || by.at != e.created {
		f.a.found("A9", where, "the %s is by %s at %s; expected what staff action %d says, %s at %s",
			e.kind, e.actor, moment(e.created), by.id, by.actor, moment(by.at))
	}
	before, err1 := money.Parse(fieldsOf(by.before)["wallet_balance"])
	after, err2 := money.Parse(fieldsOf(by.after)["wallet_balance"])
	if err1 != nil || err2 != nil {
		return // a staff action that does not show the balance
	}
	if moved := after.Sub(before).Paise(); moved != e.amount || after.Paise() != e.balanceAfter {
		f.a.found("A9", where, "the %s is of %s and leaves %s; expected what staff action %d says, %s leaving %s",
			e.kind, rupees(e.amount), rupees(e.balanceAfter), by.id, rupees(moved), after)
	}
}

// checkBooked pairs credits and ledger lines, which are written together and so
// stand in the same order.
func (f *fold) checkBooked() {
	if len(f.credits) != len(f.booked) {
		f.a.found("L4", f.subject, "%d top-ups and adjustments stand against %d ledger lines without an operation; expected as many",
			len(f.credits), len(f.booked))
		return
	}
	for i, e := range f.credits {
		l := f.booked[i]
		if l.signed() != e.amount || l.created != e.created || !strings.Contains(l.text, e.reference.String) {
			f.a.found("L4", fmt.Sprintf("%s, ledger line %d", f.subject, l.line),
				"it is a %s of %s at %s, %q; expected wallet entry %d, a %s of %s at %s, reference %q",
				l.kind, rupees(l.amount), moment(l.created), l.text, e.seq, e.kind, rupees(e.amount), moment(e.created), e.reference.String)
			return // all further ones would be shifted
		}
	}
}
