package postgres

import "time"

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

// turn is where a fact stands among those of its wallet: how many come behind it
// in the batch, and how much they move. What the wallet comes to after all of them
// thereby says what it came to after each.
type turn struct {
	later, laterPaise int64
}

// purses adds up facts by their wallets, and says where each stands.
func purses[Fact any](all []Fact, of func(Fact) (operatorID, paise int64)) ([]purse, []turn) {
	var sums []purse
	turns := make([]turn, len(all))
	at := map[int64]int{}
	for i := len(all) - 1; i >= 0; i-- {
		operatorID, paise := of(all[i])
		n, known := at[operatorID]
		if !known {
			n = len(sums)
			at[operatorID] = n
			sums = append(sums, purse{operatorID: operatorID})
		}
		turns[i] = turn{later: sums[n].facts, laterPaise: sums[n].paise}
		sums[n].facts++
		sums[n].paise += paise
	}
	return sums, turns
}
