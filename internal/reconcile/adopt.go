package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Adopters is what the books know about a forgotten order.
type Adopters interface {
	// SubscribersNamed lists the subscribers with an id or a mobile number, of any operator.
	SubscribersNamed(ctx context.Context, id, mobile string) ([]operation.Subscriber, error)
	// PlanVersions lists all versions of all plans; UpdatedAt is since when each was sold.
	PlanVersions(ctx context.Context) ([]subscription.Plan, error)
	// OperationsOf lists a subscriber's operations.
	OperationsOf(ctx context.Context, subscriberID string) ([]operation.Operation, error)
	// KeyOwners tells whose some client keys are and what was asked for under them, as far as that is
	// known: from bulk renewals that wait, and from requests since a moment, which clients have repeated.
	KeyOwners(ctx context.Context, since time.Time, clientKeys []string) (map[string]KeyOwner, error)
}

// KeyOwner is where a request with a client key came from.
type KeyOwner struct {
	OperatorID int64
	Channel    operation.Channel
	// Plans are those that were asked for: more than one if a client used the key again for
	// something else.
	Plans []string
}

// Choice is what is known beforehand about forgotten orders.
type Choice struct {
	// OperatorID is whose an activation is of which nothing tells it; PlanID is the plan where
	// several fit. Operators and Plans are the same for single orders, by reference, and come
	// before what anything else tells. All are a person's, and may be empty.
	OperatorID int64
	PlanID     string
	Operators  map[string]int64
	Plans      map[string]string

	Provider string
	Term     subscription.ActivationTerm
	// Keys recognise a request that has come again already.
	Keys operation.ClientKeys
	// Source is where the orders are listed.
	Source string
}

// Missing is what a person has to give before a forgotten order can be adopted.
type Missing struct {
	// Operator: nothing tells whose an activation is.
	Operator bool
	// Plans are those that fit, as sold when the order was carried out; one of them has to be given.
	// Empty if the plan is known, or if none fits.
	Plans []subscription.Plan
	// Asked are the plans that clients have asked for under the order's key, if those leave it open.
	Asked []string

	// whyPlan is why the plan is not known; mayWait: a repeated request may still tell it.
	whyPlan string
	mayWait bool
}

// Any reports whether anything has to be given.
func (m Missing) Any() bool { return m.Operator || len(m.Plans) > 0 }

// Adoptable reports whether a difference is a forgotten order or reversal that can be adopted as it is.
func (d Difference) Adoptable() bool {
	return d.Reversible() || d.Kind == TheirsOnly && d.Obstacle == "" && !d.Missing.Any()
}

// explain says why an order cannot be adopted as it is, with the flags of coax reconcile that give what is
// missing; empty if it can.
func explain(reference, obstacle string, missing Missing) string {
	var why []string
	if missing.Operator {
		why = append(why, fmt.Sprintf("nothing here tells whose it is: give its operator with --lco %s=ID, or wait until its client repeats the request", reference))
	}
	if obstacle != "" {
		why = append(why, obstacle)
	}
	if len(missing.Plans) > 0 {
		flags := make([]string, len(missing.Plans))
		for i, p := range missing.Plans {
			flags[i] = fmt.Sprintf("--plan %s=%s", reference, p.ID)
		}
		give := missing.whyPlan + ": give the plan that was sold: " + strings.Join(flags, " or ")
		if missing.mayWait {
			give += ", or wait until its client repeats the request"
		}
		why = append(why, give)
	}
	return strings.Join(why, "; ")
}

