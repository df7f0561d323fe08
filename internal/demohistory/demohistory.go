// Package demohistory makes three months of history for a demo: made-up customers who are
// activated and renewed, mostly with success, so that every page has something to show.
// Each operation goes through the same processor, reviewer and service as a real one, with
// a clock that is moved through the three months and the simulator as the provider. A store
// that was created without a history gets none.
package demohistory

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
)

const (
	// Length is how long a history is.
	Length = 91 * 24 * time.Hour
	day    = 24 * time.Hour

	// Actor is the actor that sets up a demo with a history. Its name in the audit log
	// tells such a demo from one without.
	Actor = "demo:history"

	// seed makes all histories equal, except for transaction ids.
	seed = 20_26_11

	// closingReference is the reference of the top-up that ends the history. If it was
	// credited, the history is complete.
	closingReference = "NEFT DEMO 00199999"
)

// Closing is the balance of the first operator's wallet in the end; it is the opening
// balance of a demo without a history.
var Closing = money.Paise(10_000_00)

// Store is the store that a history is written to.
type Store interface {
	admin.Store
	catalogue.Store
	operation.ReviewStore
}

// Config is the configuration of a history.
type Config struct {
	Store Store
	Vault admin.Sealer
	// Provider carries out the orders. ShortTimeout is the same provider with a short
	// timeout, for orders that will not be answered.
	Provider, ShortTimeout operation.Provider
	// Source is the provider's catalogue.
	Source catalogue.Source
	// Simulator is the provider itself, to script the outcomes of orders.
	Simulator *simulator.Simulator

	// Requests receives the API calls of the orders; nil for none.
	Requests *requestlog.Log

	// The settings of the service that will use the store.
	ProviderName   string
	Timeout        time.Duration
	FirstCheck     time.Duration
	MaxInterval    time.Duration
	RefundAfter    time.Duration
	ActivationTerm subscription.ActivationTerm
	Fingerprints   operation.FingerprintKeys
	ClientKeys     operation.ClientKeys

	// Now is the real clock, for the price comparison at the end.
	Now func() time.Time
	// Progress is called from time to time.
	Progress func(done Progress)
}

// Progress is how far a history has come.
type Progress struct {
	Days, Of   int
	Operations int
}

// State is whether a store has a history.
type State int

// A history can be made in an empty store, and completed if it is incomplete. It cannot be
// added to a store that was set up without one.
const (
	Possible State = iota
	Incomplete
	Complete
	Impossible
)

// Examine returns whether a store has a history, and when that begins.
func Examine(ctx context.Context, store admin.Store) (state State, begins time.Time, err error) {
	operators, err := store.Operators(ctx)
	if err != nil || len(operators) == 0 {
		return Possible, begins, err
	}
	entries, err := store.AuditPage(ctx, admin.ListQuery{OperatorID: operators[0].ID})
	if err != nil {
		return Impossible, begins, err
	}
	state = Impossible
	for _, entry := range entries {
		switch {
		case entry.Actor == Actor && entry.Action == "lco create":
			state, begins = Incomplete, entry.At
		case state == Incomplete && entry.Subject == closingSubject(operators[0].ID):
			return Complete, begins, nil
		}
	}
	return state, begins, nil
}

func closingSubject(operatorID int64) string {
	return fmt.Sprintf("wallet of lco %d, reference %s", operatorID, closingReference)
}

// Fill makes the history of the store's first operator, which Actor created at begins, and
// of two other operators. It completes an incomplete history without repeating anything,
// and does nothing if it is complete.
func Fill(ctx context.Context, config Config, begins time.Time) error {
	if state, _, err := Examine(ctx, config.Store); err != nil || state == Complete {
		return err
	}
	g, err := newGenerator(ctx, config, begins)
	if err != nil {
		return fmt.Errorf("make the demo's history: %w", err)
	}
	if err := g.run(ctx); err != nil {
		return fmt.Errorf("make the demo's history: %w", err)
	}
	return nil
}
