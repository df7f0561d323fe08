//go:build long

package linearizability_test

import (
	"slices"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

var liesAboutMoney = []lie{
	{"the wallet", "two balances swapped", func(r *record) bool {
		for operator, opened := range r.opened {
			i, _ := first(r.read, func(seen readWallet) bool { return seen.operator == operator })
			last := r.lastRead(operator)
			if r.read[last].balance != opened {
				// Nothing had happened yet when the first was read.
				r.read[i].balance, r.read[last].balance = r.read[last].balance, r.read[i].balance
				return true
			}
		}
		return false
	}},
	{"the wallet", "refused with just enough money", func(r *record) bool {
		for operator := range r.opened {
			balance := r.read[r.lastRead(operator)].balance
			r.asked = append(r.asked, asked{
				span: r.afterwards(), wish: wish{operator: operator, price: balance}, code: fault.InsufficientBalance, balance: balance,
			})
		}
		return true
	}},
	{"the wallet", "a refund that never came", func(r *record) bool {
		i, found := first(r.made, func(f fact) bool { return f.to == operation.Failed })
		if found {
			r.made[i].to = operation.Success
		}
		return found
	}},
	{"the wallet", "a refund that came twice", func(r *record) bool {
		i, found := first(r.made, func(f fact) bool { return f.to == operation.Failed })
		if found {
			r.made = append(r.made, r.made[i])
		}
		return found
	}},
	{"the wallet", "a charge for nothing", func(r *record) bool {
		// Its money went, and it is not among what was paid for.
		i, found := first(r.made, func(f fact) bool { return f.to == operation.Success })
		if !found {
			return false
		}
		id := r.made[i].id
		r.made = slices.DeleteFunc(r.made, func(f fact) bool { return f.id == id })
		r.asked = slices.DeleteFunc(r.asked, func(a asked) bool { return a.told.id == id })
		r.looked = slices.DeleteFunc(r.looked, func(l looked) bool { return l.told.id == id })
		return true
	}},
	{"the wallet", "two debits of one balance", twoDebitsOfOneBalance},
	{"the wallet", "a debit that the balance did not cover", func(r *record) bool {
		for id, op := range r.final {
			op.WalletBefore = op.Amount.Sub(money.Paise(1))
			r.final[id] = op
			return true
		}
		return false
	}},
	{"the wallet", "a top-up that came twice", func(r *record) bool {
		i, found := first(r.credits, func(c credit) bool { return c.outcome == creditedOnce })
		if found {
			r.credits[i].outcome = credited
		}
		return found
	}},
	{"the wallet", "a top-up that got lost", func(r *record) bool {
		i, found := first(r.credits, func(c credit) bool { return c.outcome == credited && c.amount > 0 })
		if found {
			r.credits = slices.Delete(r.credits, i, i+1)
		}
		return found
	}},
	{"the wallet", "an adjustment below zero", func(r *record) bool {
		i, found := first(r.credits, func(c credit) bool { return c.outcome == creditRefused })
		if found {
			r.credits[i].outcome = credited
		}
		return found
	}},
	{"the wallet", "failed, and its money is not back", func(r *record) bool {
		// Somebody sees the end a moment before anybody asks for it.
		i, found := first(r.made, func(f fact) bool { return f.to == operation.Failed && f.ended != never })
		if found {
			f, op := r.made[i], r.final[r.made[i].id]
			r.looked = append(r.looked, looked{span{clients, f.begun - 2, f.begun - 1}, op.OperatorID, op.IdempotencyKey, fault.OK, show(op)})
		}
		return found
	}},
}

// lastRead is the look at a wallet that ends the history.
func (r *record) lastRead(operator int64) int {
	last := -1
	for i, seen := range r.read {
		if seen.operator == operator && (last < 0 || seen.begun > r.read[last].begun) {
			last = i
		}
	}
	return last
}

// twoDebitsOfOneBalance has an early debit find the balance that a late one found:
// one that the wallet cannot have come to by then, whatever happened first.
func twoDebitsOfOneBalance(r *record) bool {
	for _, early := range r.made {
		if early.to != operation.Processing || early.ended == never {
			continue
		}
		op := r.final[early.id]
		reach := int64(0)
		for _, f := range r.made {
			if f.begun <= early.ended && r.final[f.id].OperatorID == op.OperatorID {
				reach += r.final[f.id].Amount.Paise()
			}
		}
		for _, c := range r.credits {
			if c.begun <= early.ended && c.operator == op.OperatorID {
				reach += max(c.amount, -c.amount)
			}
		}
		for _, late := range r.final {
			apart := late.WalletBefore.Paise() - r.opened[op.OperatorID]
			if late.OperatorID == op.OperatorID && max(apart, -apart) > reach {
				op.WalletBefore = late.WalletBefore
				r.final[op.ID] = op
				return true
			}
		}
	}
	return false
}
