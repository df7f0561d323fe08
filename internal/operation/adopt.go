package operation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

// An adopted operation is one that the provider has carried out and that our store had forgotten, as
// after a restore from an older backup. A member of staff records it from the provider's list: it is
// charged and extends the subscriber as the forgotten one did, under the same transaction id.
//
// Its idempotency key is not known, only the client key that the order carried. In place of the key
// it has AdoptedKey, under which a repeated request is recognised. The first request that fits claims
// the operation: from then on it has that request's key and fingerprint, like any other.

// adoptedPrefix begins what an adopted operation has in place of its idempotency key. A slash is not
// allowed in the keys of clients, and pages and bulk jobs make none with it.
const adoptedPrefix = "adopted/"

// AdoptedKey returns what an adopted operation has in place of its idempotency key. Without a client key
// it is made from the reference, and no request is recognised.
func AdoptedKey(clientKey, reference string) string {
	if clientKey == "" {
		return adoptedPrefix + reference
	}
	return adoptedPrefix + clientKey
}

// Adopted returns what an adopted operation may have in place of an idempotency key: one for each
// client key of All.
func (k ClientKeys) Adopted(operatorID int64, idempotencyKey string) []string {
	keys := k.All(operatorID, idempotencyKey)
	for i, key := range keys {
		keys[i] = adoptedPrefix + key
	}
	return keys
}

// ofOperation returns the client key that an operation's orders carry.
func (k ClientKeys) ofOperation(op Operation) string {
	if !op.KeyUnknown() {
		return k.Of(op.OperatorID, op.IdempotencyKey)
	}
	if key := strings.TrimPrefix(op.IdempotencyKey, adoptedPrefix); key != op.ID {
		return key
	}
	return ""
}

// Adopted reports whether the operation was recorded from the provider's list.
func (o Operation) Adopted() bool { return !o.CarriedOutAt.IsZero() }

// KeyUnknown reports whether the operation was adopted and not claimed yet: its idempotency key is not
// known.
func (o Operation) KeyUnknown() bool { return strings.HasPrefix(o.IdempotencyKey, adoptedPrefix) }

// KnownKey is the idempotency key; empty if it is not known.
func (o Operation) KnownKey() string {
	if o.KeyUnknown() {
		return ""
	}
	return o.IdempotencyKey
}

// ForgottenName is the name of a subscriber whose activation was adopted, until the request is repeated:
// the provider's list has no names.
const ForgottenName = "(name not known)"

// Adoption is a forgotten order with everything that is needed to record its operation.
type Adoption struct {
	// Main is the order of the main component; Addon the one of the add-on, if that was carried
	// out, and AddonAttempt how often it had been rejected before.
	Main         ListedOrder
	Addon        *ListedOrder
	AddonAttempt int
	// Source is where the orders were listed, such as "the provider's list".
	Source string

	OperatorID int64
	// Channel is how the request came in, as far as known. Nearly all come through the API.
	Channel  Channel
	Provider string
	// Plan is the version that was sold when the order was carried out.
	Plan subscription.Plan
	// Subscriber is the customer as read; nil for an activation.
	Subscriber *Subscriber
	// Term applies to an activation whose order has no expiry.
	Term subscription.ActivationTerm
}

// AdoptedOperation is an adoption as it is written: the operation is reserved and settled in one
// transaction.
type AdoptedOperation struct {
	Draft
	Settlement Settlement
}

// Adopt returns the operation of an adoption by a person, at a time and for a reason. It is recorded as
// of now; only its cycle begins when the order was carried out. The expiry is the one that the provider
// was given, or, if it keeps none, the one that our rules gave at that time.
func Adopt(a Adoption, actor, reason string, now time.Time) (AdoptedOperation, error) {
	carried := a.Main.CarriedOutAt.UTC().Truncate(time.Millisecond)
	d := Draft{
		Operation: Operation{
			ID: a.Main.Reference, OperatorID: a.OperatorID, IdempotencyKey: AdoptedKey(a.Main.ClientKey, a.Main.Reference), Fingerprint: Fingerprint{Sum: []byte{}},
			Kind: a.Main.Kind, Channel: cmp.Or(a.Channel, API), Actor: actor, SubscriberID: a.Main.SubscriberID, CustomerName: ForgottenName, Mobile: a.Main.Mobile,
			PlanID: a.Plan.ID, PlanVersion: a.Plan.Version, PlanName: a.Plan.Name, PlanMonths: a.Plan.Months, Main: a.Plan.Main, Addon: a.Plan.Addon,
			Amount: a.Plan.Price, CycleStartsAt: carried, State: Processing, Epoch: 1, Provider: a.Provider, CarriedOutAt: carried, CreatedAt: now,
		},
		Profile: Profile{ConnectionType: subscription.DefaultConnectionType},
	}
	if s := a.Subscriber; s != nil {
		d.CustomerName, d.SubscriberVersion, d.ExpiryPrevious = s.Name, s.Version, s.Expires
		d.Profile = Profile{}
	}
	switch a.Main.Kind {
	case Activate:
		d.ExpiryPlanned = subscription.ActivatedUntil(carried, a.Term, a.Plan.Months)
	case Renew:
		d.ExpiryPlanned = subscription.RenewedUntil(d.ExpiryPrevious, carried, a.Plan.Months)
	case AdvanceRenew:
		d.CycleStartsAt = subscription.AdvanceCycleStart(d.ExpiryPrevious, carried)
		d.ExpiryPlanned = subscription.AdvancedUntil(d.ExpiryPrevious, d.CycleStartsAt, carried, a.Plan.Months)
	}
	if !a.Main.ExpiresAt.IsZero() {
		d.ExpiryPlanned = a.Main.ExpiresAt.UTC().Truncate(time.Millisecond)
	}
	s := Settlement{
		OperationID: d.ID, Epoch: d.Epoch, To: Success, At: now, Actor: actor, Why: reason, ProviderTransaction: a.Main.Transaction,
	}
	listed := []ListedOrder{a.Main}
	switch {
	case a.Plan.Addon == "":
	case a.Addon == nil:
		// It is asked about before it is ordered: only the list may lack it.
		d.AddonState, s.AddonState, s.AddonNextAt = AddonWaiting, AddonWaiting, now
	default:
		d.AddonState, s.AddonState, s.AddonAttempt = AddonWaiting, AddonSuccess, a.AddonAttempt
		listed = append(listed, *a.Addon)
	}
	for _, order := range listed {
		detail, err := json.Marshal(evidenceOf(order, a.Source))
		if err != nil {
			return AdoptedOperation{}, fmt.Errorf("write the order of %s: %w", order.Reference, err)
		}
		s.Calls = append(s.Calls, ProviderCall{
			Reference: order.Reference, What: "list", Component: order.Component,
			Reply:   Reply{Outcome: Confirmed, Transaction: order.Transaction, Detail: string(detail)},
			AskedAt: now, AnsweredAt: now,
		})
	}
	return AdoptedOperation{Draft: d, Settlement: s}, nil
}

