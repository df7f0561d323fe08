package money

import (
	"encoding/json"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestAmount_String(t *testing.T) {
	rows := []struct {
		paise int64
		want  string
	}{
		{0, "0.00"}, {1, "0.01"}, {9, "0.09"}, {10, "0.10"}, {100, "1.00"}, {19900, "199.00"},
		{-1, "-0.01"}, {-12345, "-123.45"}, {Max, "10000000000000.00"},
	}
	for _, row := range rows {
		if got := Paise(row.paise).String(); got != row.want {
			t.Errorf("%d paise = %s; want %s", row.paise, got, row.want)
		}
		text, err := json.Marshal(map[string]Amount{"amount": Paise(row.paise)})
		if err != nil || string(text) != `{"amount":`+row.want+`}` {
			t.Errorf("JSON of %d paise = %s, %v; want the number %s", row.paise, text, err, row.want)
		}
	}
}

func TestParse(t *testing.T) {
	good := map[string]int64{
		"0": 0, "349": 34900, "349.5": 34950, "349.50": 34950, "0.01": 1, "-5.00": -500, "+5": 500, "007": 700,
		"10000000000000.00": Max,
	}
	for text, want := range good {
		if got, err := Parse(text); err != nil || got.Paise() != want {
			t.Errorf("Parse(%q) = %d, %v; want %d", text, got.Paise(), err, want)
		}
	}
	bad := []string{
		"", " ", ".", "1.", ".5", "1.005", "1,000", "1e3", "₹5", "5 ", " 5", "--5", "+-5", "0x10", "१२", "NaN", "1.-1",
		"10000000000000.01", "99999999999999999999",
	}
	for _, text := range bad {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %s; want a refusal", text, got)
		}
	}
}

func TestAmount_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Paise(rapid.Int64Range(-Max, Max).Draw(t, "paise"))
		var got Amount
		text, err := json.Marshal(want)
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || got != want {
			t.Fatalf("%s came back as %s, %v", want, got, err)
		}
	})
}

func TestAmount_Arithmetic(t *testing.T) {
	rows := []struct {
		a, b, sum, difference int64
		less                  bool
	}{
		{34900, 19900, 54800, 15000, false},
		{19900, 34900, 54800, -15000, true},
		{1, 1, 2, 0, false},
		{-5, 5, 0, -10, true},
		{0, 1, 1, -1, true},
		{Max, -Max, 0, 2 * Max, false},
	}
	for _, row := range rows {
		a, b := Paise(row.a), Paise(row.b)
		if got := a.Add(b).Paise(); got != row.sum {
			t.Errorf("%s + %s = %d paise; want %d", a, b, got, row.sum)
		}
		if got := a.Sub(b).Paise(); got != row.difference {
			t.Errorf("%s − %s = %d paise; want %d", a, b, got, row.difference)
		}
		if got := a.Less(b); got != row.less {
			t.Errorf("%s less than %s: %t; want %t", a, b, got, row.less)
		}
	}
}

func TestAmount_Sign(t *testing.T) {
	for paise, sign := range map[int64]int{-Max: -1, -1: -1, 0: 0, 1: 1, Max: 1} {
		a := Paise(paise)
		if a.IsNegative() != (sign < 0) || a.IsPositive() != (sign > 0) || a.IsZero() != (sign == 0) {
			t.Errorf("%s: negative %t, positive %t, zero %t", a, a.IsNegative(), a.IsPositive(), a.IsZero())
		}
		if got := a.Neg().Paise(); got != -paise {
			t.Errorf("−(%s) = %d paise; want %d", a, got, -paise)
		}
	}
	if !(Amount{}).IsZero() {
		t.Error("the zero value is not zero")
	}
}

func TestShareHalfUp_NegativePanics(t *testing.T) {
	for _, row := range []struct {
		paise int64
		bps   int
		fine  bool
	}{{-1, 250, false}, {34900, -1, false}, {-1, -1, false}, {0, 0, true}} {
		func() {
			defer func() {
				if refused := recover() != nil; refused == row.fine {
					t.Errorf("%d bps of %d paise: refused %t; want %t", row.bps, row.paise, refused, !row.fine)
				}
			}()
			Paise(row.paise).ShareHalfUp(row.bps)
		}()
	}
}

func TestShareHalfUp_Rounding(t *testing.T) {
	rows := []struct {
		paise int64
		bps   int
		want  int64
	}{
		{34900, 250, 873}, // 872.5 goes up
		{34900, 0, 0},     // no commission
		{34900, 10000, 34900},
		{1, 4999, 0}, // 0.4999
		{1, 5000, 1}, // exactly half
		{19900, 333, 663},
		{Max, 10000, Max},
		{281479271743489, 65535, 1844674407370955}, // a product of 2^64 − 1: adding the rounding term overflows 64 bits
	}
	for _, row := range rows {
		if got := Paise(row.paise).ShareHalfUp(row.bps).Paise(); got != row.want {
			t.Errorf("%d bps of %d paise = %d; want %d", row.bps, row.paise, got, row.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		paise := rapid.Int64Range(0, Max).Draw(t, "paise")
		bps := rapid.IntRange(0, 10000).Draw(t, "bps")
		want := new(big.Int).Mul(big.NewInt(paise), big.NewInt(int64(bps)))
		want.Add(want, big.NewInt(5000)).Quo(want, big.NewInt(10000))
		if got := Paise(paise).ShareHalfUp(bps).Paise(); got != want.Int64() {
			t.Fatalf("%d bps of %d = %d; want %s", bps, paise, got, want)
		}
	})
}