// plan says for each forgotten order what it would be adopted as, or why it cannot be.
func (c *Comparison) plan(ctx context.Context) error {
	var keys []string
	for _, d := range c.found {
		if d.Kind == TheirsOnly && d.main != nil && d.main.ClientKey != "" {
			keys = append(keys, d.main.ClientKey)
		}
	}
	if len(keys) > 0 {
		var err error
		if c.owners, err = c.Books.KeyOwners(ctx, c.window.From, keys); err != nil {
			return err
		}
	}
	versions, err := c.Books.PlanVersions(ctx)
	if err != nil {
		return err
	}
	c.versions = versions
	activated, reversed := map[string]*Difference{}, map[string]*Difference{} // by subscriber
	for _, d := range c.found {
		if d.Reversible() {
			reversed[d.SubscriberID] = d
		}
		if d.Kind != TheirsOnly {
			continue
		}
		a, missing, obstacle, err := c.resolve(ctx, d, activated[d.SubscriberID])
		if err != nil {
			return err
		}
		if before := reversed[d.SubscriberID]; before != nil {
			obstacle = reversedFirst(before)
		}
		d.OperatorID, d.PlanID, d.Amount, d.Missing, d.Obstacle = a.OperatorID, a.Plan.ID, a.Plan.Price, missing, obstacle
		if d.main != nil && d.main.Kind == operation.Activate {
			activated[d.SubscriberID] = d
		}
		d.Detail = "the provider carried it out, and it is not known here"
		d.Suggestion = "Adopt it: coax reconcile … --adopt --only " + d.Reference + " --reason TEXT"
		if !d.HasClientKey {
			d.Suggestion += ". It has no client key: a repeated request is not recognised, and would be carried out again."
		}
		if why := explain(d.Reference, obstacle, missing); why != "" {
			d.Suggestion = "It cannot be adopted as it is: " + why
		}
	}
	return nil
}

// resolve finds the operator, subscriber and plan of a forgotten order, or what of them is missing, or the
// obstacle. activation is the forgotten one that comes before it in the list, if the subscriber is forgotten,
// too.
func (c *Comparison) resolve(ctx context.Context, d *Difference, activation *Difference) (a operation.Adoption, missing Missing, obstacle string, err error) {
	if d.main == nil {
		return a, missing, "only its add-on is in the list: compare from an earlier time", nil
	}
	order := *d.main
	if d.addon != nil && (d.addon.ReversedBy != "") != (order.ReversedBy != "") {
		return a, missing, "the provider has undone only a part of it, as " + cmp.Or(order.ReversedBy, d.addon.ReversedBy) + ": ask the provider", nil
	}
	a = operation.Adoption{Main: order, Addon: d.addon, AddonAttempt: d.addons, Source: c.Choice.Source, Provider: c.Choice.Provider, Term: c.Choice.Term}
	owner := c.owners[order.ClientKey]
	a.Channel = owner.Channel
	if !ours(order.Reference) {
		return a, missing, "its reference is not one of Coax: another program may order with the same account", nil
	}
	found, err := c.Books.SubscribersNamed(ctx, order.SubscriberID, order.Mobile)
	if err != nil {
		return a, missing, "", err
	}
	var customer *operation.Subscriber
	for i := range found {
		if again, err := c.repeated(ctx, found[i], order); err != nil || again != "" {
			return a, missing, again, err
		}
		if found[i].ID == order.SubscriberID {
			customer = &found[i]
		}
	}
	switch {
	case order.Kind == operation.Activate && len(found) > 0 && found[0].Mobile == order.Mobile:
		return a, missing, fmt.Sprintf("its mobile number is subscriber %s's by now", found[0].ID), nil
	case order.Kind == operation.Activate && len(found) > 0:
		return a, missing, fmt.Sprintf("its subscriber_id is taken by the number %s by now", found[0].Mobile), nil
	case order.Kind == operation.Activate:
		// What the key proves is more than what a person gives.
		a.OperatorID = cmp.Or(owner.OperatorID, c.Choice.Operators[d.Reference], c.Choice.OperatorID)
		missing.Operator = a.OperatorID == 0
	case customer == nil && activation != nil && activation.Mobile == order.Mobile:
		if a.OperatorID = activation.OperatorID; !activation.Adoptable() {
			obstacle = fmt.Sprintf("its subscriber's activation %s has to be adopted first", activation.Reference)
		}
	case customer == nil:
		return a, missing, fmt.Sprintf("there is no subscriber %s: adopt the activation first, comparing from an earlier time, or import the subscriber", order.SubscriberID), nil
	case customer.Mobile != order.Mobile:
		return a, missing, fmt.Sprintf("subscriber %s has the number %s here", customer.ID, customer.Mobile), nil
	case owner.OperatorID != 0 && owner.OperatorID != customer.OperatorID:
		return a, missing, fmt.Sprintf("its key is operator %d's, and subscriber %s is operator %d's", owner.OperatorID, customer.ID, customer.OperatorID), nil
	case customer.OpenOperation != "":
		return a, missing, fmt.Sprintf("operation %s of the subscriber is open: review settles it first", customer.OpenOperation), nil
	case !order.ExpiresAt.IsZero() && !order.ExpiresAt.After(customer.Expires):
		return a, missing, fmt.Sprintf("subscriber %s runs until %s already, which is no earlier than it gives: later operations are in the books", customer.ID, moment(customer.Expires)), nil
	default:
		a.OperatorID, a.Subscriber = customer.OperatorID, customer
	}
	plan, choice := c.choosePlan(d, owner.Plans)
	a.Plan, missing.Plans, missing.Asked, missing.whyPlan, missing.mayWait = plan, choice.Plans, choice.Asked, choice.whyPlan, choice.mayWait
	if plan.ID == "" && len(missing.Plans) == 0 {
		obstacle = strings.TrimPrefix(obstacle+"; no plan was "+madeOf(d), "; ")
	}
	return a, missing, obstacle, nil
}

