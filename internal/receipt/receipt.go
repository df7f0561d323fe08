// Package receipt has the receipts that an operator's customers get for their purchases, and the
// signed links under which a customer opens one. A receipt has nothing of the operator's wallet,
// commission or provider. It knows no HTTP and no SQL.
package receipt

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Receipt is what a customer is told about a purchase that succeeded.
type Receipt struct {
	// Number is zero for a purchase that was settled before receipts were numbered.
	Number        subscription.ReceiptNumber
	TransactionID string
	SettledAt     time.Time

	// Operator, Address and GSTIN are the seller's as they are now; the last two may be empty.
	OperatorID               int64
	Operator, Address, GSTIN string

	Customer, Mobile, SubscriberID string
	Plan                           string
	// From and Until are the term that was bought.
	From, Until time.Time
	// Amount is the price of the plan at the purchase.
	Amount money.Amount

	// PrintedAt is when it was printed or sent first; zero if it never was.
	PrintedAt time.Time
	// ReversedAt is when the purchase was reversed, which voids the receipt; zero if it was not.
	ReversedAt time.Time
}

// Forgotten reports whether the customer's personal data was removed.
func (r Receipt) Forgotten() bool { return r.Customer == subscription.ForgottenName }

// MaskedMobile returns the mobile number with its last four digits alone.
func (r Receipt) MaskedMobile() string {
	if len(r.Mobile) < 4 || r.Forgotten() {
		return ""
	}
	return strings.Repeat("•", len(r.Mobile)-4) + r.Mobile[len(r.Mobile)-4:]
}

// WhatsApp returns the address that opens WhatsApp with a message to the customer; empty if the
// number is not known any more.
func (r Receipt) WhatsApp(message string) string {
	if r.Forgotten() {
		return ""
	}
	// A blank as %20: WhatsApp does not read a plus as one.
	text := strings.ReplaceAll(url.QueryEscape(message), "+", "%20")
	return "https://wa.me/91" + url.PathEscape(r.Mobile) + "?text=" + text
}

// JobPart names some of an operator's bulk renewal: the first Limit purchases that succeeded, in the
// order of its rows, after the row numbered After.
type JobPart struct {
	OperatorID   int64
	JobID        string
	After, Limit int
}

// JobReceipt is the receipt of a row of a bulk renewal.
type JobReceipt struct {
	Receipt
	Row int
}

// Store keeps receipts. A settlement gives each purchase that succeeds its number.
type Store interface {
	// Receipt reads the receipt of an operator's purchase, or of any operator's if operatorID is
	// zero; false if there is none, or if it did not succeed.
	Receipt(ctx context.Context, operatorID int64, transactionID string) (r Receipt, found bool, err error)
	// PrintReceipt records that a receipt is being printed or sent, and reads it as it was before:
	// PrintedAt is zero the first time.
	PrintReceipt(ctx context.Context, operatorID int64, transactionID, by string, now time.Time) (r Receipt, found bool, err error)
	// JobReceipts reads receipts of a bulk renewal.
	JobReceipts(ctx context.Context, part JobPart) ([]JobReceipt, error)
	// PrintJobReceipts is PrintReceipt for receipts of a bulk renewal.
	PrintJobReceipts(ctx context.Context, part JobPart, by string, now time.Time) ([]JobReceipt, error)
	// NumberReceipts numbers the purchases that a binary without receipt numbers has settled
	// beside this one, a limited number in one call.
	NumberReceipts(ctx context.Context) (numbered int, more bool, err error)
}
