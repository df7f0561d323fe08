package operation

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Quote is what a request would do if it were made now. It is not binding: price, customer and
// wallet may change before the request.
type Quote struct {
	Kind Kind
	// Subscriber is the customer today; for an activation, the one that it would create.
	Subscriber Subscriber
	Plan       subscription.Plan

	Amount       money.Amount
	WalletBefore money.Amount
	WalletAfter  money.Amount // negative if the balance is too low

	ExpiryPrevious time.Time // zero for an activation
	ExpiryNew      time.Time
	StartDate      time.Time // when the new cycle begins

	// TransactionID is the operation that exists for the request's key; the quote then
	// describes it, and the request would change nothing. Empty for a new key.
	TransactionID string
}

// Preview returns what Process would do, by the same checks in the same order, and writes
// nothing. If the balance is too low or the provider is down, the quote comes beside the error. If
// another operation of the subscriber is in progress, so do the subscriber and the price; the
// expiry depends on its outcome.
func (p *Processor) Preview(ctx context.Context, r Request) (Quote, error) {
	for range reserveAttempts {
		in, invalid := validate(r)
		snapshot, err := p.readSnapshot(ctx, r, in, invalid == nil)
		if err != nil {
			return Quote{}, unavailable(fmt.Errorf("read snapshot: %w", err))
		}
		if snapshot.KnownID != "" {
			known, found, err := p.operationOf(ctx, r.OperatorID, r.IdempotencyKey)
			switch {
			case err != nil:
				return Quote{}, unavailable(fmt.Errorf("look up the key: %w", err))
			case !found:
				continue // as Process does
			}
			check := p.checkReplay
			if known.KeyUnknown() {
				check = func(r Request, known Operation) error { return checkUnclaimed(r, in, invalid, known) }
			}
			if err := check(r, known); err != nil {
				return Quote{}, err
			}
			quote := quoteOf(known)
			quote.WalletAfter, quote.TransactionID = known.WalletAfter(), known.ID
			return quote, nil
		}
		if snapshot.Maintenance {
			return Quote{}, inMaintenance(in, invalid)
		}
		draft, stale, err := p.prepare(ctx, "", r, in, invalid, snapshot)
		switch {
		case stale:
			continue
		case draft.PlanID != "":
		case fault.Is(err, fault.OperationInProgress) && r.Kind != Activate:
			return Quote{Kind: r.Kind, Subscriber: *snapshot.Subscriber, Amount: snapshot.Offer.Plan.Price}, err
		default:
			return Quote{}, err
		}
		draft.WalletBefore = snapshot.Balance
		quote := quoteOf(draft.Operation)
		quote.Plan = snapshot.Offer.Plan
		if snapshot.Subscriber != nil {
			quote.Subscriber = *snapshot.Subscriber
		}
		return quote, err
	}
	return Quote{}, unavailable(errAlwaysStale)
}

func quoteOf(op Operation) Quote {
	return Quote{
		Kind:       op.Kind,
		Subscriber: Subscriber{ID: op.SubscriberID, Mobile: op.Mobile, Name: op.CustomerName, Expires: op.ExpiryPrevious},
		Plan: subscription.Plan{
			ID: op.PlanID, Name: op.PlanName, Price: op.Amount, Months: op.PlanMonths, Main: op.Main, Addon: op.Addon, Version: op.PlanVersion,
		},
		Amount: op.Amount, WalletBefore: op.WalletBefore, WalletAfter: op.WalletBefore.Sub(op.Amount),
		ExpiryPrevious: op.ExpiryPrevious, ExpiryNew: op.ExpiryPlanned, StartDate: op.CycleStartsAt,
	}
}
