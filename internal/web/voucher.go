package web

import (
	"crypto/rand"
	"regexp"
)

// A form that makes something has a voucher from when it is first shown, and what it
// makes is made under it once: a second click, a page that is loaded again, and a
// form that is sent from the browser's memory find that it was done. Whoever makes it
// writes the voucher down with it, so that this holds on every node.

// NewVoucher makes a voucher: short enough to stand in a ledger, and never the same
// twice.
func NewVoucher() string { return rand.Text()[:12] }

var voucherShape = regexp.MustCompile(`^[A-Z2-7]{12}$`)

// Voucher is the one that the form which is shown, or was sent, brought along; false
// if it brought none.
func (v *Visit) Voucher() (voucher string, brought bool) {
	voucher = v.Filled("once", "")
	return voucher, voucherShape.MatchString(voucher)
}
