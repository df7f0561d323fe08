package money

import (
	"encoding/json"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestAmountsAreWrittenWithTwoDecimals(t *testing.T) {
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

func TestParseReadsRupeesAndRefusesWhatItWouldHaveToGuess(t *testing.T) {
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

func TestWhatIsWrittenIsReadBack(t *testing.T) {
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

func TestAShareIsRoundedHalfUpToThePaisa(t *testing.T) {
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
