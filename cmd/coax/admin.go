package main

import (
	"context"
	"fmt"
	"log/slog"
	"os/user"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/spf13/cobra"
)

func (a *app) adminCommand() *cobra.Command {
	command := group("admin", "Run the service: operators, wallets, plans, keys, whitelists, logins",
		`Run the service: operators, wallets, plans, keys, whitelists, logins.

Works on the store of --config. The service may be running: a change is in effect from its
next request on. Each staff action is recorded with its actor (coax admin log).

With --json the output is an object, or an array where there may be several. A refused
command changes nothing, prints the reason in one line and exits with 1; a usage error exits
with 2.`,
		a.lcoCommand(), a.walletCommand(), a.ledgerCommand(), a.commissionCommand(), a.planCommand(), a.keyCommand(), a.whitelistCommand(), a.loginCommand(),
		a.subscriberCommand(), a.operationCommand(), a.reviewCommand(), a.exceptionCommand(), a.addonCommand(), a.reversalCommand(), a.maintenanceCommand(), a.masterKeyCommand(), a.logCommand(),
	)
	command.Example = `  coax admin --config coax.toml lco create --name "Asha Cable"
  coax admin --config coax.toml wallet topup --lco 1 --amount 5000.00 --reference NEFT-123
  coax admin --config coax.toml key issue --lco 1
  coax admin --config coax.toml whitelist add --lco 1 203.0.113.7`
	// Checked before the values: a missing --config is a usage error, whatever else is
	// wrong.
	command.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if a.configFile == "" && !c.HasSubCommands() {
			return usage("which configuration? Give --config FILE")
		}
		return nil
	}
	a.addConfigFlags(command)
	command.PersistentFlags().BoolVar(&a.asJSON, "json", false, "print JSON")
	return command
}

// staffStore is an open store and the actor who opened it.
type staffStore struct {
	store server.Store
	vault *access.Vault
	actor string
}

// withService opens the store and calls do with a service for the current user.
func (a *app) withService(ctx context.Context, do func(context.Context, *admin.Service) error) error {
	return a.withStore(ctx, func(ctx context.Context, config server.Config, s staffStore) error {
		return do(ctx, admin.NewService(s.store, s.vault, s.actor, a.now).WithMaxPlanMonths(config.Plans.MaxMonths).WithReversalWait(config.Review.RefundAfter))
	})
}

// withStore is withService for a command that needs more than a service.
func (a *app) withStore(ctx context.Context, do func(context.Context, server.Config, staffStore) error) error {
	config, err := a.config()
	if err != nil {
		return err
	}
	vault, err := server.OpenVault(config, a.environ)
	if err != nil {
		return err
	}
	security, err := a.openSecurity(config)
	if err != nil {
		// A log must not block staff actions: a key may have to be revoked.
		fmt.Fprintf(a.err, "warning: this is not in the security log: %v\n", err)
	}
	defer security.Close()
	store, err := server.OpenStore(ctx, config, server.StoreOptions{Tool: true, Security: security})
	if err != nil {
		return err
	}
	defer store.Close()
	a.now = server.Clock(config.Clock.Offset)
	if err := server.RefuseUnfinishedCopy(ctx, store); err != nil {
		return err
	}
	// A key sealed with a wrong master key would lock its owner out.
	if _, _, err := server.UnlockStore(ctx, store, vault, a.now()); err != nil {
		return err
	}
	return do(ctx, config, staffStore{store: store, vault: vault, actor: "cli:" + userName()})
}

// openSecurity opens the file of security events; nil if there is none. Write errors are
// printed on standard error.
func (a *app) openSecurity(config server.Config) (*telemetry.Security, error) {
	if config.Log.SecurityFile == "" {
		return nil, nil
	}
	return server.OpenSecurity(config, telemetry.NewLogger(a.err, slog.LevelError, "text"), nil)
}

// userName returns the current user, who is recorded as the actor.
func userName() string {
	current, err := user.Current()
	if err != nil || current.Username == "" {
		return "unknown"
	}
	return current.Username
}

// amount parses an amount of money. An invalid one is a refusal, not a usage error, like an
// amount that is too small.
func amount(flag, text string) (money.Amount, error) {
	value, err := money.Parse(text)
	if err != nil {
		return value, admin.Refuse("--%s: %v", flag, err)
	}
	return value, nil
}

// optionalLCO checks an --lco that may be left out: --lco 0 must not mean all operators.
func optionalLCO(command *cobra.Command, id int64) error {
	if command.Flags().Changed("lco") && id < 1 {
		return admin.Refuse("there is no operator %d", id)
	}
	return nil
}

// lcoFlag adds the required flag --lco.
func lcoFlag(command *cobra.Command, id *int64) {
	command.Flags().Int64Var(id, "lco", 0, "the operator's `ID`")
	_ = command.MarkFlagRequired("lco")
}
