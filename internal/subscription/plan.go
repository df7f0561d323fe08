package subscription

import (
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// PlanType tells plans of one provider component from those of two.
type PlanType string

// A combo plan activates an add-on beside its main component.
const (
	Standard PlanType = "standard"
	Combo    PlanType = "combo"
)

// MinPrice is the least a plan may cost.
var MinPrice = money.Paise(1)

// Plan is what an operator can buy for a subscriber.
type Plan struct {
	ID          string
	Name        string
	Description string
	Price       money.Amount
	// Months is the duration, each month counted as 30 days.
	Months int
	Type   PlanType
	// Main and Addon are the provider's codes for what the plan is made of;
	// Addon is empty unless the plan is a combo.
	Main    string
	Addon   string
	Retired bool
	// Version grows with every change of the plan. A reservation carries the
	// version it was priced from, so that no old price is ever charged.
	Version   int64
	UpdatedAt time.Time
}

// Offer is how a plan stood in the catalogue at one moment.
type Offer struct {
	Plan Plan
	// Sellable: the plan is there and not retired, and the provider sold all that it
	// is made of when that was last compared.
	Sellable bool
	// VerifiedAt is when it was; zero if never.
	VerifiedAt time.Time
}

// Commission is the MSO's share of a price, in whole paise, half a paisa being
// one. The rate is in basis points.
func Commission(price money.Amount, basisPoints int) money.Amount {
	return price.ShareHalfUp(basisPoints)
}
