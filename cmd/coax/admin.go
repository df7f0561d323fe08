package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/subscription"
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

// object is a JSON object whose fields keep their order.
type object []field

type field struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, f := range o {
		if i > 0 {
			text = append(text, ',')
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		text = append(append(append(text, name...), ':'), value...)
	}
	return append(text, '}'), nil
}

// show prints one thing: as JSON, or as lines of name and value.
func (a *app) show(o object) error {
	if a.asJSON {
		return json.NewEncoder(a.out).Encode(o)
	}
	// Not a tabwriter: a value of several lines would end its column.
	width := 0
	for _, f := range o {
		width = max(width, len(f.name))
	}
	for _, f := range o {
		line := fmt.Sprintf("%-*s  %s", width, f.name, cell(f.value))
		if head, rest, several := strings.Cut(line, "\n"); several {
			line = strings.TrimRight(head, " ") + "\n" + rest
		}
		if _, err := fmt.Fprintln(a.out, line); err != nil {
			return err
		}
	}
	return nil
}

// list prints several things of one kind: as a JSON array, or as a table.
func (a *app) list(none string, rows []object) error {
	if a.asJSON {
		if rows == nil {
			rows = []object{}
		}
		return json.NewEncoder(a.out).Encode(rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.out, none)
		return nil
	}
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	var cells []string
	for _, f := range rows[0] {
		cells = append(cells, f.name)
	}
	fmt.Fprintln(table, strings.Join(cells, "\t"))
	for _, row := range rows {
		cells = cells[:0]
		for _, f := range row {
			cells = append(cells, cell(f.value))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// escapeBreaks escapes line breaks, so that a customer's address cannot pass for further
// lines of the output.
var escapeBreaks = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`)

// cell writes a value for people: what is not set is a dash.
func cell(value any) string {
	switch v := value.(type) {
	case nil:
		return "-"
	case string:
		if v == "" {
			return "-"
		}
		return escapeBreaks.Replace(v)
	case []string:
		if len(v) == 0 {
			return "-"
		}
		text := ""
		for i, one := range v {
			if i > 0 {
				text += ", "
			}
			text += escapeBreaks.Replace(one)
		}
		return text
	case json.RawMessage:
		return string(v)
	case []object:
		if len(v) == 0 {
			return "-"
		}
		text := ""
		for _, o := range v {
			text += "\n"
			for _, f := range o {
				if shown := cell(f.value); shown != "-" {
					text += "  " + f.name + "=" + shown
				}
			}
		}
		return text
	}
	return fmt.Sprint(value)
}

// when writes a moment as the contract does; null if there is none.
func when(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.In(subscription.IST).Format("2006-01-02 15:04:05")
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
