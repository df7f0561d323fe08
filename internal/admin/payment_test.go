package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

func TestCheckPaymentReference(t *testing.T) {
	for _, tt := range []struct {
		method    Method
		text, got string
	}{
		{MethodUPI, "631245678901", "631245678901"},
		{MethodUPI, " 6312 4567-8901 ", "631245678901"},
		{MethodIMPS, "６３１２45678901", "631245678901"},
		{MethodNEFT, "sbin526306123456", "SBIN526306123456"},
		{MethodNEFT, "N306261234567890", "N306261234567890"},
		{MethodRTGS, "ICICR52026110512345678", "ICICR52026110512345678"},
		{MethodOther, "Slip 000451/2", "Slip 000451/2"},
	} {
		if got, err := CheckPaymentReference(tt.method, tt.text); err != nil || got != tt.got {
			t.Errorf("%s %q is %q, %v; want %q", tt.method, tt.text, got, err, tt.got)
		}
	}
	for _, tt := range []struct {
		method     Method
		text, want string
	}{
		{MethodUPI, "", "1 to 60"}, {MethodUPI, "63124567890", "12 digits"}, {MethodUPI, "6312456789012", "12 digits"}, {MethodIMPS, "SBIN52630612", "12 digits"},
		{MethodNEFT, "631245678901", "16 or 22"}, {MethodRTGS, "ICICR5202611051234567890", "16 or 22"}, {MethodRTGS, "ICICR520261105123456é8", "16 or 22"},
		{MethodOther, "12", "4 to 40"}, {MethodOther, "!!!!!", "4 to 40"}, {"cash", "123456", "not known"},
	} {
		if got, err := CheckPaymentReference(tt.method, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %q is %q, %v; want a refusal with %q", tt.method, tt.text, got, err, tt.want)
		}
	}
}

func TestNewPaymentCode_IsShortAndRecognised(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		code := NewPaymentCode()
		if !ValidPaymentCode(code) || len(code) != 9 || seen[code] {
			t.Fatalf("code %q is not new and valid", code)
		}
		seen[code] = true
	}
	for _, code := range []string{"", "CXP", "CXP7K2M9", "CXP7K2M9QQ", "CXP7K2M9I", "cxp7k2m9q", "ABC7K2M9Q"} {
		if ValidPaymentCode(code) {
			t.Errorf("%q counts as a code", code)
		}
	}
}

