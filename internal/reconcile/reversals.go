package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

// Reversals: the provider's list says which orders were undone. After a restore that tells which
// reversals were forgotten; those are asked for again under the provider's reference, which it carries
// out once, so that money, expiry and commission go back as they did.

// reversalDiffers returns the difference between an order and its operation if only one of them is
// reversed; nil if none or both are, or if the provider does not say. A reversal that is open here is
// no difference: the provider is being asked.
func (c *Comparison) reversalDiffers(ctx context.Context, op operation.Operation, order operation.ListedOrder) (*Difference, error) {
	main := order.Reference == op.ID
	ours := main || op.AddonState == operation.AddonSuccess && order.Reference == op.AddonReference()
	undone := order.ReversedBy != ""
	// Its page may have been read before the reversal that has been carried out here since.
	meanwhile := op.Reversed() && !op.ReversedAt.Before(c.began)
	if !order.TellsReversals || !ours || op.State != operation.Success || undone == op.Reversed() || meanwhile {
		return nil, nil
	}
	d := ofOperation(Differs, op, order.Reference)
	d.reversal = true
	d.Components, d.HasClientKey = []string{order.Component}, order.ClientKey != ""
	d.CarriedOutAt, d.ExpiresAt, d.ProviderTransaction = order.CarriedOutAt, order.ExpiresAt, order.Transaction
	if op.Reversed() {
		d.Detail = "it was reversed here, and the provider does not say that it undid it"
		d.Suggestion = fmt.Sprintf("Ask the provider to undo it; or let the operator pay again: coax admin wallet adjust --lco %d --amount=-%s --reference %s --reason TEXT", op.OperatorID, op.Amount, order.Reference)
		return d, nil
	}
	pending, _, err := c.Books.PendingReversal(ctx, op.ID)
	if err != nil || pending.State.Open() {
		return nil, err
	}
	d.Detail = "the provider undid it as " + order.ReversedBy + ", and it is not reversed here"
	if !main || !operation.IsReversalReference(order.ReversedBy) {
		d.Suggestion = "Ask the provider why it was undone, and have it put right there, or pay it back by adjusting the wallet."
		return d, nil
	}
	d.ReversedBy = order.ReversedBy
	d.Suggestion = "Carry the reversal out here, too: coax reconcile … --adopt --only " + d.Reference + " --reason TEXT"
	return d, nil
}

// dropReversedAddons leaves out what differs about add-ons whose main component was reversed on the
// same side: both are reversed together.
func (c *Comparison) dropReversedAddons() {
	reversed := map[string]bool{} // by the reference of the main component
	for _, d := range c.found {
		reversed[d.Reference] = reversed[d.Reference] || d.reversal
	}
	c.found = slices.DeleteFunc(c.found, func(d *Difference) bool {
		return d.reversal && d.Reference != d.TransactionID && reversed[d.TransactionID]
	})
}

// Reversible reports whether a difference is a reversal that can be carried out here, too.
func (d Difference) Reversible() bool { return d.Kind == Differs && d.ReversedBy != "" }

// adoptReversal asks for a reversal under the provider's reference, or says in the outcome why not.
func adoptReversal(ctx context.Context, adopter Adopter, d *Difference, reason string, outcome *Outcome) error {
	err := adopter.AdoptReversal(ctx, d.TransactionID, d.ReversedBy, reason)
	if errors.As(err, &outcome.Refused) {
		outcome.Problem = outcome.Refused.Reason
		return nil
	}
	return err
}

var _ Adopter = (*admin.Service)(nil)
