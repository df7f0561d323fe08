// Package money has exact amounts of rupees, in whole paise. It uses no floating point, and a method
// that rounds says so in its name.
package money

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Currency is the only currency the service knows.
const Currency = "INR"

// Max is the largest amount that Parse accepts: a million crore rupees. Sums of many amounts stay far
// below the limit of int64, and every amount is exact for clients that read JSON numbers as doubles.
const Max int64 = 1_000_000_000_000_000

// Amount is a number of paise. The field is unexported, so that other packages cannot add a plain 5
// or multiply by 1.18. The zero value is no money.
type Amount struct{ paise int64 }

// Paise makes an amount from a whole number of paise.
func Paise(n int64) Amount { return Amount{n} }

// Paise returns the amount as a whole number of paise.
func (a Amount) Paise() int64 { return a.paise }

// Add and Sub are exact; amounts are bounded by Max, so they cannot overflow.
func (a Amount) Add(b Amount) Amount { return Amount{a.paise + b.paise} }

// Sub returns a − b.
func (a Amount) Sub(b Amount) Amount { return Amount{a.paise - b.paise} }

// Neg returns −a.
func (a Amount) Neg() Amount { return Amount{-a.paise} }

// Less reports whether a < b.
func (a Amount) Less(b Amount) bool { return a.paise < b.paise }

// IsNegative reports whether a is below zero.
func (a Amount) IsNegative() bool { return a.paise < 0 }

// IsPositive reports whether a is above zero.
func (a Amount) IsPositive() bool { return a.paise > 0 }

// IsZero reports whether a is zero.
func (a Amount) IsZero() bool { return a.paise == 0 }

// ShareHalfUp returns a share of a non-negative amount, in basis points (1/100
// of a per cent), rounded half up to the paisa.
func (a Amount) ShareHalfUp(basisPoints int) Amount {
	if a.paise < 0 || basisPoints < 0 {
		panic("money: ShareHalfUp of a negative amount or rate")
	}
	hi, lo := bits.Mul64(uint64(a.paise), uint64(basisPoints))
	lo, carry := bits.Add64(lo, 5_000, 0)
	share, _ := bits.Div64(hi+carry, lo, 10_000)
	return Amount{int64(share)}
}

// String writes the amount as rupees with two decimals: 199.00, -0.05.
func (a Amount) String() string { return string(a.Append(nil)) }

// MarshalJSON writes a JSON number with exactly two decimals.
func (a Amount) MarshalJSON() ([]byte, error) { return a.Append(nil), nil }

// Append appends the text of String to b.
func (a Amount) Append(b []byte) []byte {
	magnitude := uint64(a.paise)
	if a.paise < 0 {
		b = append(b, '-')
		magnitude = -magnitude
	}
	b = strconv.AppendUint(b, magnitude/100, 10)
	b = append(b, '.')
	if magnitude%100 < 10 {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, magnitude%100, 10)
}

// UnmarshalJSON parses what MarshalJSON writes. A number with more than two decimals is refused, not
// rounded.
func (a *Amount) UnmarshalJSON(text []byte) error {
	got, err := Parse(string(text))
	if err != nil {
		return err
	}
	*a = got
	return nil
}

var errShape = errors.New("write rupees with at most two decimals, such as 349 or 349.50")

// Parse parses rupees: digits, optionally a sign, a point and one or two decimals. It never rounds.
func Parse(text string) (Amount, error) {
	digits, negative := text, false
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		negative = digits[0] == '-'
		digits = digits[1:]
	}
	rupees, decimals, point := strings.Cut(digits, ".")
	if rupees == "" || (point && decimals == "") || len(decimals) > 2 || !allDigits(rupees) || !allDigits(decimals) {
		return Amount{}, fmt.Errorf("%q is not an amount: %w", text, errShape)
	}
	for len(decimals) < 2 {
		decimals += "0"
	}
	paise, err := strconv.ParseInt(rupees+decimals, 10, 64)
	if err != nil || paise > Max {
		return Amount{}, fmt.Errorf("%q is more than the service keeps (at most %s)", text, Amount{Max})
	}
	if negative {
		paise = -paise
	}
	return Amount{paise}, nil
}

func allDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
