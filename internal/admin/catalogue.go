package admin

import (
	"context"
	"time"

	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/subscription"
)

// CatalogueState is the provider's catalogue as last seen, and when that was.
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
	// By is who made the change.
	By string
}

// CatalogueState reads a provider's catalogue as last seen.
func (s *Service) CatalogueState(ctx context.Context, provider string) (CatalogueState, error) {
	return s.store.CatalogueState(ctx, provider)
}

// PlanHistory lists every version of a plan, the newest first. Versions have no
// description: that is not stored.
func (s *Service) PlanHistory(ctx context.Context, id string) ([]PlanVersion, error) {
	return s.store.PlanHistory(ctx, id)
}
