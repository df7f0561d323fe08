package money

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
	"testing"
)

// FuzzAmount compares parsing, formatting and ShareHalfUp with math/big, which neither
// rounds nor overflows.
func FuzzAmount(f *testing.F) {
	for _, text := range []string{
		"0", "349", "349.5", "349.50", "-0.01", "+5", "007", "-0", "10000000000000.00", "10000000000000.01", "-10000000000000.01",
		"", ".", "1.", ".5", "1.005", "1,000", "1e3", "₹5", " 5", "+-5", "0x10", "१२", "null", `"5"`, "92233720368547758.08",
	} {
		f.Add(text, int64(34900), uint16(250))
	}
	f.Add("1", int64(-9223372036854775808), uint16(10000))
	f.Add("1", int64(1), uint16(5000))
	f.Fuzz(func(t *testing.T, text string, paise int64, basisPoints uint16) {
		checkParse(t, text)
		checkString(t, Paise(paise))
		if paise >= 0 && paise <= Max {
			checkShareHalfUp(t, Paise(paise), int(basisPoints))
		}
	})
}

var validAmount = regexp.MustCompile(`^[-+]?[0-9]+(\.[0-9]{1,2})?$`)

func checkParse(t *testing.T, text string) {
	t.Helper()
	got, err := Parse(text)
	want, isNumber := new(big.Rat), validAmount.MatchString(text)
	if isNumber {
		want.SetString(text)
		want.Mul(want, big.NewRat(100, 1))
		isNumber = new(big.Rat).Abs(want).Cmp(big.NewRat(Max, 1)) <= 0
	}
	if isNumber != (err == nil) || isNumber && want.Cmp(big.NewRat(got.Paise(), 1)) != 0 || err != nil && got != (Amount{}) {
		t.Errorf("Parse(%q) = %d paise, %v; want %s (an amount: %t)", text, got.Paise(), err, want, isNumber)
	}

	// JSON takes the same amounts, except those that are no JSON numbers, and white space.
	var inJSON Amount
	err = json.Unmarshal([]byte(text), &inJSON)
	trimmed := strings.Trim(text, " \t\r\n")
	if direct, directErr := Parse(trimmed); (err == nil) != (directErr == nil && json.Valid([]byte(text))) || err == nil && inJSON != direct {
		t.Errorf("JSON %q = %d paise, %v; Parse has %d, %v", text, inJSON.Paise(), err, direct.Paise(), directErr)
	}
}

var twoDecimals = regexp.MustCompile(`^-?(0|[1-9][0-9]*)\.[0-9][0-9]$`)

func checkString(t *testing.T, amount Amount) {
	t.Helper()
	text := amount.String()
	value, _ := new(big.Rat).SetString(text)
	if !twoDecimals.MatchString(text) || value == nil || value.Cmp(big.NewRat(amount.Paise(), 100)) != 0 || text == "-0.00" {
		t.Errorf("%d paise are written %q", amount.Paise(), text)
	}
	inJSON, err := json.Marshal(amount)
	if err != nil || string(inJSON) != text {
		t.Errorf("%d paise are %s in JSON, %v; want %s", amount.Paise(), inJSON, err, text)
	}
	if again, err := Parse(text); amount.Paise() >= -Max && amount.Paise() <= Max && (err != nil || again != amount) {
		t.Errorf("%s reads back as %s, %v", text, again, err)
	}
}

func checkShareHalfUp(t *testing.T, amount Amount, basisPoints int) {
	t.Helper()
	share := amount.ShareHalfUp(basisPoints)
	// Half up: the share is the whole number s with s - 1/2 <= exact < s + 1/2.
	exact := new(big.Rat).Mul(big.NewRat(amount.Paise(), 1), big.NewRat(int64(basisPoints), 10_000))
	off := exact.Sub(exact, big.NewRat(share.Paise(), 1))
	if off.Cmp(big.NewRat(-1, 2)) < 0 || off.Cmp(big.NewRat(1, 2)) >= 0 {
		t.Errorf("%d basis points of %d paise = %d; the difference is %s", basisPoints, amount.Paise(), share.Paise(), off)
	}
}
