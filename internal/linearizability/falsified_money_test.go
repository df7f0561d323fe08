//go:build long

package linearizability_test

import (
	"slices"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

var walletFalsifications = []falsification{
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
			r.opRequests = append(r.opRequests, opRequest{
				span: r.afterwards(), selection: selection{operator: operator, price: balance}, code: fault.InsufficientBalance, balance: balance,
			})
		}
		return true
	}},
	{"the wallet", "a refund that never came", func(r *record) bool {
		i, found := first(r.effective, func(f storeWrite) bool { return f.to == operation.Failed })
		if found {
			r.effective[i].to = operation.Success
		}
		return found
	}},
	{"the wallet", "a refund that came twice", func(r *record) bool {
		i, found := first(r.effective, func(f storeWrite) bool { return f.to == operation.Failed })
		if found {
			r.effective = append(r.effective, r.effective[i])
		}
		return found
	}},
	{"the wallet", "a charge for nothing", func(r *record) bool {
		// The price was debited, and there is no operation for it.
		i, found := first(r.effective, func(f storeWrite) bool { return f.to == operation.Success })
		if !found {
			return false
		}
		id := r.effective[i].id
		r.effective = slices.DeleteFunc(r.effective, func(f storeWrite) bool { return f.id == id })
		r.opRequests = slices.DeleteFunc(r.opRequests, func(a opRequest) bool { return a.shownOp.id == id })
		r.lookups = slices.DeleteFunc(r.lookups, func(l lookup) bool { return l.shownOp.id == id })
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
		// A lookup shows the end just before it is written.
		i, found := first(r.effective, func(f storeWrite) bool { return f.to == operation.Failed && f.ended != never })
		if found {
			f, op := r.effective[i], r.final[r.effective[i].id]
			r.lookups = append(r.lookups, lookup{span{clients, f.begun - 2, f.begun - 1}, op.OperatorID, op.IdempotencyKey, fault.OK, show(op)})
		}
		return found
	}},
}

// lastRead returns the index of the last read of a wallet.
func (r *record) lastRead(operator int64) int {
	last := -1
	for i, seen := range r.read {
		if seen.operator == operator && (last < 0 || seen.begun > r.read[last].begun) {
			last = i
		}
	}
	return last
}

// twoDebitsOfOneBalance gives an early debit the starting balance of a late one, which
// the wallet cannot have had by then in any order.
func twoDebitsOfOneBalance(r *record) bool {
	for _, early := range r.effective {
		if early.to != operation.Processing || early.ended == never {
			continue
		}
		op := r.final[early.id]
		reach := int64(0)
		for _, f := range r.effective {
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
