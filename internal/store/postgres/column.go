package postgres

import (
	"cmp"
	"slices"
	"time"
)

// A statement for many facts gets them by columns, as arrays that it puts side by
// side again: however many there are, it is the same text, prepared once.

// column is one value of each of many.
func column[From, To any](all []From, of func(From) To) []To {
	values := make([]To, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	return values
}

// possibleText is a text in a column; nil, which is NULL, if it is empty.
func possibleText(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// possibleMillis is a moment in a column; nil, which is NULL, if it is zero.
func possibleMillis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

// purse is what the facts of a batch that concern one wallet add up to.
type purse struct {
	operatorID, paise, facts int64
}

// turn is where a fact stands: which purse is its own, counted from one as SQL does,
// how many facts come behind it there, and how much they move. What the wallet comes
// to after all of them thereby says what it came to after each.
type turn struct {
	purse, later, laterPaise int64
}

// purses adds up facts by their wallets, which come in the order of their keys, and
// says where each stands.
func purses[Fact any](all []Fact, of func(Fact) (operatorID, paise int64)) ([]purse, []turn) {
	var sums []purse
	for _, fact := range all {
		operatorID, _ := of(fact)
		sums = append(sums, purse{operatorID: operatorID})
	}
	byOperator := func(a, b purse) int { return cmp.Compare(a.operatorID, b.operatorID) }
	slices.SortFunc(sums, byOperator)
	sums = slices.Compact(sums)
	turns := make([]turn, len(all))
	for i, fact := range slices.Backward(all) {
		operatorID, paise := of(fact)
		n, _ := slices.BinarySearchFunc(sums, purse{operatorID: operatorID}, byOperator)
		turns[i] = turn{purse: int64(n + 1), later: sums[n].facts, laterPaise: sums[n].paise}
		sums[n].facts++
		sums[n].paise += paise
	}
	return sums, turns
}
