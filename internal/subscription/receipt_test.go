package subscription

import (
	"strings"
	"testing"
	"time"
)

func TestFinancialYear_BeginsInAprilByIndianTime(t *testing.T) {
	tests := []struct {
		at   string
		want int
	}{
		{"2027-03-31T18:29:59.999Z", 2026}, // a millisecond before midnight in India
		{"2027-03-31T18:30:00Z", 2027},
		{"2027-04-01T00:00:00Z", 2027},
		{"2026-12-31T18:30:00Z", 2026}, // a new year, not a new financial year
		{"2026-03-31T23:59:59+05:30", 2025},
		{"2026-04-01T00:00:00+05:30", 2026},
	}
	for _, test := range tests {
		at, err := time.Parse(time.RFC3339Nano, test.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := FinancialYear(at); got != test.want {
			t.Errorf("FinancialYear(%s) = %d; want %d", test.at, got, test.want)
		}
	}
}

func TestReceiptNumber_FitsTheGSTRule(t *testing.T) {
	tests := []struct {
		number ReceiptNumber
		want   string
	}{
		{ReceiptNumber{2026, 1}, "R26-27/000001"},
		{ReceiptNumber{2026, 1_234_567}, "R26-27/1234567"},
		{ReceiptNumber{2099, 999_999_999}, "R99-00/999999999"},
		{ReceiptNumber{2109, 7}, "R09-10/000007"},
		{ReceiptNumber{}, ""},
	}
	for _, test := range tests {
		got := test.number.String()
		if got != test.want {
			t.Errorf("%+v is %q; want %q", test.number, got, test.want)
		}
		if len(got) > 16 || strings.Trim(got, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-/") != "" {
			t.Errorf("%q is not a serial number by the GST rules", got)
		}
	}
}

func TestIsGSTIN_ChecksFormAndCheckCharacter(t *testing.T) {
	// Examples that other software for GST is tested with.
	for _, valid := range []string{"27AAPFU0939F1ZV", "29AAGCB7383J1Z4", "24AAACC1206D1ZM", "07AAACC1206D1ZI", "33AAACC1206D1ZN"} {
		if !IsGSTIN(valid) {
			t.Errorf("%s is refused", valid)
		}
		// Every change of one character, and every swap of two neighbours, must be noticed.
		for i := range valid {
			for _, c := range []byte(gstinDigits) {
				if changed := valid[:i] + string(c) + valid[i+1:]; changed != valid && IsGSTIN(changed) {
					t.Errorf("%s is accepted; %s was mistyped", changed, valid)
				}
			}
			if i > 0 && valid[i] != valid[i-1] && IsGSTIN(valid[:i-1]+valid[i:i+1]+valid[i-1:i]+valid[i+1:]) {
				t.Errorf("two characters of %s may be swapped at %d", valid, i)
			}
		}
	}
	for _, invalid := range []string{"", "27AAPFU0939F1Z", "27AAPFU0939F1ZVV", "27aapfu0939f1zv", "27AAPFU0939F0ZV", "27AAPFU0939F1YV", "2७AAPFU0939F1Z", "00AAPFU0939F1ZV", " 7AAPFU0939F1ZV"} {
		if HasGSTINForm(invalid) || IsGSTIN(invalid) {
			t.Errorf("%q is accepted", invalid)
		}
	}
	if !HasGSTINForm("27AAPFU0939F1ZA") || IsGSTIN("27AAPFU0939F1ZA") {
		t.Error("a wrong check character is a mistake of form, or none")
	}
}

func TestReadReceiptNumber(t *testing.T) {
	for text, want := range map[string]ReceiptNumber{
		"R26-27/000123": {2026, 123}, "r26-27/000123": {2026, 123}, "26-27/123": {2026, 123}, " R 26-27 / 000 123 ": {2026, 123}, "26-27/000001": {2026, 1},
		"R2026-27/123": {2026, 123}, "26–27/123": {2026, 123}, "R26-27-123": {2026, 123}, "R99-00/7": {2099, 7}, "20-21/5": {2020, 5}, "R26-27/1234567890": {2026, 1234567890},
		"R26-28/123": {}, "26-27": {}, "26-27/": {}, "26-27/0": {}, "26-27/x": {}, "X26-27/1": {}, "R26-27/12345678901": {}, "9800000001": {}, "": {},
	} {
		got, ok := ReadReceiptNumber(text)
		if ok != (want != ReceiptNumber{}) || ok && got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, ok, want)
		}
	}
	for _, n := range []ReceiptNumber{{2026, 1}, {2026, 999999}, {2031, 1000000}} {
		if got, ok := ReadReceiptNumber(n.String()); !ok || got != n {
			t.Errorf("%s is read as %v, %v", n, got, ok)
		}
		if from, before := n.Dates(); FinancialYear(from) != n.Year || FinancialYear(before.Add(-1)) != n.Year || FinancialYear(before) != n.Year+1 {
			t.Errorf("%s is from %s to %s", n, from, before)
		}
	}
}
