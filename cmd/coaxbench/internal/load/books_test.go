package load

import (
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/money"
)

// sound is the books of ten renewals, of which seven were answered plainly, two
// are in review, and one had no answer and has succeeded all the same.
func sound() Books {
	b := Books{Answered: Tally{Done: 7, Pending: 2, Unknown: 1, Refused: 3}}
	b.Stored.Success, b.Stored.NeedsReview, b.Stored.Failed = 8, 2, 1
	b.Credited = money.Paise(100_000_00)
	b.Charged, b.Held = money.Paise(8*199_00), money.Paise(2*199_00)
	b.Balance = b.Credited.Sub(b.Charged).Sub(b.Held)
	return b
}

func TestBooks_Consistent(t *testing.T) {
	if problems := sound().Problems(); len(problems) > 0 {
		t.Errorf("sound books have problems: %q", problems)
	}
}

func TestBooks_ReportMismatches(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*Books)
		want  string
	}{
		"an answered renewal is missing":   {func(b *Books) { b.Answered.Done = 9 }, "8 operations succeeded in the store; the server answered 200 to 9"},
		"one more than was ever answered":  {func(b *Books) { b.Answered = Tally{Done: 5, Pending: 2} }, "answered 200 to 5 and left 2 open"},
		"an open one that nobody was told": {func(b *Books) { b.Answered = Tally{Done: 8} }, "2 operations are open in the store; the server left 0 open"},
		"a wrong charge":                   {func(b *Books) { b.Charged = b.Charged.Add(money.Paise(1)) }, "1592.01 was charged for 8 operations at 199.00; want 1592.00"},
		"a paisa is missing":               {func(b *Books) { b.Balance = b.Balance.Sub(money.Paise(1)) }, "the wallets hold 98009.99"},
	} {
		b := sound()
		test.spoil(&b)
		if got := strings.Join(b.Problems(), "\n"); !strings.Contains(got, test.want) {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
	}
}
