// Package catalogue says which plans can be bought and at what price. What the
// provider no longer sells takes its plans out of the catalogue; it never makes
// up a price.
package catalogue

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

// Role tells a component that can stand alone from one that goes with another.
type Role string

// The two roles a provider's component can have in a plan.
const (
	Main  Role = "main"
	Addon Role = "addon"
)

// Component is something the provider sells, by the provider's own code.
type Component struct {
	Code string
	Name string
	Role Role
}

// Comparison is what a look at the provider's catalogue found, kept in the
// store so that every node shares it and a restart does not forget it.
type Comparison struct {
	Provider   string
	At         time.Time
	Components []Component
}

// Store is what the catalogue needs kept.
type Store interface {
	// SellablePlans lists the plans that are not retired and whose components
	// the provider sold when last compared, by id.
	SellablePlans(ctx context.Context) ([]subscription.Plan, error)
	// SellablePlan reads one of them.
	SellablePlan(ctx context.Context, id string) (plan subscription.Plan, found bool, err error)
	// RecordComparison replaces what is known of the provider's catalogue.
	RecordComparison(ctx context.Context, comparison Comparison) error
}

// Catalogue answers from the store each time: a price changed on one node a
// moment ago is the price here.
type Catalogue struct{ store Store }

// New returns a catalogue kept in the given store.
func New(store Store) *Catalogue { return &Catalogue{store: store} }

// Plans lists what can be bought now.
func (c *Catalogue) Plans(ctx context.Context) ([]subscription.Plan, error) {
	plans, err := c.store.SellablePlans(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	return plans, nil
}

// Plan returns one plan as it can be bought now.
func (c *Catalogue) Plan(ctx context.Context, id string) (subscription.Plan, error) {
	plan, found, err := c.store.SellablePlan(ctx, id)
	if err != nil {
		return plan, fault.New(fault.ServiceUnavailable, "The service is temporarily unavailable. Retry with backoff and the same Idempotency-Key.").
			Because(fmt.Errorf("read plan %s: %w", id, err))
	}
	if !found {
		return plan, fault.New(fault.InvalidPlan, "There is no such plan in the catalogue. GET /plans lists what can be bought.")
	}
	return plan, nil
}
