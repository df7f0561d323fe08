package web

import (
	"regexp"
	"strings"

	"github.com/coaxhq/coax/internal/web/look"
)

// ledgerForms are the prefixes of ledger descriptions, which are stored in English, with
// the texts to translate them by.
var ledgerForms = []struct{ begins, form string }{
	{"Advance renewal of ", look.Text("Advance renewal of %s")},
	{"Renewal of ", look.Text("Renewal of %s")},
	{"Activation of ", look.Text("Activation of %s")},
	{"Reversal: Advance renewal of ", look.Text("Reversal: advance renewal of %s")},
	{"Reversal: Renewal of ", look.Text("Reversal: renewal of %s")},
	{"Reversal: Activation of ", look.Text("Reversal: activation of %s")},
	{"Top-up ", look.Text("Top-up %s")},
	{"Adjustment: ", look.Text("Adjustment: %s")},
}

// LedgerText returns a ledger line's description with its prefix in the visitor's language, and
// without its voucher.
func (v *Visit) LedgerText(description string) string {
	description = WithoutVoucher(description)
	for _, known := range ledgerForms {
		if rest, is := strings.CutPrefix(description, known.begins); is {
			return v.T(known.form, rest)
		}
	}
	return description
}

var voucherNote = regexp.MustCompile(`\s*\(voucher [A-Z2-7]{12}\)$`)

// WithoutVoucher returns a stored reason without the voucher of the form that gave it.
func WithoutVoucher(reason string) string { return voucherNote.ReplaceAllString(reason, "") }
