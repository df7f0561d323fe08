package subscription

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// FinancialYear returns the Indian financial year that a moment falls in, from April to March
// by Indian time, as the year in which it begins.
func FinancialYear(at time.Time) int {
	at = at.In(IST)
	if at.Month() < time.April {
		return at.Year() - 1
	}
	return at.Year()
}

// ReceiptNumber is the number of a receipt. The numbers of an operator and a financial year are
// consecutive and begin with 1.
type ReceiptNumber struct {
	// Year is the financial year, as FinancialYear returns it.
	Year int
	// Number is 0 if the sale has no receipt number, because an earlier release settled it.
	Number int64
}

// String formats the number as it is printed, R26-27/000123: letters, digits, "-" and "/", at most
// 16 characters up to a thousand million receipts in a year, as the GST rules ask of serial
// numbers; it is unique among the operator's receipts. It is empty if there is no number.
func (n ReceiptNumber) String() string {
	if n.Number == 0 {
		return ""
	}
	return fmt.Sprintf("R%02d-%02d/%06d", n.Year%100, (n.Year+1)%100, n.Number)
}

// Dates returns when the financial year of the number begins, and when the next one does.
func (n ReceiptNumber) Dates() (from, before time.Time) {
	return time.Date(n.Year, time.April, 1, 0, 0, 0, 0, IST), time.Date(n.Year+1, time.April, 1, 0, 0, 0, 0, IST)
}

// receiptForm is how people type a number, without its blanks: R26-27/000123, 26-27/123, r2026-27-123.
var receiptForm = regexp.MustCompile(`^R?(?:20)?([0-9]{2})[-–]([0-9]{2})[-/]0*([1-9][0-9]{0,9})$`)

// ReadReceiptNumber reads a number as String formats it, or as people type it: without the R or
// the zeros, in small letters, with blanks.
func ReadReceiptNumber(text string) (n ReceiptNumber, ok bool) {
	text = strings.ToUpper(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text))
	parts := receiptForm.FindStringSubmatch(text)
	if parts == nil {
		return n, false
	}
	year, _ := strconv.Atoi(parts[1])
	next, _ := strconv.Atoi(parts[2])
	n.Number, _ = strconv.ParseInt(parts[3], 10, 64)
	n.Year = 2000 + year
	return n, next == (year+1)%100
}