// repeated reports whether an operation of the subscriber has the order's client key: the request has come
// again, and was carried out twice.
func (c *Comparison) repeated(ctx context.Context, s operation.Subscriber, order operation.ListedOrder) (obstacle string, err error) {
	if order.ClientKey == "" {
		return "", nil
	}
	all, err := c.Books.OperationsOf(ctx, s.ID)
	if err != nil {
		return "", err
	}
	for _, op := range all {
		same := op.IdempotencyKey == operation.AdoptedKey(order.ClientKey, "") || slices.Contains(c.Choice.Keys.All(op.OperatorID, op.IdempotencyKey), order.ClientKey)
		if op.ID != order.Reference && op.State != operation.Failed && same {
			return fmt.Sprintf("the same request was carried out again as %s: ask the provider to take one of the two back", op.ID), nil
		}
	}
	return "", nil
}

// idLetters are those of a transaction id.
const idLetters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

func ours(id string) bool {
	rest, is := strings.CutPrefix(id, "CX")
	return is && len(rest) == 26 && strings.Trim(rest, idLetters) == ""
}

// choosePlan finds the plan of an order: a version that was sold when it was carried out, with its
// components and months. An order without add-on may also be one for a combo whose add-on was not
// carried out. If several fit, it is the one that was asked for under the order's key, or else a
// person's choice: nothing else tells what was charged. If that is missing, choice has the plans that
// fit; if none fits, neither has any.
func (c *Comparison) choosePlan(d *Difference, asked []string) (plan subscription.Plan, choice Missing) {
	var fitting []subscription.Plan
	for _, p := range inForce(c.versions, d.main.CarriedOutAt) {
		addon := d.addon == nil || p.Addon == d.addon.Component
		if addon && p.Main == d.main.Component && (d.main.Months == 0 || p.Months == d.main.Months) {
			fitting = append(fitting, p)
		}
	}
	named := func(ids ...string) (plans []subscription.Plan) {
		for _, p := range fitting {
			if slices.Contains(ids, p.ID) {
				plans = append(plans, p)
			}
		}
		return plans
	}
	given := c.Choice.Plans[d.Reference]
	chosen, repeated, general := named(given), named(asked...), named(c.Choice.PlanID)
	choice = Missing{Plans: fitting, Asked: asked}
	switch {
	case len(fitting) == 0:
		return plan, Missing{}
	case len(chosen) == 1:
		return chosen[0], Missing{}
	case given != "":
		choice.whyPlan = fmt.Sprintf("plan %s was not %s", given, madeOf(d))
	case len(repeated) == 1:
		return repeated[0], Missing{}
	case len(general) == 1:
		return general[0], Missing{}
	case len(repeated) > 1:
		choice.whyPlan = "several plans were asked for under its key"
	case len(asked) > 0:
		choice.whyPlan = fmt.Sprintf("its client asks for plan %s, which was not %s", strings.Join(asked, " and "), madeOf(d))
	case len(fitting) > 1:
		choice.whyPlan, choice.mayWait = "several plans fit", true
	default:
		return fitting[0], Missing{}
	}
	return plan, choice
}

// madeOf says what the plan of an order has to be made of.
func madeOf(d *Difference) string {
	return fmt.Sprintf("made of %s for %d months at that time, as far as is known here", strings.Join(d.Components, " and "), d.main.Months)
}

