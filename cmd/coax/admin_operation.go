package main

import (
	"context"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/spf13/cobra"
)

func (a *app) operationCommand() *cobra.Command {
	return group("operation", "Operations", "Operations: list them, or show one with its states and provider calls.",
		a.operationList(), a.operationShow())
}

func (a *app) operationList() *cobra.Command {
	var filter admin.OperationFilter
	var state string
	var flags listFlags
	command := &cobra.Command{
		Use:   "list [--lco ID] [--status STATUS] [--subscriber ID]",
		Short: "List operations, newest first",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch filter.State = operation.State(state); filter.State {
			case "", operation.Processing, operation.Success, operation.Failed, operation.NeedsReview:
			default:
				return usage("--status %s: give processing, success, failed or needs_review", state)
			}
			if err := optionalLCO(c, filter.OperatorID); err != nil {
				return err
			}
			if err := flags.read(a, c); err != nil {
				return err
			}
			filter.From, filter.To = flags.From, flags.To
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				return printList(a, flags, listOperations(ctx, service, filter, "There is no such operation.", operationRow))
			})
		},
	}
	flags.add(command)
	// The former name of --limit.
	command.Flags().IntVar(&flags.limit, "most", 0, "the same as --limit")
	_ = command.Flags().MarkHidden("most")
	command.Flags().Int64Var(&filter.OperatorID, "lco", 0, "only the operator's with this `ID`")
	command.Flags().StringVar(&state, "status", "", "only those that are processing, success, failed or needs_review")
	command.Flags().StringVar(&filter.Subscriber, "subscriber", "", "only the subscriber's with this `ID`")
	return command
}

// listOperations lists the operations of a filter.
func listOperations(ctx context.Context, service *admin.Service, filter admin.OperationFilter, none string, row func(operation.Operation) object) lister[operation.Operation] {
	return lister[operation.Operation]{
		none: none,
		page: func(limit int, after *operation.Operation) ([]operation.Operation, error) {
			filter.Limit = limit
			if after != nil {
				filter.After = admin.Cursor{At: after.CreatedAt, ID: after.ID}
			}
			return service.ListOperations(ctx, filter)
		},
		row:         row,
		at:          func(op operation.Operation) time.Time { return op.CreatedAt },
		newestFirst: !filter.OldestFirst,
	}
}

func operationRow(op operation.Operation) object {
	o := operationObject(op)
	for i, f := range o {
		switch f.name {
		case "created_at":
			o[i].value = at(op.CreatedAt)
		case "completed_at":
			o[i].value = at(op.CompletedAt)
		}
	}
	return o
}

func operationObject(op operation.Operation) object {
	return object{
		{"transaction_id", op.ID}, {"lco_id", op.OperatorID}, {"operation", op.Kind}, {"status", op.State}, {"channel", op.Channel},
		{"subscriber_id", op.SubscriberID}, {"plan_id", op.PlanID}, {"amount", op.Amount}, {"created_at", when(op.CreatedAt)}, {"completed_at", when(op.CompletedAt)},
	}
}

func (a *app) operationShow() *cobra.Command {
	var id string
	command := &cobra.Command{
		Use:   "show --transaction ID",
		Short: "Show an operation with its states and provider calls",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				history, err := service.OperationHistory(ctx, id)
				if err != nil {
					return err
				}
				return a.show(historyObject(history))
			})
		},
	}
	transactionFlag(command, &id)
	return command
}

func historyObject(h admin.OperationHistory) object {
	events := []object{}
	for _, e := range h.Events {
		events = append(events, object{
			{"at", when(e.At)}, {"from", orNull(string(e.From))}, {"to", e.To}, {"why", e.Why}, {"actor", orNull(e.Actor)}, {"node", e.Node}, {"epoch", e.Epoch},
		})
	}
	calls := []object{}
	for _, c := range h.Calls {
		calls = append(calls, object{
			{"asked_at", when(c.CalledAt)}, {"answered_at", when(c.RepliedAt)}, {"kind", c.What}, {"reference", c.Reference}, {"component", c.Component},
			{"outcome", c.Outcome}, {"provider_transaction_id", orNull(c.Transaction)}, {"detail", c.Detail}, {"node", c.Node},
		})
	}
	reversals := objects(h.Reversals, func(r operation.Reversal) object {
		return append(reversalObject(r), field{"settled_by", orNull(r.SettledBy)}, field{"evidence", orNull(r.Evidence)})
	})
	return append(operationObject(h.Operation), object{
		{"idempotency_key", h.IdempotencyKey}, {"actor", h.Actor}, {"customer", h.CustomerName}, {"mobile", h.Mobile},
		{"commission_bps", h.CommissionBPS}, {"wallet_before", h.WalletBefore}, {"expiry_previous", when(h.ExpiryPrevious)},
		{"expiry_planned", when(h.ExpiryPlanned)}, {"cycle_starts_at", when(h.CycleStartsAt)}, {"provider", h.Provider},
		{"provider_transaction_id", orNull(h.ProviderTransaction)}, {"reason", orNull(string(h.Reason))}, {"provider_message", orNull(h.ProviderMessage)},
		{"addon", orNull(h.Addon)}, {"addon_status", orNull(string(h.AddonState))}, {"epoch", h.Epoch}, {"lease_until", when(h.LeaseUntil)},
		{"next_check_at", when(h.NextCheckAt)}, {"events", events}, {"provider_calls", calls}, {"reversals", reversals},
		{"events_removed_at", when(h.EventsRemoved)}, {"provider_calls_removed_at", when(h.CallsRemoved)},
	}...)
}
