package web

import (
	"crypto/rand"
	"regexp"
)

// A form that creates something gets a voucher when it is first shown. The voucher is
// stored with what the form creates and can be used once, so that a second click, a
// reload or a form resent from the browser's history creates nothing, on any node.

// NewVoucher returns a new random voucher, short enough to be shown in the ledger.
func NewVoucher() string { return rand.Text()[:12] }

var voucherShape = regexp.MustCompile(`^[A-Z2-7]{12}$`)

// Voucher returns the voucher of the form that was sent or is shown again; false if it has
// none.
func (v *Visit) Voucher() (voucher string, brought bool) {
	voucher = v.FormValue("once", "")
	return voucher, voucherShape.MatchString(voucher)
}
