package subscription

import (
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// PlanType is whether a plan has one component or two.
type PlanType string

// A combo plan has an add-on besides its main component.
const (
	Standard PlanType = "standard"
	Combo    PlanType = "combo"
)

// MinPrice is the minimum price of a plan.
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
	// Version grows with every change of the plan. A reservation names the version of its
	// price, so that an old price is never charged.
	Version   int64
	UpdatedAt time.Time
}

// Offer is a plan in the catalogue at one moment.
type Offer struct {
	Plan Plan
	// Sellable: the plan exists, is not retired, and the provider sold all its components at
	// the last comparison.
	Sellable bool
	// VerifiedAt is the time of that comparison; zero if there was none.
	VerifiedAt time.Time
}

// Commission is the MSO's share of a price, rounded half up to the paisa.
func Commission(price money.Amount, basisPoints int) money.Amount {
	return price.ShareHalfUp(basisPoints)
}
