package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Quote is what a request would come to if it were made now. Nothing is promised:
// the price, the customer and the wallet may change before it is.
type Quote struct {
	Kind Kind
	// Subscriber is the customer as they stand; of an activation, as they would be.
	Subscriber Subscriber
	Plan       subscription.Plan

	Amount       money.Amount
	WalletBefore money.Amount
	WalletAfter  money.Amount // below zero where the wallet does not suffice

	ExpiryPrevious time.Time // zero for an activation
	ExpiryNew      time.Time
	StartDate      time.Time // when the new cycle begins

	// TransactionID is the operation that the request's key stands for already: the
	// quote is of that one, and a request would change nothing. Empty if there is none.
	TransactionID string
}

// Preview says what Process would do now, by the same rules in the same order and
// with the same refusals, and does nothing. A refusal for want of money, or because
// the provider is out, comes with the quote.
func (p *Processor) Preview(ctx context.Context, r Request) (Quote, error) {
	for range reserveAttempts {
		w, misshapen := validate(r)
		facts, err := p.facts(ctx, r, w, misshapen == nil)
		if err != nil {
			return Quote{}, unavailable(fmt.Errorf("read the facts: %w", err))
		}
		if facts.KnownID != "" {
			known, found, err := p.store.OperationByKey(ctx, r.OperatorID, r.IdempotencyKey)
			switch {
			case err != nil:
				return Quote{}, unavailable(fmt.Errorf("look up the key: %w", err))
			case !found:
				continue // as Process does
			}
			if err := p.judgeReplay(r, known); err != nil {
				return Quote{}, err
			}
			quote := quoteOf(known)
			quote.WalletAfter, quote.TransactionID = known.WalletAfter(), known.ID
			return quote, nil
		}
		if facts.Maintenance {
			return Quote{}, inMaintenance()
		}
		draft, again, err := p.consider(ctx, "", r, w, misshapen, facts)
		switch {
		case again:
			continue
		case draft.PlanID == "":
			return Quote{}, err
		}
		draft.WalletBefore = facts.Balance
		quote := quoteOf(draft.Operation)
		quote.Plan = facts.Offer.Plan
		if facts.Subscriber != nil {
			quote.Subscriber = *facts.Subscriber
		}
		return quote, err
	}
	return Quote{}, unavailable(errors.New("the facts moved faster than the request could be judged"))
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
