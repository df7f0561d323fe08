package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/spf13/cobra"
)

func (a *app) walletCommand() *cobra.Command {
	return group("wallet", "Operators' prepaid money", "Operators' prepaid money: top up a wallet, correct it, or look into it.",
		a.walletTopUp(), a.walletAdjust(), a.walletShow())
}

func (a *app) walletTopUp() *cobra.Command {
	var id int64
	var sum, reference string
	command := &cobra.Command{
		Use:   "topup --lco ID --amount AMOUNT --reference TEXT",
		Short: "Credit an operator's wallet",
		Long: `Credit an operator's wallet with money that was received. The reference is the payment's
own, such as the bank's transfer number: the same reference twice credits once, so that
a command may be repeated when in doubt.`,
		Example: "  coax admin --config coax.toml wallet topup --lco 1 --amount 5000.00 --reference NEFT-20270301-17",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			value, err := amount("amount", sum)
			if err != nil {
				return err
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				wallet, credited, err := service.TopUp(ctx, admin.TopUp{OperatorID: id, Amount: value, Reference: reference})
				if err != nil {
					return err
				}
				return a.show(append(walletObject(wallet), field{"credited", credited}))
			})
		},
	}
	lcoFlag(command, &id)
	command.Flags().StringVar(&sum, "amount", "", "rupees, such as 5000.00")
	command.Flags().StringVar(&reference, "reference", "", "the payment's own reference")
	_ = command.MarkFlagRequired("amount")
	_ = command.MarkFlagRequired("reference")
	return command
}

func (a *app) walletAdjust() *cobra.Command {
	var id int64
	var sum, reason, reference string
	command := &cobra.Command{
		Use:   "adjust --lco ID --amount ±AMOUNT --reason TEXT [--reference TEXT]",
		Short: "Correct a wallet by hand, up or down",
		Long: `Correct a wallet by hand, up or down. The correction is a line of the ledger and an act of
staff, both with its reason. A balance never goes below zero, and what is held is not
touched. With a reference it is booked once, however often the command is repeated.`,
		Example: "  coax admin --config coax.toml wallet adjust --lco 1 --amount=-250.00 --reason 'NEFT-17 was entered twice'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			value, err := amount("amount", sum)
			if err != nil {
				return err
			}
			if c.Flags().Changed("reference") && strings.TrimSpace(reference) == "" {
				return admin.Refuse("--reference is empty: give the adjustment's own reference, or leave it out")
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				wallet, booked, err := service.AdjustOnce(ctx, admin.Adjustment{OperatorID: id, Amount: value, Reference: reference}, reason)
				if err != nil {
					return err
				}
				shown := walletObject(wallet)
				if c.Flags().Changed("reference") {
					shown = append(shown, field{"booked", booked})
				}
				return a.show(shown)
			})
		},
	}
	lcoFlag(command, &id)
	command.Flags().StringVar(&sum, "amount", "", "rupees to add, or to take away with a minus sign")
	command.Flags().StringVar(&reference, "reference", "", "the adjustment's own reference: the same one twice is booked once")
	_ = command.MarkFlagRequired("amount")
	reasonFlag(command, &reason)
	return command
}

func (a *app) walletShow() *cobra.Command {
	var id int64
	command := &cobra.Command{
		Use:   "show --lco ID",
		Short: "Show a wallet's balance and what is held",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				wallet, err := service.Wallet(ctx, id)
				if err != nil {
					return err
				}
				return a.show(walletObject(wallet))
			})
		},
	}
	lcoFlag(command, &id)
	return command
}

func walletObject(w subscription.Wallet) object {
	return object{{"lco_id", w.OperatorID}, {"wallet_balance", w.Balance}, {"held", w.Held}, {"is_low", w.Low()}}
}

