package postgres

import (
	"cmp"
	"slices"
)

// walletTotal is the sum of a batch's items that concern one wallet.
type walletTotal struct {
	operatorID, paise, items int64
}

var totalColumns = columns[walletTotal]{
	intColumn("operator_id", func(t walletTotal) int64 { return t.operatorID }),
	intColumn("paise", func(t walletTotal) int64 { return t.paise }),
	intColumn("items", func(t walletTotal) int64 { return t.items }),
}

// walletSlot is an item's position among those of its wallet: which total is its
// wallet's, counted from one as in SQL, how many items come after it, and their sum.
// The balance after each item follows from them and the balance after all.
type walletSlot struct {
	wallet, later, laterPaise int64
}

var slotColumns = columns[walletSlot]{
	intColumn("wallet", func(s walletSlot) int64 { return s.wallet }),
	intColumn("later", func(s walletSlot) int64 { return s.later }),
	intColumn("later_paise", func(s walletSlot) int64 { return s.laterPaise }),
}

// walletTotals adds up items by wallet, in the order of the wallets' keys, and returns
// each item's slot.
func walletTotals[Item any](all []Item, of func(Item) (operatorID, paise int64)) ([]walletTotal, []walletSlot) {
	var totals []walletTotal
	for _, item := range all {
		operatorID, _ := of(item)
		totals = append(totals, walletTotal{operatorID: operatorID})
	}
	slices.SortFunc(totals, func(a, b walletTotal) int { return cmp.Compare(a.operatorID, b.operatorID) })
	totals = slices.Compact(totals)
	slots := make([]walletSlot, len(all))
	for i, item := range slices.Backward(all) {
		operatorID, paise := of(item)
		n := walletOf(totals, operatorID)
		slots[i] = walletSlot{wallet: int64(n + 1), later: totals[n].items, laterPaise: totals[n].paise}
		totals[n].items++
		totals[n].paise += paise
	}
	return totals, slots
}

// walletOf returns the position of an operator's total.
func walletOf(totals []walletTotal, operatorID int64) int {
	n, _ := slices.BinarySearchFunc(totals, operatorID, func(t walletTotal, id int64) int { return cmp.Compare(t.operatorID, id) })
	return n
}
