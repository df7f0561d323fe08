package main

import (
	"context"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/spf13/cobra"
)

func (a *app) reviewCommand() *cobra.Command {
	return group("review", "Operations whose outcome is not known", `Operations whose outcome is unknown: the provider gave no clear reply. The service keeps
checking; those that it cannot resolve wait for a person, who asks the provider and decides.`,
		a.reviewList(), a.reviewSettle())
}

func (a *app) reviewList() *cobra.Command {
	var flags listFlags
	command := &cobra.Command{
		Use:   "list",
		Short: "List the operations in review, newest first",
		Long: `List the operations in review, newest first. With --limit those that have waited longest are
listed, oldest first.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.read(a, c); err != nil {
				return err
			}
			filter := admin.OperationFilter{State: operation.NeedsReview, OldestFirst: flags.limit > 0, From: flags.From, To: flags.To}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				return printList(a, flags, listOperations(ctx, service, filter, "No operation is in review.", func(op operation.Operation) object {
					return append(operationRow(op),
						field{"in_review_since", at(op.ReviewSince)}, field{"checks", op.Checks}, field{"next_check_at", at(op.NextCheckAt)}, field{"needs_person", op.NeedsPerson})
				}))
			})
		},
	}
	flags.add(command)
	return command
}

func (a *app) reviewSettle() *cobra.Command {
	var id, reason string
	var confirm, reject bool
	command := &cobra.Command{
		Use:   "settle --transaction ID (--confirm|--reject) --reason TEXT",
		Short: "Decide an operation in review",
		Long: `Decide an operation in review, after asking the provider. Confirmed, it is charged and the
subscription runs as if the provider had answered; rejected, the held amount goes back.
If a rejected one turns out to have been carried out, that becomes an exception.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if confirm == reject {
				return usage("give either --confirm or --reject")
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				op, err := service.SettleReview(ctx, id, confirm, reason)
				if err != nil {
					return err
				}
				return a.show(operationObject(op))
			})
		},
	}
	transactionFlag(command, &id)
	command.Flags().BoolVar(&confirm, "confirm", false, "the provider carried it out")
	command.Flags().BoolVar(&reject, "reject", false, "the provider did not carry it out")
	reasonFlag(command, &reason)
	return command
}

func transactionFlag(command *cobra.Command, id *string) {
	command.Flags().StringVar(id, "transaction", "", "the transaction's `ID`")
	_ = command.MarkFlagRequired("transaction")
}

func reasonFlag(command *cobra.Command, reason *string) {
	command.Flags().StringVar(reason, "reason", "", "why; it is recorded")
	_ = command.MarkFlagRequired("reason")
}

func (a *app) exceptionCommand() *cobra.Command {
	return group("exception", "Cases that only a person can decide", `Cases that only a person can decide, such as an operation that was refunded and then turned out
to have been carried out. No money moves by itself.`,
		a.exceptionList(), a.exceptionClose())
}

func (a *app) exceptionList() *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "list",
		Short: "List the exceptions that are open",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				entries, err := service.Exceptions(ctx, all)
				if err != nil {
					return err
				}
				return a.list("No exception is open.", objects(entries, exceptionObject))
			})
		},
	}
	command.Flags().BoolVar(&all, "all", false, "closed ones too")
	return command
}

func exceptionObject(e admin.ExceptionEntry) object {
	return object{
		{"id", e.ID}, {"transaction_id", e.TransactionID}, {"kind", e.Kind}, {"detail", e.Detail}, {"created_at", when(e.CreatedAt)},
		{"closed_at", when(e.ClosedAt)}, {"closed_by", orNull(e.ClosedBy)}, {"close_reason", orNull(e.CloseReason)},
	}
}

func (a *app) exceptionClose() *cobra.Command {
	var id int64
	var reason string
	command := &cobra.Command{
		Use:   "close --id ID --reason TEXT",
		Short: "Note that an exception was dealt with",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				if err := service.CloseException(ctx, id, reason); err != nil {
					return err
				}
				return a.show(object{{"id", id}, {"status", "closed"}})
			})
		},
	}
	command.Flags().Int64Var(&id, "id", 0, "the exception's `ID`")
	_ = command.MarkFlagRequired("id")
	reasonFlag(command, &reason)
	return command
}

func (a *app) addonCommand() *cobra.Command {
	return group("addon", "Combos whose add-on is missing", `Combos whose add-on is missing: the main plan runs, and the service keeps asking for the
add-on until it works or a person closes the matter.`,
		a.addonList(), a.addonClose())
}

func (a *app) addonList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the add-ons that are being followed up",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				operations, err := service.MissingAddons(ctx)
				if err != nil {
					return err
				}
				var rows []object
				for _, op := range operations {
					rows = append(rows, object{
						{"transaction_id", op.ID}, {"lco_id", op.OperatorID}, {"subscriber_id", op.SubscriberID}, {"plan_id", op.PlanID}, {"addon", op.Addon},
						{"addon_status", op.AddonState}, {"rejections", op.AddonAttempt}, {"checks", op.AddonChecks}, {"next_try_at", when(op.AddonNextAt)}, {"needs_person", op.AddonNeedsPerson},
					})
				}
				return a.list("No add-on is missing.", rows)
			})
		},
	}
}

func (a *app) addonClose() *cobra.Command {
	var id, reason string
	command := &cobra.Command{
		Use:   "close --transaction ID --reason TEXT",
		Short: "Stop following an add-on up",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				if err := service.CloseAddon(ctx, id, reason); err != nil {
					return err
				}
				return a.show(object{{"transaction_id", id}, {"addon_status", operation.AddonClosed}})
			})
		},
	}
	transactionFlag(command, &id)
	reasonFlag(command, &reason)
	return command
}