func (a *app) ledgerCommand() *cobra.Command {
	var id int64
	var flags listFlags
	command := &cobra.Command{
		Use:   "ledger --lco ID",
		Short: "Show an operator's books, oldest line first",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.read(a, c); err != nil {
				return err
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				return printList(a, flags, lister[admin.LedgerEntry]{
					none: "The ledger is empty.",
					page: func(most int, after *admin.LedgerEntry) ([]admin.LedgerEntry, error) {
						query := flags.query(id, most)
						if after != nil {
							query.After.Number = after.Line
						}
						return service.LedgerPage(ctx, query)
					},
					row: ledgerObject,
					at:  func(line admin.LedgerEntry) time.Time { return line.CreatedAt },
				})
			})
		},
	}
	flags.add(command)
	lcoFlag(command, &id)
	return command
}

func ledgerObject(line admin.LedgerEntry) object {
	kind := "debit"
	if line.Credit {
		kind = "credit"
	}
	return object{
		{"id", line.ID}, {"kind", kind}, {"amount", line.Amount}, {"balance_after", line.BalanceAfter},
		{"description", line.Description}, {"transaction_id", orNull(line.TransactionID)}, {"created_at", at(line.CreatedAt)},
	}
}

func (a *app) commissionCommand() *cobra.Command {
	var id int64
	var flags listFlags
	command := &cobra.Command{
		Use:   "commission [--lco ID]",
		Short: "Show what each operation earned the MSO",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := optionalLCO(c, id); err != nil {
				return err
			}
			if err := flags.read(a, c); err != nil {
				return err
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				return printList(a, flags, lister[admin.CommissionEntry]{
					none: "Nothing has been earned yet.",
					page: func(most int, after *admin.CommissionEntry) ([]admin.CommissionEntry, error) {
						query := flags.query(id, most)
						if after != nil {
							query.After = admin.Cursor{At: after.BegunAt, ID: after.TransactionID}
						}
						return service.CommissionPage(ctx, query)
					},
					row: func(entry admin.CommissionEntry) object {
						return object{
							{"transaction_id", entry.TransactionID}, {"lco_id", entry.OperatorID}, {"amount", entry.Amount},
							{"rate_bps", entry.RateBPS}, {"created_at", at(entry.CreatedAt)},
						}
					},
				})
			})
		},
	}
	flags.add(command)
	command.Flags().Int64Var(&id, "lco", 0, "only of the operator with this `ID`")
	return command
}

// orNull is a text, or null where there is none.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func (a *app) planCommand() *cobra.Command {
	return group("plan", "The catalogue", "The catalogue: what can be bought and at what price.",
		a.planSet(), a.planRetire(), a.planList())
}

func (a *app) planSet() *cobra.Command {
	var plan subscription.Plan
	var price, kind string
	var components []string
	command := &cobra.Command{
		Use:   "set --id ID --name NAME --price AMOUNT --duration MONTHS --component main=CODE …",
		Short: "Make a plan, or change the one with that id",
		Long: `Make a plan, or change the one with that id. A new price holds from the next operation on,
on every node; what was bought before is not touched. Components are the provider's codes.`,
		Example: `  coax admin --config coax.toml plan set --id FAMILY-1 --name "Family, 1 month" --price 349.00 --duration 1 --component main=TV-FAMILY
  coax admin --config coax.toml plan set --id COMBO-1 --name "Family and OTT" --price 499 --duration 1 --type combo \
      --component main=TV-FAMILY --component addon=OTT-PLUS`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if plan.Price, err = amount("price", price); err != nil {
				return err
			}
			plan.Type = subscription.PlanType(kind)
			if plan.Main, plan.Addon, err = readComponents(components); err != nil {
				return err
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				saved, err := service.SetPlan(ctx, plan)
				if err != nil {
					return err
				}
				return a.show(planObject(saved))
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&plan.ID, "id", "", "the plan's `ID`, as clients send it")
	flags.StringVar(&plan.Name, "name", "", "the plan's `NAME`")
	flags.StringVar(&plan.Description, "description", "", "a sentence about it")
	flags.StringVar(&price, "price", "", "rupees per purchase, at least 0.01")
	flags.IntVar(&plan.Months, "duration", 0, "`MONTHS` of 30 days; at most plans.max_months")
	flags.StringVar(&kind, "type", string(subscription.Standard), "standard or combo")
	flags.StringArrayVar(&components, "component", nil, "`main=CODE`, and for a combo addon=CODE")
	for _, name := range []string{"id", "name", "price", "duration", "component"} {
		_ = command.MarkFlagRequired(name)
	}
	return command
}

func readComponents(given []string) (main, addon string, err error) {
	for _, text := range given {
		role, code, found := strings.Cut(text, "=")
		switch {
		case !found || code == "":
			return "", "", usage("--component %s: write it as main=CODE or addon=CODE", text)
		case role == "main" && main == "":
			main = code
		case role == "addon" && addon == "":
			addon = code
		case role == "main" || role == "addon":
			return "", "", usage("--component %s: a plan has one %s component", text, role)
		default:
			return "", "", usage("--component %s: %q is neither main nor addon", text, role)
		}
	}
	return main, addon, nil
}

func (a *app) planRetire() *cobra.Command {
	var id string
	command := &cobra.Command{
		Use:   "retire --id ID",
		Short: "Take a plan out of the catalogue; what was bought runs on",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				if err := service.RetirePlan(ctx, id); err != nil {
					return err
				}
				return a.show(object{{"id", id}, {"retired", true}})
			})
		},
	}
	command.Flags().StringVar(&id, "id", "", "the plan's `ID`")
	_ = command.MarkFlagRequired("id")
	return command
}