// evidence is an entry of the provider's list as it is stored with the operation's provider calls. The
// audit compares the operation with it.
type evidence struct {
	Source       string `json:"source"`
	Kind         Kind   `json:"kind"`
	SubscriberID string `json:"subscriber_id"`
	Mobile       string `json:"mobile"`
	Months       int    `json:"months,omitempty"`
	ExpiresAt    string `json:"expires_at,omitempty"`
	CarriedOutAt string `json:"carried_out_at"`
	ClientKey    string `json:"client_key,omitempty"`
}

func evidenceOf(o ListedOrder, source string) evidence {
	e := evidence{
		Source: source, Kind: o.Kind, SubscriberID: o.SubscriberID, Mobile: o.Mobile, Months: o.Months, ClientKey: o.ClientKey,
		CarriedOutAt: o.CarriedOutAt.UTC().Format(time.RFC3339Nano),
	}
	if !o.ExpiresAt.IsZero() {
		e.ExpiresAt = o.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	return e
}

// KeyClaim gives an adopted operation the key and fingerprint of the request that was repeated.
type KeyClaim struct {
	OperationID string
	// Adopted is what the operation has in place of the key.
	Adopted        string
	IdempotencyKey string
	Fingerprint    Fingerprint
	// Name and Profile are the customer's, for an activation: they replace ForgottenName.
	Name    string
	Profile Profile
}

// operationOf finds the operation of a key, also an adopted one that was not claimed yet.
func (p *Processor) operationOf(ctx context.Context, operatorID int64, key string) (Operation, bool, error) {
	op, found, err := p.store.OperationByKey(ctx, operatorID, key)
	if found || err != nil {
		return op, found, err
	}
	if adopted := p.config.ClientKeys.Adopted(operatorID, key); len(adopted) > 0 {
		op, found, err = p.store.AdoptedByKey(ctx, operatorID, adopted)
	}
	return op, found, err
}

// fits reports whether a request is one that an adopted operation may have come of. The provider's list
// does not have more of the request.
func fits(r Request, in input, op Operation) bool {
	if r.Kind != op.Kind || in.planID != op.PlanID {
		return false
	}
	if r.Kind == Activate || in.subscriberID == "" {
		return in.mobile == op.Mobile
	}
	return in.subscriberID == op.SubscriberID
}

// checkUnclaimed refuses a request that does not fit an adopted operation whose key it has.
func checkUnclaimed(r Request, in input, invalid error, op Operation) error {
	if invalid != nil || !fits(r, in, op) {
		return keyReused()
	}
	return nil
}

// claimAdopted gives an adopted operation the key of a request that fits it. If another request was
// faster, the operation is compared with this one like any other.
func (p *Processor) claimAdopted(ctx context.Context, r Request, in input, invalid error, op Operation) (Operation, error) {
	if err := checkUnclaimed(r, in, invalid, op); err != nil {
		return op, err
	}
	made, err := fingerprint(p.config.Fingerprints, r, p.config.Fingerprints.CurrentID())
	if err != nil {
		return op, err
	}
	claim := KeyClaim{OperationID: op.ID, Adopted: op.IdempotencyKey, IdempotencyKey: r.IdempotencyKey, Fingerprint: made}
	if op.Kind == Activate {
		claim.Name, claim.Profile = in.name, in.profile
	}
	claimed, err := p.store.ClaimAdopted(ctx, claim)
	if err != nil {
		return op, unavailable(fmt.Errorf("claim the adopted operation %s: %w", op.ID, err))
	}
	return claimed, p.checkReplay(r, claimed)
}

// Claim gives an adopted operation the key of a request that has come again, as Process does, and
// orders nothing. A request that fits none changes nothing.
func (p *Processor) Claim(ctx context.Context, r Request) error {
	op, found, err := p.operationOf(ctx, r.OperatorID, r.IdempotencyKey)
	switch {
	case err != nil:
		return unavailable(fmt.Errorf("look up the key: %w", err))
	case !found || !op.KeyUnknown():
		return nil
	}
	in, invalid := validate(r)
	if _, err = p.claimAdopted(ctx, r, in, invalid, op); fault.CodeOf(err) == fault.IdempotencyKeyReused {
		return nil // another request was faster
	}
	return err
}

func keyReused() error {
	return fault.New(fault.IdempotencyKeyReused, "This Idempotency-Key was used for another request. Use a new key for a new business action.")
}
