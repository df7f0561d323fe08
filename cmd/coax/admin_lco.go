package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/spf13/cobra"
)

func (a *app) lcoCommand() *cobra.Command {
	return group("lco", "Operators' accounts", "Operators' accounts: open, change, close and look at them.",
		a.lcoCreate(), a.lcoSet(), a.lcoDelete(), a.lcoUndelete(), a.lcoList(), a.lcoShow())
}

// terms are the flags that set an operator's terms.
type terms struct {
	status, api, lowBalance  string
	secondFactor             string
	address, gstin           string
	rateLimit, commissionBPS int
}

func (t *terms) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.IntVar(&t.rateLimit, "rate-limit", subscription.DefaultRateLimit, "requests a minute")
	flags.IntVar(&t.commissionBPS, "commission-bps", 0, "the MSO's commission in basis points; 250 is 2.5 %")
	flags.StringVar(&t.lowBalance, "low-balance", subscription.DefaultLowBalance.String(), "the balance below which the operator is warned")
	flags.StringVar(&t.address, "address", "", "the operator's address, for receipts; empty removes it")
	flags.StringVar(&t.gstin, "gstin", "", "the operator's GSTIN, for receipts; empty removes it")
}

// change returns the change that the given flags ask for.
func (t *terms) change(command *cobra.Command) (admin.OperatorChange, error) {
	var change admin.OperatorChange
	given := command.Flags().Changed
	if given("status") {
		status := subscription.OperatorStatus(t.status)
		change.Status = &status
	}
	if given("api") {
		api := subscription.APIAccess(t.api)
		change.API = &api
	}
	if given("rate-limit") {
		change.RateLimit = &t.rateLimit
	}
	if given("commission-bps") {
		change.CommissionBPS = &t.commissionBPS
	}
	if given("low-balance") {
		low, err := amount("low-balance", t.lowBalance)
		if err != nil {
			return change, err
		}
		change.LowBalance = &low
	}
	if given("second-factor") {
		required := t.secondFactor == "required"
		if !required && t.secondFactor != "optional" {
			return change, admin.Refuse("second factor %q is not known: give required or optional", t.secondFactor)
		}
		change.SecondFactorRequired = &required
	}
	if given("address") {
		change.Address = &t.address
	}
	if given("gstin") {
		change.GSTIN = &t.gstin
	}
	return change, nil
}

func (a *app) lcoCreate() *cobra.Command {
	var name string
	var terms terms
	command := &cobra.Command{
		Use:   "create --name NAME",
		Short: "Open an operator's account with an empty wallet",
		Long: `Open an operator's account with an empty wallet. It cannot be used yet: it needs
money (wallet topup), a key (key issue) and an address to call from (whitelist add).`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			change, err := terms.change(c)
			if err != nil {
				return err
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				operator, err := service.CreateOperator(ctx, name, change)
				if err != nil {
					return err
				}
				return a.show(operatorObject(operator))
			})
		},
	}
	command.Flags().StringVar(&name, "name", "", "the operator's `NAME`")
	_ = command.MarkFlagRequired("name")
	terms.addFlags(command)
	return command
}

func (a *app) lcoSet() *cobra.Command {
	var id int64
	var terms terms
	command := &cobra.Command{
		Use:   "set --lco ID [--status active|inactive] [--api enabled|disabled|blocked] [--rate-limit N] …",
		Short: "Change an operator's account",
		Long: `Change an operator's account. One that is inactive is suspended: its calls are refused, its
people can look at everything and change nothing, and a bulk renewal that runs is interrupted
until they continue it. With --second-factor required its people must set up a second factor.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			change, err := terms.change(c)
			if err != nil {
				return err
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				operator, err := service.ChangeOperator(ctx, id, change)
				if err != nil {
					return err
				}
				return a.show(operatorObject(operator))
			})
		},
	}
	lcoFlag(command, &id)
	command.Flags().StringVar(&terms.status, "status", "", "active or inactive")
	command.Flags().StringVar(&terms.api, "api", "", "enabled, disabled or blocked")
	command.Flags().StringVar(&terms.secondFactor, "second-factor", "", "required or optional, for the operator's people")
	terms.addFlags(command)
	return command
}

func (a *app) lcoDelete() *cobra.Command {
	var id int64
	command := &cobra.Command{
		Use:   "delete --lco ID",
		Short: "Close an operator's account; its records stay",
		Long: `Close an operator's account. It is refused while there is money in the wallet, an operation
is open or a bulk renewal is running; pay the balance out first:

    coax admin wallet adjust --lco ID --amount=-BALANCE --reason TEXT

Its keys and logins stop working at once, its records stay. For 30 days it can be undone
(lco undelete); its subscribers' mobile numbers and ids stay taken until then.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				if err := service.DeleteOperator(ctx, id); err != nil {
					return err
				}
				operator, err := service.Operator(ctx, id)
				if err != nil {
					return err
				}
				return a.show(object{{"lco_id", id}, {"status", operator.Status}, undeleteField(operator)})
			})
		},
	}
	lcoFlag(command, &id)
	return command
}

