// Package demohistory gives a demo a past: three months in which made-up people
// were activated and renewed, mostly with success, so that every page has
// something to show. Nothing is written by hand. Each operation goes through the
// same processor, reviewer and service as a real one, with a clock that is moved
// through the three months and the simulator as the provider, so that the books
// are right because they were kept right. It refuses to add to a life that has
// begun without it.
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
	// Length is how much there is to tell.
	Length = 91 * 24 * time.Hour
	day    = 24 * time.Hour

	// Maker is who a demo that is to have a history is furnished by. Its name
	// in the log of acts tells such a demo from one without.
	Maker = "demo:history"

	// seed makes every history alike; only transaction ids are drawn anew.
	seed = 20_26_11

	// closingReference is of the top-up that ends the history. Where it was
	// credited, the history is whole.
	closingReference = "NEFT DEMO 00199999"
)

// Closing is what the first operator's wallet holds in the end, as that of a demo
// without a history does from the beginning.
var Closing = money.Paise(10_000_00)

// Store is where a history is kept.
type Store interface {
	admin.Store
	catalogue.Store
	operation.ReviewStore
}

// Config is the world that a history happens in.
type Config struct {
	Store Store
	Vault admin.Sealer
	// Provider is asked for what customers buy. Impatient is the same provider
	// for orders of which it is known beforehand that no answer will come.
	Provider, Impatient operation.Provider
	// Source is what that provider sells.
	Source catalogue.Source
	// Simulator is that provider itself, to be told how orders go.
	Simulator *simulator.Simulator

	// Requests is told of the calls that orders came by; nil, of none.
	Requests *requestlog.Log

	// What the service that is to go on with this world is told as well.
	ProviderName   string
	Timeout        time.Duration
	FirstCheck     time.Duration
	MaxInterval    time.Duration
	RefundAfter    time.Duration
	ActivationTerm subscription.ActivationTerm
	Fingerprints   operation.Fingerprints

	// Now is the real clock. Only what an earlier process left undone is
	// followed up by it.
	Now func() time.Time
	// Progress is told now and then how far the history has come.
	Progress func(done Progress)
}

// Progress is how far a history has come.
type Progress struct {
	Days, Of   int
	Operations int
}

// State is whether a store has a history.
type State int

// A history can be made where there is nothing yet, and ended where it was begun.
// What has a life of its own keeps it.
const (
	Possible State = iota
	Begun
	Whole
	Impossible
)

// Examine finds out whether a store has a history and, where one was begun, when
// it begins.
func Examine(ctx context.Context, store admin.Store) (state State, begins time.Time, err error) {
	operators, err := store.Operators(ctx)
	if err != nil || len(operators) == 0 {
		return Possible, begins, err
	}
	acts, err := store.AuditPage(ctx, admin.ListQuery{OperatorID: operators[0].ID})
	if err != nil {
		return Impossible, begins, err
	}
	state = Impossible
	for _, act := range acts {
		switch {
		case act.Actor == Maker && act.Action == "lco create":
			state, begins = Begun, act.At
		case state == Begun && act.Subject == closingSubject(operators[0].ID):
			return Whole, begins, nil
		}
	}
	return state, begins, nil
}

func closingSubject(operatorID int64) string {
	return fmt.Sprintf("wallet of lco %d, reference %s", operatorID, closingReference)
}

// Fill makes the history of the store's first operator, which Maker made at the
// given moment, and of its neighbours. A history that was begun is ended: what
// is there already is not done again, and of a whole one nothing is.
func Fill(ctx context.Context, config Config, begins time.Time) error {
	if state, _, err := Examine(ctx, config.Store); err != nil || state == Whole {
		return err
	}
	t, err := newTeller(ctx, config, begins)
	if err != nil {
		return fmt.Errorf("make the demo's history: %w", err)
	}
	if err := t.tell(ctx); err != nil {
		return fmt.Errorf("make the demo's history: %w", err)
	}
	return nil
}