func TestMatchPayments(t *testing.T) {
	rupees := func(n int64) money.Amount { return money.Paise(n * 100) }
	open := []Announcement{
		{ID: 1, Code: "CXP7K2M9Q", Method: MethodUPI, Amount: rupees(5000), Reference: "631245678901", State: Announced},
		{ID: 2, Code: "CXP3M4N5P", Method: MethodNEFT, Amount: rupees(100000), Reference: "SBIN526306123456", State: Announced},
		{ID: 3, Code: "CXP8A9B7C", Method: MethodUPI, Amount: rupees(700), Reference: "631200000003", State: Announced},
		{ID: 4, Code: "CXP8A9B7D", Method: MethodUPI, Amount: rupees(700), Reference: "631200000004", State: Rejected},
		{ID: 5, Code: "CXP8A9B7E", Method: MethodOther, Amount: rupees(700), Reference: "NEFT", State: Announced},
		{ID: 6, Code: "CXP8A9B7F", Method: MethodUPI, Amount: rupees(700), Reference: "919876543210", State: Announced}, // a phone number
		{ID: 7, Code: "CXP8A9B7G", Method: MethodOther, Amount: rupees(700), Reference: "631200000007", State: Announced},
	}
	for _, tt := range []struct {
		name  string
		lines []BankLine
		want  string // announcement:line
	}{
		{"HDFC fills the reference with zeros", []BankLine{{Amount: rupees(5000), Narration: "UPI-RAVI-RAVI@OK-HDFC0001234 · 0000631245678901"}}, "1:1"},
		{"SBI breaks it", []BankLine{{Amount: rupees(5000), Narration: "BY TRANSFER-UPI/CR/6312 45678901/RAVI"}}, "1:1"},
		{"ICICI puts slashes around it", []BankLine{{Amount: rupees(5000), Narration: "UPI/631245678901/x"}}, "1:1"},
		{"letters in front", []BankLine{{Amount: rupees(5000), Narration: "UPI631245678901 RAVI"}}, "1:1"},
		{"small letters", []BankLine{{Amount: rupees(100000), Narration: "neft cr-sbin526306123456-meera"}}, "2:1"},
		{"another amount", []BankLine{{Amount: rupees(4999), Narration: "UPI/631245678901"}}, "1:1"},
		{"our code and the bank's reference", []BankLine{{Amount: rupees(700), Narration: "UPI/631277777777/CXP8A9B7C", Reference: "631277777777"}}, "3:1"},
		{"our code alone", []BankLine{{Amount: rupees(700), Narration: "CASH CXP8A9B7C", Reference: "BANK-ABC"}}, "3:1"},
		{"reference before code", []BankLine{{Amount: rupees(700), Narration: "UPI/631245678901/CXP8A9B7C"}}, "1:1"},
		{"of two lines the right amount", []BankLine{{Amount: rupees(4999), Narration: "631245678901"}, {Amount: rupees(5000), Narration: "631245678901"}}, "1:2"},
		{"two lines of the right amount", []BankLine{{Amount: rupees(5000), Narration: "631245678901"}, {Amount: rupees(5000), Narration: "631245678901"}}, "1:1"},
		{"part of a longer number", []BankLine{{Amount: rupees(5000), Narration: "UPI/16312456789012/RAVI"}}, ""},
		{"across a slash", []BankLine{{Amount: rupees(5000), Narration: "UPI/631245/678901/RAVI"}}, ""},
		{"one that was rejected", []BankLine{{Amount: rupees(700), Narration: "UPI/631200000004"}}, ""},
		{"nothing known", []BankLine{{Amount: rupees(5000), Narration: "UPI/631299999999/RAVI"}}, ""},
		{"the bank's reference, and another's in the narration", []BankLine{{Amount: rupees(5000), Narration: "UPI/631299999999/FOR 631245678901", Reference: "631299999999"}}, ""},
		{"the bank's reference is announced as a receipt's", []BankLine{{Amount: rupees(700), Narration: "UPI", Reference: "631200000007"}}, "7:1"},
		{"a receipt's number in the narration", []BankLine{{Amount: rupees(700), Narration: "UPI/631200000007"}}, ""},
		{"a word of every narration", []BankLine{{Amount: rupees(700), Narration: "NEFT CR-SBIN0000454-MEERA"}}, ""},
		{"the phone number of a UPI id", []BankLine{{Amount: rupees(700), Narration: "UPI-RAVI-919876543210@YBL-HDFC0001234"}}, ""},
		{"the second UPI id of a phone number", []BankLine{{Amount: rupees(700), Narration: "UPI-RAVI-919876543210-2@YBL"}}, ""},
		{"reference in one line, code in another", []BankLine{{Amount: rupees(700), Narration: "UPI/CXP8A9B7C", Reference: "631277777777"}, {Amount: rupees(700), Narration: "UPI", Reference: "631200000003"}}, "3:2"},
		{"of two lines with the code the one that is not credited", []BankLine{{Amount: rupees(700), Narration: "UPI/CXP8A9B7C", Reference: "631277777777", CreditedTo: 1}, {Amount: rupees(800), Narration: "UPI/CXP8A9B7C", Reference: "631277777778"}}, "3:2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.lines {
				tt.lines[i].Statement, tt.lines[i].Number = 1, i+1
				if tt.lines[i].Reference == "" {
					tt.lines[i].Reference = fmt.Sprintf("%s%d", generatedReferencePrefix, i)
				}
			}
			var got []string
			for _, m := range MatchPayments(tt.lines, open) {
				got = append(got, fmt.Sprintf("%d:%d", m.Announcement, m.Number))
			}
			if strings.Join(got, ",") != tt.want {
				t.Errorf("matched %q; want %q", got, tt.want)
			}
		})
	}
}

// The same lines have the same keys whenever they are uploaded, and equal lines of one file
// have different ones.
func TestLineKey_CountsEqualLines(t *testing.T) {
	line := BankLine{PaidOn: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), Amount: money.Paise(500), Narration: "CASH DEPOSIT"}
	keys := func() []string {
		seen := map[string]int{}
		return []string{lineKey(line, seen), lineKey(line, seen)}
	}
	first, second := keys(), keys()
	if first[0] == first[1] {
		t.Error("two equal lines of a file have one key")
	}
	if first[0] != second[0] || first[1] != second[1] {
		t.Error("uploaded again, lines have other keys")
	}
}
