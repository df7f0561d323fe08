package operation

import (
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// duplicateWindow is how long after a renewal another one of the same subscriber and plan is
// refused as a duplicate.
const duplicateWindow = 2 * time.Minute

func sprint(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// checkCustomer runs the business checks in the order that the contract promises: the customer
// exists, has no open operation, was not renewed just now, has not that plan already.
func checkCustomer(operatorID int64, kind Kind, plan subscription.Plan, snapshot Snapshot, now time.Time) error {
	customer := snapshot.Subscriber
	if kind == Activate {
		switch {
		case customer == nil:
			return nil
		case customer.Expires.IsZero():
			return inProgress(operatorID, *customer)
		}
		return fault.New(fault.SubscriberExists, "This mobile number is registered already. Renew the subscriber instead.")
	}
	switch {
	case customer == nil || subscription.IsForgotten(customer.Mobile):
		return fault.New(fault.SubscriberNotFound, "There is no such subscriber under this account.")
	case customer.OpenOperation != "":
		return inProgress(operatorID, *customer)
	case snapshot.Duplicate != "":
		return fault.New(fault.DuplicateRequest,
			"This subscriber was renewed with this plan less than two minutes ago, by transaction %s.", snapshot.Duplicate).
			With("previous_transaction_id", snapshot.Duplicate)
	}
	if kind == AdvanceRenew {
		if active, is := subscription.PlanAt(snapshot.Cycles, customer.Expires, now); is && active == plan.ID {
			return fault.New(fault.PlanAlreadyActive, "Plan %s is the subscriber's active plan. Renew it, or book another plan in advance.", plan.ID)
		}
	}
	return nil
}

// inProgress names the open operation, unless it belongs to another operator who is activating
// the same mobile number.
func inProgress(operatorID int64, customer Subscriber) error {
	if customer.OperatorID != operatorID || customer.OpenOperation == "" {
		return fault.New(fault.OperationInProgress, "Another operation for this customer is under way. Retry in a few seconds with the same Idempotency-Key.")
	}
	return fault.New(fault.OperationInProgress,
		"Another operation for this customer is under way: transaction %s. Retry in a few seconds with the same Idempotency-Key.", customer.OpenOperation).
		With("transaction_id", customer.OpenOperation)
}

func checkBalance(balance, price money.Amount) error {
	if !balance.Less(price) {
		return nil
	}
	shortfall := price.Sub(balance)
	return fault.New(fault.InsufficientBalance, "The wallet is short by %s: it holds %s, and the plan costs %s.", shortfall, balance, price).
		With("wallet_balance", balance).With("required_amount", price).With("shortfall", shortfall).With("currency", money.Currency)
}

// draft computes the operation: price, customer, cycle and expiry.
func (p *Processor) draft(id string, r Request, in input, plan subscription.Plan, snapshot Snapshot, now time.Time) (Draft, error) {
	made, err := fingerprint(p.config.Fingerprints, r, p.config.Fingerprints.CurrentID())
	if err != nil {
		return Draft{}, err
	}
	d := Draft{
		Operation: Operation{
			ID: id, OperatorID: r.OperatorID, IdempotencyKey: r.IdempotencyKey, Fingerprint: made,
			Kind: r.Kind, Channel: r.Channel, Actor: r.Actor,
			PlanID: plan.ID, PlanVersion: plan.Version, PlanName: plan.Name, PlanMonths: plan.Months,
			Main: plan.Main, Addon: plan.Addon, Amount: plan.Price,
			State: Processing, Epoch: 1, Node: p.config.Node, LeaseUntil: now.Add(p.lease()),
			Provider: p.config.ProviderName, CreatedAt: now,
		},
		Profile:     in.profile,
		AdoptedKeys: p.config.ClientKeys.Adopted(r.OperatorID, r.IdempotencyKey),
	}
	if plan.Addon != "" {
		d.AddonState = AddonWaiting
	}
	if r.Kind == Activate {
		d.SubscriberID, d.CustomerName, d.Mobile = snapshot.FreeID, in.name, in.mobile
		d.CycleStartsAt = now
		d.ExpiryPlanned = subscription.ActivatedUntil(now, p.config.ActivationTerm, plan.Months)
		return d, nil
	}
	customer := snapshot.Subscriber
	d.SubscriberID, d.CustomerName, d.Mobile, d.SubscriberVersion = customer.ID, customer.Name, customer.Mobile, customer.Version
	d.ExpiryPrevious = customer.Expires
	if r.Kind == Renew {
		d.CycleStartsAt = now
		d.ExpiryPlanned = subscription.RenewedUntil(customer.Expires, now, plan.Months)
		return d, nil
	}
	d.CycleStartsAt = subscription.AdvanceCycleStart(customer.Expires, now)
	d.ExpiryPlanned = subscription.AdvancedUntil(customer.Expires, d.CycleStartsAt, now, plan.Months)
	return d, nil
}

// LedgerText is the description of a successful operation's ledger entry.
func (o Operation) LedgerText() string {
	what := map[Kind]string{Activate: "Activation", Renew: "Renewal", AdvanceRenew: "Advance renewal"}[o.Kind]
	text := fmt.Sprintf("%s of %s, %s", what, o.SubscriberID, o.PlanName)
	if o.Channel == API {
		text += apiMark
	}
	return text
}

// apiMark ends the description of a ledger line that came of an API request.
const apiMark = " [API]"

// Code is the result code for the state that the operation is in.
func (o Operation) Code() fault.Code {
	switch o.State {
	case Success:
		return fault.OK
	case Failed:
		return fault.ProviderError
	case NeedsReview:
		return fault.PendingReview
	}
	return fault.RequestInProgress
}

// Message describes the operation's state to people.
func (o Operation) Message() string {
	switch o.State {
	case Success:
		switch o.Kind {
		case Activate:
			return sprint("Subscriber %s was activated.", o.SubscriberID)
		case Renew:
			return sprint("Subscriber %s was renewed.", o.SubscriberID)
		}
		return sprint("The next cycle of subscriber %s was booked.", o.SubscriberID)
	case Failed:
		return "The operation was not carried out, and nothing was charged. A new attempt needs a new Idempotency-Key."
	case NeedsReview:
		return "The provider has not confirmed the outcome yet; the amount is held. Do not start another operation, follow this one with GET /transaction."
	}
	return "The operation is being processed. Follow it with GET /transaction."
}
