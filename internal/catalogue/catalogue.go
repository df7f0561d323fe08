// Package catalogue lists the plans that can be bought and their prices. Prices are verified while
// the last successful comparison with the provider's catalogue is recent; otherwise nothing is sold.
// A plan with a component that the provider no longer sells cannot be bought.
package catalogue

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

// Role is what a component is in a plan: its main component or an add-on.
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

// Comparison is the provider's catalogue at one moment. It is stored, so that all nodes share it and
// it survives a restart.
type Comparison struct {
	Provider   string
	At         time.Time
	Components []Component
}

// Store is the storage of plans and comparisons.
type Store interface {
	// SellablePlans lists the plans that are not retired and whose components
	// the provider sold when last compared, by id, with the time of the last successful
	// comparison; zero if there was none, or there is no such plan.
	SellablePlans(ctx context.Context, provider string) (plans []subscription.Plan, verified time.Time, err error)
	// RecordComparison replaces what is known of the provider's catalogue.
	RecordComparison(ctx context.Context, comparison Comparison) error
	// RecordFailure records a failed comparison and its error.
	RecordFailure(ctx context.Context, provider, problem string, at time.Time) error
	// Compared returns the times of the last successful comparison and of the last attempt;
	// zero if there was none.
	Compared(ctx context.Context, provider string) (good, tried time.Time, err error)
}

// Source is the provider's own catalogue.
type Source interface {
	Catalogue(ctx context.Context) ([]Component, error)
}

// Config holds the settings of a Catalogue.
type Config struct {
	Now      func() time.Time
	Provider string
	// Refresh is how often prices are compared; MaxAge is how old the last successful
	// comparison may be.
	Refresh time.Duration
	MaxAge  time.Duration
}

const (
	// comparePoll is how often a node checks whether a comparison is due.
	comparePoll = 250 * time.Millisecond
	// compareTimeout limits a comparison that a caller waits for.
	compareTimeout = 2 * time.Second
)

// Catalogue reads the store each time, so that a price changed on one node counts on all.
type Catalogue struct {
	store  Store
	source Source
	config Config
	// comparing is a semaphore: one comparison at a time.
	comparing chan struct{}
	reads     *sharedRead[sellable]
}

// sellable is what SellablePlans returns. Callers share it and do not change it.
type sellable struct {
	plans    []subscription.Plan
	verified time.Time
}

// New returns a Catalogue.
func New(store Store, source Source, config Config) *Catalogue {
	return &Catalogue{store: store, source: source, config: config, comparing: make(chan struct{}, 1), reads: newSharedRead[sellable]()}
}

// Plans lists what can be bought now. Callers share the list and do not change it.
func (c *Catalogue) Plans(ctx context.Context) ([]subscription.Plan, error) {
	found, err := c.sellable(ctx)
	if err == nil && !c.recent(found.verified) {
		if err := c.verified(ctx); err != nil {
			return nil, err
		}
		found, err = c.sellable(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	return found.plans, nil
}

func (c *Catalogue) sellable(ctx context.Context) (sellable, error) {
	return c.reads.do(ctx, func(ctx context.Context) (found sellable, err error) {
		found.plans, found.verified, err = c.store.SellablePlans(ctx, c.config.Provider)
		return found, err
	})
}

// Price returns the plan of an offer. If prices were not verified when the offer was read, they are
// verified now, and stale is true: the offer must be read again.
func (c *Catalogue) Price(ctx context.Context, offer subscription.Offer) (plan subscription.Plan, stale bool, err error) {
	if !c.recent(offer.VerifiedAt) {
		err := c.verified(ctx)
		return plan, err == nil, err
	}
	if !offer.Sellable {
		return plan, false, fault.New(fault.InvalidPlan, "There is no such plan in the catalogue. GET /plans lists what can be bought.")
	}
	return offer.Plan, false, nil
}

// verified returns an error while prices are not verified. If the last comparison is too old, it
// makes one now; concurrent callers wait for that one.
func (c *Catalogue) verified(ctx context.Context) error {
	if fresh, err := c.fresh(ctx); err != nil || fresh {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, compareTimeout)
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

// recent reports whether a comparison at that time still counts.
func (c *Catalogue) recent(verified time.Time) bool {
	return !verified.IsZero() && c.config.Now().Sub(verified) <= c.config.MaxAge
}

// Compare makes a comparison now.
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
		// Recorded for staff. The last successful comparison stays, and ages.
		if noted := c.store.RecordFailure(context.WithoutCancel(ctx), c.config.Provider, err.Error(), c.config.Now()); noted != nil {
			return fmt.Errorf("record that prices could not be verified: %w", noted)
		}
		return err
	}
	return c.store.RecordComparison(ctx, Comparison{Provider: c.config.Provider, At: c.config.Now(), Components: components})
}

// EnsureCompared makes the first comparison of a new installation, so that plans can be set up at
// once. If one was ever tried, it does nothing. It takes at most compareTimeout.
func (c *Catalogue) EnsureCompared(ctx context.Context) error {
	_, tried, err := c.store.Compared(ctx, c.config.Provider)
	if err != nil || !tried.IsZero() {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	return c.Compare(waiting)
}

// Run makes comparisons every Refresh until ctx ends. Nodes share them.
func (c *Catalogue) Run(ctx context.Context, onError func(error)) {
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
			onError(err)
		}
	}
}

func unavailable(cause error) error {
	return fault.New(fault.ServiceUnavailable, "The service is temporarily unavailable. Retry with backoff and the same Idempotency-Key.").Because(cause)
}