func (a *app) planList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all plans, retired ones too",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				plans, err := service.Plans(ctx)
				if err != nil {
					return err
				}
				var rows []object
				for _, plan := range plans {
					rows = append(rows, planObject(plan))
				}
				return a.list("There is no plan yet; `coax admin plan set` makes one.", rows)
			})
		},
	}
}

func planObject(p subscription.Plan) object {
	return object{
		{"id", p.ID}, {"name", p.Name}, {"description", p.Description}, {"price", p.Price}, {"duration", p.Months}, {"type", p.Type},
		{"main", p.Main}, {"addon", orNull(p.Addon)}, {"retired", p.Retired}, {"version", p.Version}, {"updated_at", when(p.UpdatedAt)},
	}
}

func (a *app) logCommand() *cobra.Command {
	var id int64
	var flags listFlags
	command := &cobra.Command{
		Use:   "log [--lco ID]",
		Short: "Show what staff did: who, what, before, after, when",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := optionalLCO(c, id); err != nil {
				return err
			}
			if err := flags.read(a, c); err != nil {
				return err
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				return printList(a, flags, lister[admin.AuditEntry]{
					none: "Nothing has been done yet.",
					page: func(most int, after *admin.AuditEntry) ([]admin.AuditEntry, error) {
						query := flags.query(id, most)
						if after != nil {
							query.After.Number = after.ID
						}
						return service.AuditPage(ctx, query)
					},
					row:  actObject,
					at:   func(act admin.AuditEntry) time.Time { return act.At },
					text: actText,
				})
			})
		},
	}
	flags.add(command)
	command.Flags().Int64Var(&id, "lco", 0, "only what concerns the operator with this `ID`")
	return command
}

func actObject(act admin.AuditEntry) object {
	return object{
		{"id", act.ID}, {"at", at(act.At)}, {"actor", act.Actor}, {"action", act.Action}, {"lco_id", orNone(act.OperatorID)},
		{"subject", act.Subject}, {"before", state(act.Before)}, {"after", state(act.After)}, {"reason", act.Reason},
		{"origin", orNull(act.Origin)},
	}
}

// actText writes an act for people: a line, with what changed below it.
func actText(act admin.AuditEntry) string {
	text := fmt.Sprintf("%d  %s  %s  %s  %s\n", act.ID, stamp(act.At).zoned("2006-01-02 15:04:05 -07:00"), act.Actor, act.Action, act.Subject)
	for _, line := range []struct{ name, text string }{{"reason", act.Reason}, {"from", act.Origin}, {"before", act.Before}, {"after", act.After}} {
		if line.text != "" {
			text += fmt.Sprintf("      %-7s %s\n", line.name, line.text)
		}
	}
	return text
}

// state is a before or after of the log, which is JSON already.
func state(text string) any {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func orNone(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}
