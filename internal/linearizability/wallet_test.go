//go:build long

package linearizability_test

import (
	"fmt"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// wallet is an operator's money, and where each operation stands that it paid
// for. That both are one state is the point: whoever has seen that an operation
// failed must find its money back.
type wallet struct {
	balance, held               int64
	reserved, succeeded, failed set
	credited                    set
}

// set is some of the first 256 of something.
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

// settledMoney is the end of an operation: what was held is spent, or comes back.
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

// seenPaidFor is somebody's look at an operation.
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

// seenMoney is a look at the wallet.
type seenMoney struct{ balance, held int64 }

func (s seenMoney) from(w wallet) (wallet, bool) {
	return w, w.balance == s.balance && w.held == s.held
}

// tooExpensive is a refusal for want of money, with the balance that it names.
type tooExpensive struct{ price, balance int64 }

func (r tooExpensive) from(w wallet) (wallet, bool) {
	return w, w.balance == r.balance && w.balance < r.price
}

// moved is money that staff moved. Without a word on what came of it, only that
// it happened is known.
type moved struct {
	credit int
	amount int64
	heard  bool
	seenMoney
}

func (m moved) from(w wallet) (wallet, bool) {
	if w.credited.has(m.credit) || w.balance+m.amount < 0 {
		return w, false
	}
	w.balance += m.amount
	w.credited = w.credited.with(m.credit)
	if m.heard {
		return m.seenMoney.from(w)
	}
	return w, true
}

// movedBefore is a top-up that was told to have happened earlier.
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

// wallets are the operators' wallets with everything that touched or showed them.
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
	for _, f := range r.made {
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
	for _, a := range r.asked {
		switch {
		case a.operator != operator:
		case a.code == fault.InsufficientBalance:
			s.add(a.span, tooExpensive{a.price, a.balance})
		case a.told.id != "":
			s.add(a.span, seenPaidFor{ops.of(a.told.id), a.told.state})
		}
	}
	for _, l := range r.looked {
		if l.operator == operator && l.told.id != "" {
			s.add(l.span, seenPaidFor{ops.of(l.told.id), l.told.state})
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

// addCredits tells what staff did to a wallet. A credit that nobody was told of
// happened if the ledger has it, at some time after it was first asked for.
func (r *record) addCredits(s *subject[wallet], operator int64) {
	numbers := newNumbers()
	heardOf, unheard := map[string]bool{}, map[string]credit{}
	for _, c := range r.credits {
		if c.operator != operator {
			continue
		}
		number, seen := numbers.of(c.reference), seenMoney{c.balance, c.held}
		switch c.outcome {
		case credited:
			heardOf[c.reference] = true
			s.add(c.span, moved{number, c.amount, true, seen})
		case creditedOnce:
			s.add(c.span, movedBefore{number, seen})
		case creditRefused:
			s.add(c.span, notMoved{c.amount})
		case creditUnknown:
			if first, found := unheard[c.reference]; !found || c.begun < first.begun {
				unheard[c.reference] = c
			}
		}
	}
	for reference, c := range unheard {
		if !heardOf[reference] && r.ledger[operator][c.line] {
			c.ended = never
			s.add(c.span, moved{credit: numbers.of(reference), amount: c.amount})
		}
	}
}

// add appends what happened within a span.
func (s *subject[S]) add(when span, what step[S]) {
	s.steps = append(s.steps, happened[S]{when.client, when.begun, when.ended, what})
}

// numbers counts names from zero, each once.
type numbers map[string]int

func newNumbers() numbers { return numbers{} }

func (n numbers) of(name string) int {
	if _, known := n[name]; !known {
		n[name] = len(n)
	}
	return n[name]
}
