package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

func (a *app) subscriberPassword() *cobra.Command {
	var operatorID int64
	var id string
	command := &cobra.Command{
		Use:   "reset-password --lco ID --subscriber ID",
		Short: "Give a customer a new app password, by way of the provider",
		Long: `Give a customer a new app password, by way of the provider. It is generated, printed this
once and not stored; the reset is recorded (coax admin log).

If the provider does not answer, either password may be valid: have the customer try the new
one, and reset it again if that does not work.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withStore(c.Context(), func(ctx context.Context, config server.Config, service staffStore) error {
				provider, err := server.OpenProvider(config, nil)
				if err != nil {
					return err
				}
				defer provider.Close()
				got, err := admin.NewPasswords(service.store, provider, a.now).Reset(ctx, service.actor, operatorID, id, "")
				if err != nil && !errors.Is(err, admin.ErrNotLogged) {
					return err
				}
				return errors.Join(err, a.showPassword(id, got))
			})
		},
	}
	command.Flags().Int64Var(&operatorID, "lco", 0, "the operator's `ID`")
	_ = command.MarkFlagRequired("lco")
	subscriberFlag(command, &id)
	return command
}

func (a *app) showPassword(subscriberID string, got admin.NewPassword) error {
	if got.Outcome == operation.Rejected {
		return admin.Refuse("the provider did not set a new password; the old one stays valid: %s", got.Message)
	}
	if err := a.show(object{{"subscriber_id", subscriberID}, {"password", got.Password}, {"outcome", got.Outcome.String()}}); err != nil {
		return err
	}
	if got.Outcome == operation.Unknown && !a.asJSON {
		fmt.Fprintln(a.out, "The provider has not confirmed it. Have the customer try the new password; it may be reset again.")
	}
	return nil
}