// inForce returns the version of each plan that was sold at a moment. An order for a plan that was retired
// meanwhile is one for its last version.
func inForce(versions []subscription.Plan, at time.Time) (plans []subscription.Plan) {
	last := map[string]subscription.Plan{}
	for _, version := range versions { // by plan and version
		if !version.Retired && !version.UpdatedAt.After(at) {
			last[version.ID] = version
		}
	}
	for _, version := range versions {
		if v, is := last[version.ID]; is && v.Version == version.Version {
			plans = append(plans, v)
		}
	}
	return plans
}

// Adopter records a forgotten operation; false if it is there already.
type Adopter interface {
	Adopt(ctx context.Context, a operation.Adoption, reason string) (op operation.Operation, adopted bool, err error)
	// AdoptReversal asks the provider for a reversal that it says it has carried out, under its
	// reference: the answer settles it.
	AdoptReversal(ctx context.Context, transactionID, reference, reason string) error
}

// Outcome is what came of adopting a forgotten order. Its Missing and Obstacle are those of the attempt.
type Outcome struct {
	Difference
	// Adopted: the operation is in the books, or the provider is asked about its reversal. Problem is why it is not, as the command line says it.
	Adopted bool
	Problem string
	// Refused is the store's refusal, if that is the problem.
	Refused *admin.Refusal
}

// staleTries is how often an adoption is computed again because its subscriber has changed.
const staleTries = 5

// reversedFirst says why an order has to wait for the reversal of an earlier one of its subscriber.
func reversedFirst(reversal *Difference) string {
	return fmt.Sprintf("transaction %s of subscriber %s was undone before: its reversal has to be carried out here first", reversal.TransactionID, reversal.SubscriberID)
}

// Adopt adopts the forgotten orders and reversals of the last comparison, or only one of them by its reference, in the
// order in which they were carried out. What cannot be adopted stops the later ones of the same
// subscriber, and no others.
func (c *Comparison) Adopt(ctx context.Context, adopter Adopter, reason, only string) (outcomes []Outcome, err error) {
	waiting := map[string]string{} // why later orders of a subscriber wait
	for _, d := range c.found {
		if d.Kind != TheirsOnly && !d.Reversible() {
			continue
		}
		why := fmt.Sprintf("order %s of subscriber %s was carried out earlier, and has to be adopted first", d.Reference, d.SubscriberID)
		if d.Reversible() {
			why = reversedFirst(d)
		}
		chosen := only == "" || d.Reference == only || d.TransactionID == only
		if !chosen {
			waiting[d.SubscriberID] = cmp.Or(waiting[d.SubscriberID], why)
			continue
		}
		outcome := Outcome{Difference: *d}
		outcome.Missing, outcome.Obstacle = Missing{}, ""
		if before := waiting[d.SubscriberID]; before != "" {
			outcome.Problem = before
		} else if d.Reversible() {
			if err := adoptReversal(ctx, adopter, d, reason, &outcome); err != nil {
				return outcomes, fmt.Errorf("adopt the reversal of %s: %w", d.Reference, err)
			}
		} else if err := c.adopt(ctx, adopter, d, reason, &outcome); err != nil {
			return outcomes, fmt.Errorf("adopt %s: %w", d.Reference, err)
		}
		// A reversal is only asked for: it is carried out with the provider's answer.
		if outcome.Adopted = outcome.Problem == ""; !outcome.Adopted || d.Reversible() {
			waiting[d.SubscriberID] = cmp.Or(waiting[d.SubscriberID], why)
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// adopt adopts a forgotten order, or says in its outcome why not.
func (c *Comparison) adopt(ctx context.Context, adopter Adopter, d *Difference, reason string, outcome *Outcome) error {
	for range staleTries {
		a, missing, obstacle, err := c.resolve(ctx, d, nil)
		if err != nil {
			return err
		}
		if outcome.Problem = explain(d.Reference, obstacle, missing); outcome.Problem != "" {
			outcome.Missing, outcome.Obstacle = missing, obstacle
			return nil
		}
		_, _, err = adopter.Adopt(ctx, a, reason)
		switch {
		case errors.Is(err, operation.ErrStale):
			continue
		case errors.As(err, &outcome.Refused):
			outcome.Problem = outcome.Refused.Reason
			return nil
		}
		return err
	}
	outcome.Problem = "its subscriber, or another operation under its key, changed meanwhile: compare again"
	return nil
}
