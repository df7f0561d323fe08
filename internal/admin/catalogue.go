package admin

import (
	"context"
	"time"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/subscription"
)

// CatalogueState is what is known of the provider's catalogue, and since when.
type CatalogueState struct {
	Provider string
	// VerifiedAt is the last good comparison, AttemptedAt the last of any kind;
	// zero if there was none. Problem is why the last one failed; empty if it did
	// not.
	VerifiedAt, AttemptedAt time.Time
	Problem                 string
	Components              []ComponentState
}

// ComponentState is something the provider sells, or has sold.
type ComponentState struct {
	catalogue.Component
	// Sellable: the provider had it when last compared. SeenAt is when it last had.
	Sellable bool
	SeenAt   time.Time
}

// PlanVersion is a plan as it was from a moment on.
type PlanVersion struct {
	subscription.Plan
	// By is who made it so.
	By string
}

// CatalogueState reads what is known of a provider's catalogue.
func (d *Service) CatalogueState(ctx context.Context, provider string) (CatalogueState, error) {
	return d.store.CatalogueState(ctx, provider)
}

// PlanHistory lists every version of a plan, the newest first. A version has no
// description: that is not kept.
func (d *Service) PlanHistory(ctx context.Context, id string) ([]PlanVersion, error) {
	return d.store.PlanHistory(ctx, id)
}
