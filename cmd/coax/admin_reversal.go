package main

import (
	"context"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/spf13/cobra"
)

// reversalsListed bounds the list of reversals.
const reversalsListed = 10_000

func (a *app) reversalCommand() *cobra.Command {
	return group("reversal", "Operations that staff have asked the provider to undo", `Operations that staff have asked the provider to undo. The provider is asked until it answers;
a reversal that it leaves unknown waits for a person, who asks the provider and decides.`,
		a.reversalList(), a.reversalSettle())
}

func (a *app) reversalList() *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "list",
		Short: "List the reversals without an outcome, oldest first",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				reversals, err := service.Reversals(ctx, admin.ReversalFilter{Open: !all, Limit: reversalsListed})
				if err != nil {
					return err
				}
				return a.list("No reversal waits for an outcome.", objects(reversals, func(r operation.Reversal) object {
					return append(reversalObject(r), field{"needs_person", service.NeedsPerson(r)})
				}))
			})
		},
	}
	command.Flags().BoolVar(&all, "all", false, "those with an outcome too, newest first")
	return command
}

func reversalObject(r operation.Reversal) object {
	return object{
		{"reference", r.Reference}, {"transaction_id", r.OperationID}, {"lco_id", r.OperatorID}, {"subscriber_id", r.SubscriberID},
		{"amount", r.Amount}, {"status", r.State}, {"requested_at", when(r.RequestedAt)}, {"requested_by", r.Actor}, {"reason", r.Reason},
		{"asks", r.Asks}, {"next_at", when(r.NextAt)}, {"completed_at", when(r.CompletedAt)}, {"message", orNull(r.Message)},
	}
}

func (a *app) reversalSettle() *cobra.Command {
	var reference, reason string
	var undone, notUndone bool
	command := &cobra.Command{
		Use:   "settle --reference REFERENCE (--undone|--not-undone) --reason TEXT",
		Short: "Decide a reversal that the provider leaves unknown",
		Long: `Decide a reversal that the provider leaves unknown, after asking the provider. Undone, the charge,
the cycle and the commission go back as if the provider had answered; not undone, the operation
stays as it was, and can be reversed again. If the provider says the opposite later, that becomes
an exception. It is refused until the provider was asked for review.refund_after.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if undone == notUndone {
				return usage("give either --undone or --not-undone")
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				r, err := service.SettleReversal(ctx, reference, undone, reason)
				if err != nil {
					return err
				}
				return a.show(reversalObject(r))
			})
		},
	}
	command.Flags().StringVar(&reference, "reference", "", "the reversal's `REFERENCE`, which begins with RV")
	_ = command.MarkFlagRequired("reference")
	command.Flags().BoolVar(&undone, "undone", false, "the provider has undone the order")
	command.Flags().BoolVar(&notUndone, "not-undone", false, "the provider has not undone the order, and will not")
	reasonFlag(command, &reason)
	return command
}
