//go:build long

package linearizability_test

import (
	"fmt"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// wallet is an operator's money and the state of its operations. Both are one state, so
// that a client that has seen an operation fail must also see its refund.
type wallet struct {
	balance, held               int64
	reserved, succeeded, failed set
	credited                    set
}

// set is a set of numbers below 256.
type set [4]uint64

func (s set) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

func (s set) with(i int) set {
	s[i/64] |= 1 << (i % 64)
	return s
}

// debited is a reservation: the price leaves the balance and is held.
type debited struct {
	op            int
	price, before int64
}

func (d debited) from(w wallet) (wallet, bool) {
	if w.reserved.has(d.op) || w.balance != d.before || w.balance < d.price {
		return w, false
	}
	w.balance -= d.price
	w.held += d.price
	w.reserved = w.reserved.with(d.op)
	return w, true
}

// settledMoney is the end of an operation: the hold is charged or refunded.
type settledMoney struct {
	op    int
	price int64
	to    operation.State
}

func (s settledMoney) from(w wallet) (wallet, bool) {
	if !w.reserved.has(s.op) || w.succeeded.has(s.op) || w.failed.has(s.op) {
		return w, false
	}
	w.held -= s.price
	if s.to == operation.Success {
		w.succeeded = w.succeeded.with(s.op)
	} else {
		w.balance += s.price
		w.failed = w.failed.with(s.op)
	}
	return w, true
}

// seenPaidFor is an answer that shows an operation's state.
type seenPaidFor struct {
	op int
	as operation.State
}

func (s seenPaidFor) from(w wallet) (wallet, bool) {
	switch s.as {
	case operation.Success:
		return w, w.succeeded.has(s.op)
	case operation.Failed:
		return w, w.failed.has(s.op)
	}
	return w, w.reserved.has(s.op) && !w.succeeded.has(s.op) && !w.failed.has(s.op)
}

// seenMoney is a read of the wallet.
type seenMoney struct{ balance, held int64 }

func (s seenMoney) from(w wallet) (wallet, bool) {
	return w, w.balance == s.balance && w.held == s.held
}

// tooExpensive is INSUFFICIENT_BALANCE, with the balance that it shows.
type tooExpensive struct{ price, balance int64 }

func (r tooExpensive) from(w wallet) (wallet, bool) {
	return w, w.balance == r.balance && w.balance < r.price
}

// moved is a top-up or adjustment. If it was not confirmed, the balance after it is not
// known.
type moved struct {
	credit    int
	amount    int64
	confirmed bool
	seenMoney
}

func (m moved) from(w wallet) (wallet, bool) {
	if w.credited.has(m.credit) || w.balance+m.amount < 0 {
		return w, false
	}
	w.balance += m.amount
	w.credited = w.credited.with(m.credit)
	if m.confirmed {
		return m.seenMoney.from(w)
	}
	return w, true
}

// movedBefore is a top-up whose reference was already booked.
type movedBefore struct {
	credit int
	seenMoney
}

func (m movedBefore) from(w wallet) (wallet, bool) {
	if !w.credited.has(m.credit) {
		return w, false
	}
	return m.seenMoney.from(w)
}

// notMoved is an adjustment that was refused: it would have gone below zero.
type notMoved struct{ amount int64 }

func (n notMoved) from(w wallet) (wallet, bool) { return w, w.balance+n.amount < 0 }

// wallets returns the operators' wallets with all their steps.
func (r *record) wallets() []subject[wallet] {
	var all []subject[wallet]
	for operator, opened := range r.opened {
		all = append(all, r.wallet(operator, opened))
	}
	return all
}

func (r *record) wallet(operator int64, opened int64) subject[wallet] {
	s := subject[wallet]{name: fmt.Sprintf("the wallet of operator %d", operator), start: wallet{balance: opened}}
	ops := newNumbers()
	for _, f := range r.effective {
		op := r.final[f.id]
		if op.OperatorID != operator {
			continue
		}
		switch f.to {
		case operation.Processing:
			s.add(f.span, debited{ops.of(f.id), op.Amount.Paise(), op.WalletBefore.Paise()})
		case operation.Success, operation.Failed:
			s.add(f.span, settledMoney{ops.of(f.id), op.Amount.Paise(), f.to})
		}
	}
	for _, a := range r.opRequests {
		switch {
		case a.operator != operator:
		case a.code == fault.InsufficientBalance:
			s.add(a.span, tooExpensive{a.price, a.balance})
		case a.shownOp.id != "":
			s.add(a.span, seenPaidFor{ops.of(a.shownOp.id), a.shownOp.state})
		}
	}
	for _, l := range r.lookups {
		if l.operator == operator && l.shownOp.id != "" {
			s.add(l.span, seenPaidFor{ops.of(l.shownOp.id), l.shownOp.state})
		}
	}
	for _, seen := range r.read {
		if seen.operator == operator {
			s.add(seen.span, seenMoney{seen.balance, seen.held})
		}
	}
	r.addCredits(&s, operator)
	return s
}

// addCredits adds the top-ups and adjustments of a wallet. One without an answer
// happened if the ledger has it, at some time after it was first requested.
func (r *record) addCredits(s *subject[wallet], operator int64) {
	numbers := newNumbers()
	confirmedRefs, unconfirmed := map[string]bool{}, map[string]credit{}
	for _, c := range r.credits {
		if c.operator != operator {
			continue
		}
		number, seen := numbers.of(c.reference), seenMoney{c.balance, c.held}
		switch c.outcome {
		case credited:
			confirmedRefs[c.reference] = true
			s.add(c.span, moved{number, c.amount, true, seen})
		case creditedOnce:
			s.add(c.span, movedBefore{number, seen})
		case creditRefused:
			s.add(c.span, notMoved{c.amount})
		case creditUnknown:
			if first, found := unconfirmed[c.reference]; !found || c.begun < first.begun {
				unconfirmed[c.reference] = c
			}
		}
	}
	for reference, c := range unconfirmed {
		if !confirmedRefs[reference] && r.ledger[operator][c.line] {
			c.ended = never
			s.add(c.span, moved{credit: numbers.of(reference), amount: c.amount})
		}
	}
}

// add appends what happened within a span.
func (s *subject[S]) add(when span, what step[S]) {
	s.steps = append(s.steps, happened[S]{when.client, when.begun, when.ended, what})
}

// numbers assigns numbers from zero to names.
type numbers map[string]int

func newNumbers() numbers { return numbers{} }

func (n numbers) of(name string) int {
	if _, known := n[name]; !known {
		n[name] = len(n)
	}
	return n[name]
}
