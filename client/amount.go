package client

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Amount is a sum of money in paise, exact. It is printed and encoded in JSON as
// rupees: 199.00.
type Amount int64

// String writes an amount in rupees with two decimals.
func (a Amount) String() string {
	sign, rest := "", uint64(a)
	if a < 0 {
		sign, rest = "-", -rest
	}
	return fmt.Sprintf("%s%d.%02d", sign, rest/100, rest%100)
}

// MarshalJSON writes a number with two decimals.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON reads a number of rupees without a float, which would not be exact.
func (a *Amount) UnmarshalJSON(text []byte) error {
	read, err := parseAmount(string(text))
	if err != nil {
		return err
	}
	*a = read
	return nil
}

func parseAmount(text string) (Amount, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) > 2 {
		return 0, fmt.Errorf("the amount %s has more than two decimals", text)
	}
	fraction += "00"[len(fraction):]
	paise, err := strconv.ParseInt(whole+fraction, 10, 64)
	if err != nil || strings.Trim(fraction, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no amount", text)
	}
	return Amount(paise), nil
}

// ist is Indian time, which the service uses.
var ist = time.FixedZone("IST", 5*60*60+30*60)

// Moment is a point in time as the service writes it, in Indian time. It is the
// zero time if the service sent null: see IsZero.
type Moment struct{ time.Time }

// String writes a moment as the service does.
func (m Moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.In(ist).Format(time.DateTime)
}

// MarshalJSON writes a moment as the service does.
func (m Moment) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("null"), nil
	}
	return []byte(strconv.Quote(m.String())), nil
}

// UnmarshalJSON reads both formats: with an offset, and in Indian time.
func (m *Moment) UnmarshalJSON(text []byte) error {
	if string(text) == "null" || string(text) == `""` {
		*m = Moment{}
		return nil
	}
	quoted := strings.Trim(string(text), `"`)
	at, err := time.ParseInLocation(time.DateTime, quoted, ist)
	if err != nil {
		at, err = time.Parse(time.RFC3339, quoted)
	}
	if err != nil {
		return fmt.Errorf("%s is no date and time", text)
	}
	*m = Moment{at}
	return nil
}
