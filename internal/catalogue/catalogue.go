// Package catalogue says which plans can be bought and at what price. Prices
// count while the last good look at the provider's own catalogue is recent
// enough; after that they are openly not verified, and nothing is sold. What the
// provider no longer sells takes its plans out. It never makes up a price.
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
	// RecordComparison replaces what is known of the provider's catalogue.
	RecordComparison(ctx context.Context, comparison Comparison) error
	// RecordFailure notes that a comparison could not be made, and why.
	RecordFailure(ctx context.Context, provider, problem string, at time.Time) error
	// Compared is when the last good comparison was made, and when one was last
	// tried; zero if never.
	Compared(ctx context.Context, provider string) (good, tried time.Time, err error)
}

// Source is the provider's own catalogue.
type Source interface {
	Catalogue(ctx context.Context) ([]Component, error)
}

// Config is what a catalogue is told beside its parts.
type Config struct {
	Now      func() time.Time
	Provider string
	// Refresh is how often prices are compared; MaxAge is how old the last
	// good comparison may be.
	Refresh time.Duration
	MaxAge  time.Duration
}

const (
	// comparePoll is how often a node looks whether a comparison is due.
	comparePoll = 250 * time.Millisecond
	// comparePatience bounds a comparison that a caller waits for.
	comparePatience = 2 * time.Second
)

// Catalogue answers from the store each time: a price changed on one node a
// moment ago is the price here.
type Catalogue struct {
	store  Store
	source Source
	config Config
	// comparing has room for one: comparisons are made one at a time.
	comparing chan struct{}
}

// New returns a catalogue kept in the given store.
func New(store Store, source Source, config Config) *Catalogue {
	return &Catalogue{store: store, source: source, config: config, comparing: make(chan struct{}, 1)}
}

// Plans lists what can be bought now.
func (c *Catalogue) Plans(ctx context.Context) ([]subscription.Plan, error) {
	if err := c.verified(ctx); err != nil {
		return nil, err
	}
	plans, err := c.store.SellablePlans(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	return plans, nil
}

// Price returns a plan as it can be bought, given the offer of it that was read. If
// prices were not verified then, they are now, and the offer is to be read again.
func (c *Catalogue) Price(ctx context.Context, offer subscription.Offer) (plan subscription.Plan, again bool, err error) {
	if !c.recent(offer.VerifiedAt) {
		err := c.verified(ctx)
		return plan, err == nil, err
	}
	if !offer.Sellable {
		return plan, false, fault.New(fault.InvalidPlan, "There is no such plan in the catalogue. GET /plans lists what can be bought.")
	}
	return offer.Plan, false, nil
}

// verified refuses while prices are not verified. A node that slept through its
// comparisons makes up for one on the spot, and whoever asks meanwhile waits a
// moment for that one.
func (c *Catalogue) verified(ctx context.Context) error {
	if fresh, err := c.fresh(ctx); err != nil || fresh {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, comparePatience)
	defer cancel()
	select {
	case c.comparing <- struct{}{}:
		defer func() { <-c.comparing }()
		if fresh, err := c.fresh(ctx); err != nil || fresh {
			return err
		}
		if err := c.compare(waiting); err == nil {
			return nil
		}
	case <-waiting.Done():
	}
	return fault.New(fault.PlansUnavailable, "Prices cannot be verified with the provider at the moment. Retry later.")
}

func (c *Catalogue) fresh(ctx context.Context) (bool, error) {
	good, _, err := c.store.Compared(ctx, c.config.Provider)
	if err != nil {
		return false, unavailable(fmt.Errorf("read when prices were verified: %w", err))
	}
	return c.recent(good), nil
}

// recent reports whether prices that were verified then still count.
func (c *Catalogue) recent(verified time.Time) bool {
	return !verified.IsZero() && c.config.Now().Sub(verified) <= c.config.MaxAge
}

// Compare looks at the provider's catalogue now.
func (c *Catalogue) Compare(ctx context.Context) error {
	select {
	case c.comparing <- struct{}{}:
		defer func() { <-c.comparing }()
		return c.compare(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Catalogue) compare(ctx context.Context) error {
	components, err := c.source.Catalogue(ctx)
	if err != nil {
		// Noted for staff; what was known stays known, and ages.
		if noted := c.store.RecordFailure(context.WithoutCancel(ctx), c.config.Provider, err.Error(), c.config.Now()); noted != nil {
			return fmt.Errorf("note that prices could not be verified: %w", noted)
		}
		return err
	}
	return c.store.RecordComparison(ctx, Comparison{Provider: c.config.Provider, At: c.config.Now(), Components: components})
}

// EnsureCompared makes the first comparison ever, so that a new installation can set up
// plans as soon as it runs. Where one was ever tried it does nothing. A provider
// that does not answer holds it up for comparePatience, and no longer.
func (c *Catalogue) EnsureCompared(ctx context.Context) error {
	_, tried, err := c.store.Compared(ctx, c.config.Provider)
	if err != nil || !tried.IsZero() {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, comparePatience)
	defer cancel()
	return c.Compare(waiting)
}

// Run compares prices as often as they are to be, until ctx ends. Nodes share
// their comparisons: one that another made a moment ago is as good.
func (c *Catalogue) Run(ctx context.Context, problem func(error)) {
	ticker := time.NewTicker(comparePoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, tried, err := c.store.Compared(ctx, c.config.Provider)
		if err == nil && c.config.Now().Sub(tried) >= c.config.Refresh {
			err = c.Compare(ctx)
		}
		if err != nil && ctx.Err() == nil {
			problem(err)
		}
	}
}

func unavailable(cause error) error {
	return fault.New(fault.ServiceUnavailable, "The service is temporarily unavailable. Retry with backoff and the same Idempotency-Key.").Because(cause)
}
