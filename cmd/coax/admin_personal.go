package main

import (
	"context"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

func (a *app) subscriberExport() *cobra.Command {
	var id string
	command := &cobra.Command{
		Use:   "export --subscriber ID",
		Short: "Print everything the service has about a subscriber, as JSON",
		Long: `Print everything the service has about a subscriber, as one JSON object: its profile and cycles,
the history of its contact data, its operations with their steps and provider calls, ledger lines, exceptions, rows of bulk renewals,
and staff actions on any of them. Passwords are not stored, so none is there. The provider has data
of its own: ask it too.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				data, err := service.ExportSubscriber(ctx, id)
				if err != nil {
					return err
				}
				a.asJSON = true // the data has parts that no table shows
				return a.show(a.exportObject(data))
			})
		},
	}
	subscriberFlag(command, &id)
	return command
}

func subscriberFlag(command *cobra.Command, id *string) {
	command.Flags().StringVar(id, "subscriber", "", "the subscriber's `ID`")
	_ = command.MarkFlagRequired("subscriber")
}

func (a *app) exportObject(data admin.SubscriberData) object {
	return object{
		{"subscriber", a.subscriberObject(data.OperatorID, data.Subscription)},
		{"operations", objects(data.Operations, historyObject)},
		{"ledger", objects(data.Ledger, ledgerObject)},
		{"exceptions", objects(data.Exceptions, exceptionObject)},
		{"bulk_rows", objects(data.BulkRows, func(r admin.BulkRowEntry) object {
			return object{
				{"job", r.JobID}, {"row", r.Number}, {"name", r.Name}, {"mobile", r.Mobile}, {"plan_id", r.PlanID}, {"state", r.State},
				{"transaction_id", orNull(r.TransactionID)}, {"begun_at", when(r.BegunAt)}, {"ended_at", when(r.EndedAt)},
			}
		})},
		{"contact_changes", objects(data.ContactChanges, func(c admin.ContactChange) object {
			return object{{"field", c.Field}, {"old", c.Old}, {"new", c.New}, {"actor", c.Actor}, {"at", when(c.At)}}
		})},
		{"acts", objects(data.Actions, auditObject)},
	}
}

// objects are the objects of a list, which is empty rather than null.
func objects[T any](list []T, of func(T) object) []object {
	all := []object{}
	for _, one := range list {
		all = append(all, of(one))
	}
	return all
}

func (a *app) subscriberForget() *cobra.Command {
	var id, reason string
	command := &cobra.Command{
		Use:   "forget --subscriber ID --reason TEXT",
		Short: "Replace a subscriber's name, mobile number and contact data for good",
		Long: `Replace a subscriber's name, mobile number, email, area, address, box number and notes for good,
wherever the service has them: the subscriber and the history of its contact data, its operations and
what the provider said about them, and bulk renewals. Ids,
amounts, plans and dates stay, because the books rest on them. Its number can be activated again, for
a new subscriber. It cannot be undone.

It is refused while the subscription runs, while an operation is open or followed up, while an
exception is open, and until retention.personal_data after the last cycle and operation. A second
call completes an interrupted one.

What stays: the request log until request_log.keep, backups and replicas made before, texts that
staff wrote themselves, and what the provider has.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withStore(c.Context(), func(ctx context.Context, config server.Config, s staffStore) error {
				forgotten, err := admin.NewService(s.store, s.vault, s.actor, a.now).ForgetSubscriber(ctx, id, config.PersonalData, reason)
				if err != nil {
					return err
				}
				err = a.show(object{
					{"subscriber_id", id}, {"lco_id", forgotten.OperatorID}, {"already_forgotten", forgotten.Already},
					{"operations", forgotten.Operations}, {"bulk_rows", forgotten.BulkRows}, {"texts", forgotten.Texts},
				})
				if err == nil && !a.asJSON {
					fmt.Fprintf(a.out, "The provider %s keeps its own data: ask it to forget subscriber %s too. Backups made before today still have the data.\n", config.Provider.Name, id)
				}
				return err
			})
		},
	}
	subscriberFlag(command, &id)
	reasonFlag(command, &reason)
	return command
}