func (a *app) lcoUndelete() *cobra.Command {
	var id int64
	command := &cobra.Command{
		Use:   "undelete --lco ID",
		Short: "Open a deleted account again, within 30 days",
		Long: `Open an account again that was deleted less than 30 days ago. It has the status that it
had; its keys, whitelist, logins and subscribers are as they were.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				operator, err := service.UndeleteOperator(ctx, id)
				if err != nil {
					return err
				}
				return a.show(operatorObject(operator))
			})
		},
	}
	lcoFlag(command, &id)
	return command
}

func (a *app) lcoList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the operators",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				operators, err := service.Operators(ctx)
				if err != nil {
					return err
				}
				var rows []object
				for _, operator := range operators {
					rows = append(rows, append(operatorObject(operator), undeleteField(operator)))
				}
				return a.list("There is no operator yet; `coax admin lco create` makes one.", rows)
			})
		},
	}
}

func (a *app) lcoShow() *cobra.Command {
	var id int64
	command := &cobra.Command{
		Use:   "show --lco ID",
		Short: "Show an operator with its wallet and whitelist",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				operator, err := service.Operator(ctx, id)
				if err != nil {
					return err
				}
				wallet, err := service.Wallet(ctx, id)
				if err != nil {
					return err
				}
				entries, err := service.Whitelist(ctx, id)
				if err != nil {
					return err
				}
				return a.show(append(operatorObject(operator), undeleteField(operator),
					field{"wallet_balance", wallet.Balance}, field{"held", wallet.Held}, field{"whitelist", admin.WhitelistState(entries)},
					field{"address", operator.Address}, field{"gstin", operator.GSTIN}))
			})
		},
	}
	lcoFlag(command, &id)
	return command
}

func operatorObject(o subscription.Operator) object {
	return object{
		{"lco_id", o.ID}, {"name", o.Name}, {"status", o.Status}, {"api", o.API}, {"rate_limit", o.RateLimit},
		{"commission_bps", o.CommissionBPS}, {"low_balance", o.LowBalance},
		{"second_factor_required", o.SecondFactorRequired}, {"created_at", when(o.CreatedAt)},
	}
}

// undeleteField is until when the deletion of an operator can be undone.
func undeleteField(o subscription.Operator) field {
	return field{"undelete_until", when(o.UndeletableUntil())}
}

func (a *app) whitelistCommand() *cobra.Command {
	return group("whitelist", "Where an operator may call from",
		`Where an operator may call from. An operator with an empty whitelist is blocked. An entry
is an IPv4 or IPv6 address, or a range no wider than /24 or /48; at most 20 entries.`,
		a.whitelistChange("add", "Let an operator call from an address or range", (*admin.Service).AllowAddress),
		a.whitelistChange("remove", "Take an address or range off the list", (*admin.Service).DisallowAddress),
		a.whitelistList())
}

func (a *app) whitelistChange(use, short string, change func(*admin.Service, context.Context, int64, string) (netip.Prefix, error)) *cobra.Command {
	var id int64
	command := &cobra.Command{
		Use:   use + " --lco ID CIDR_OR_ADDRESS",
		Short: short,
		Args:  wants(1, "one address or range, such as 203.0.113.7 or 203.0.113.0/24"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				if _, err := change(service, ctx, id, args[0]); err != nil {
					return err
				}
				return a.showWhitelist(ctx, service, id)
			})
		},
	}
	lcoFlag(command, &id)
	return command
}

func (a *app) showWhitelist(ctx context.Context, service *admin.Service, id int64) error {
	entries, err := service.Whitelist(ctx, id)
	if err != nil {
		return err
	}
	return a.show(object{{"lco_id", id}, {"whitelist", admin.WhitelistState(entries)}})
}

func (a *app) whitelistList() *cobra.Command {
	var id int64
	command := &cobra.Command{
		Use:   "list --lco ID",
		Short: "List an operator's whitelist",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				entries, err := service.Whitelist(ctx, id)
				if err != nil {
					return err
				}
				texts := admin.WhitelistState(entries)
				if a.asJSON {
					return json.NewEncoder(a.out).Encode(texts)
				}
				if len(texts) == 0 {
					fmt.Fprintln(a.out, "The whitelist is empty, so every request is blocked; `coax admin whitelist add` lets one in.")
				}
				for _, text := range texts {
					fmt.Fprintln(a.out, text)
				}
				return nil
			})
		},
	}
	lcoFlag(command, &id)
	return command
}
