package server

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
)

// paymentSettings are the part of Settings with the MSO's bank details, which the panel shows to
// operators.
var paymentSettings = []setting{
	{Key: "payments.account_name", Default: "", Doc: "name of the bank account that operators pay to, as the bank has it",
		Read: bankText(func(b *admin.BankDetails) *string { return &b.AccountName })},
	{Key: "payments.account_number", Default: "", Doc: "number of that account; empty = operators are shown none",
		Read: bankField(`^[0-9]{6,18}$`, "an account number of 6 to 18 digits, such as 50100123456789", func(b *admin.BankDetails) *string { return &b.AccountNumber })},
	{Key: "payments.ifsc", Default: "", Doc: "IFSC of its branch, such as HDFC0001234",
		Read: bankField(`^[A-Z]{4}0[A-Z0-9]{6}$`, "an IFSC such as HDFC0001234: four capital letters, a zero, and six letters or digits", func(b *admin.BankDetails) *string { return &b.IFSC })},
	{Key: "payments.bank", Default: "", Doc: "name of the bank and its branch",
		Read: bankText(func(b *admin.BankDetails) *string { return &b.Bank })},
	{Key: "payments.upi_id", Default: "", Doc: "UPI id (VPA) that operators pay to, such as sagar@hdfcbank; empty = operators are shown no QR code",
		Read: bankField(`^[A-Za-z0-9._-]{2,256}@[A-Za-z][A-Za-z0-9]{1,63}$`, "a UPI id such as sagar@hdfcbank", func(b *admin.BankDetails) *string { return &b.UPIID })},
	{Key: "payments.payee_name", Default: "", Doc: "name that UPI apps show to the payer; empty = payments.account_name",
		Read: bankText(func(b *admin.BankDetails) *string { return &b.PayeeName })},
}

// bankText reads a text that is shown to operators.
func bankText(field func(*admin.BankDetails) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		value = strings.TrimSpace(value)
		if why := subscription.Unprintable(value); why != "" {
			return errors.New(why)
		}
		if len([]rune(value)) > 100 {
			return errors.New("it has more than 100 characters")
		}
		*field(&c.Payments) = value
		return nil
	}
}

// bankField reads a text of a form, or an empty one. Blanks within are for people only.
func bankField(form, example string, field func(*admin.BankDetails) *string) func(*Config, string) error {
	fits := regexp.MustCompile(form)
	return func(c *Config, value string) error {
		value = strings.Join(strings.Fields(value), "")
		if value != "" && !fits.MatchString(value) {
			return fmt.Errorf("%q is not %s", value, example)
		}
		*field(&c.Payments) = value
		return nil
	}
}

// paymentCombinations are the bank details that belong together.
var paymentCombinations = []combination{
	{keys: []string{"payments.account_number", "payments.ifsc", "payments.account_name"}, check: func(c Config) (string, string) {
		b := c.Payments
		if b.AccountNumber == "" || b.IFSC != "" && b.AccountName != "" {
			return "", ""
		}
		return "an account without its IFSC and its name cannot be paid to", "give payments.ifsc and payments.account_name, too"
	}},
	{keys: []string{"payments.ifsc", "payments.account_number"}, check: func(c Config) (string, string) {
		if c.Payments.IFSC == "" || c.Payments.AccountNumber != "" {
			return "", ""
		}
		return "it stands without an account", "give payments.account_number, too"
	}},
	{keys: []string{"payments.upi_id", "payments.payee_name", "payments.account_name"}, check: func(c Config) (string, string) {
		b := c.Payments
		if b.UPIID == "" || b.PayeeName != "" || b.AccountName != "" {
			return "", ""
		}
		return "UPI apps show the payee's name, and none is given", "give payments.payee_name"
	}},
}
