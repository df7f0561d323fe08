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

Acts on the store of --config. The service may be running: whatever is changed holds from
its next request on. Each act is written down with who did it (coax admin log).

With --json the output is an object, or an array where there may be several. What is
refused changes nothing, says why in one line and exits with 1; what was not understood
exits with 2.`,
		a.lcoCommand(), a.walletCommand(), a.ledgerCommand(), a.commissionCommand(), a.planCommand(), a.keyCommand(), a.whitelistCommand(), a.loginCommand(),
		a.subscriberCommand(), a.operationCommand(), a.reviewCommand(), a.exceptionCommand(), a.addonCommand(), a.maintenanceCommand(), a.logCommand(),
	)
	command.Example = `  coax admin --config coax.toml lco create --name "Asha Cable"
  coax admin --config coax.toml wallet topup --lco 1 --amount 5000.00 --reference NEFT-123
  coax admin --config coax.toml key issue --lco 1
  coax admin --config coax.toml whitelist add --lco 1 203.0.113.7`
	// Asked before the values are looked at: a call that names no store was not
	// understood, whatever else is wrong with it.
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

// staffStore is an open store with the member of staff who opened it.
type staffStore struct {
	store server.Store
	vault *access.Vault
	actor string
}

// withService opens the store as a member of staff, for the length of one act.
func (a *app) withService(ctx context.Context, act func(context.Context, *admin.Service) error) error {
	return a.atStore(ctx, func(ctx context.Context, config server.Config, s staffStore) error {
		return act(ctx, admin.NewService(s.store, s.vault, s.actor, a.now).WithMaxPlanMonths(config.Plans.MaxMonths))
	})
}

// atStore does so for an act that needs more than a service.
func (a *app) atStore(ctx context.Context, act func(context.Context, server.Config, staffStore) error) error {
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
		// What staff do must not wait for a log: a key may have to be revoked.
		fmt.Fprintf(a.err, "warning: this is not in the security log: %v\n", err)
	}
	defer security.Close()
	store, err := server.OpenStore(ctx, config, server.StoreOptions{Tool: true, Security: security})
	if err != nil {
		return err
	}
	defer store.Close()
	a.now = server.Clock(config.Clock.Offset)
	// A key sealed with a wrong master key would lock its owner out.
	if _, _, err := server.UnlockStore(ctx, store, vault, a.now()); err != nil {
		return err
	}
	return act(ctx, config, staffStore{store: store, vault: vault, actor: "cli:" + userName()})
}

// openSecurity opens the file of security events; nil if there is none. What cannot be
// written to it is said on standard error.
func (a *app) openSecurity(config server.Config) (*telemetry.Security, error) {
	if config.Log.SecurityFile == "" {
		return nil, nil
	}
	return server.OpenSecurity(config, telemetry.NewLogger(a.err, slog.LevelError, "text"), nil)
}

// userName is who is written down as having acted.
func userName() string {
	current, err := user.Current()
	if err != nil || current.Username == "" {
		return "unknown"
	}
	return current.Username
}

// amount reads an amount of money. What cannot be read is refused like an amount
// that is too small: the command was understood, its value was not acceptable.
func amount(flag, text string) (money.Amount, error) {
	value, err := money.Parse(text)
	if err != nil {
		return value, admin.Refuse("--%s: %v", flag, err)
	}
	return value, nil
}

// optionalLCO reads an --lco that may be left out. Given, it must be somebody's:
// 0 would otherwise mean everybody.
func optionalLCO(command *cobra.Command, id int64) error {
	if command.Flags().Changed("lco") && id < 1 {
		return admin.Refuse("there is no operator %d", id)
	}
	return nil
}

// lcoFlag gives a command its --lco, which it needs.
func lcoFlag(command *cobra.Command, id *int64) {
	command.Flags().Int64Var(id, "lco", 0, "the operator's `ID`")
	_ = command.MarkFlagRequired("lco")
}
