package main

import (
	"context"
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
a command may be repeated if its outcome is unknown.`,
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
		Long: `Correct a wallet by hand, up or down. It is recorded in the ledger and as a staff action, both
with its reason. A balance never goes below zero, and held amounts are not changed. With a reference it is booked once, however often the command is repeated.`,
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
					page: func(limit int, after *admin.LedgerEntry) ([]admin.LedgerEntry, error) {
						query := flags.query(id, limit)
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
		Short: "Show what each operation earned the MSO, and what reversals took back",
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
					page: func(limit int, after *admin.CommissionEntry) ([]admin.CommissionEntry, error) {
						query := flags.query(id, limit)
						if after != nil {
							query.After = after.Cursor()
						}
						return service.CommissionPage(ctx, query)
					},
					row: func(entry admin.CommissionEntry) object {
						return object{
							{"transaction_id", entry.TransactionID}, {"lco_id", entry.OperatorID}, {"amount", entry.Amount},
							{"rate_bps", entry.RateBPS}, {"created_at", at(entry.CreatedAt)}, {"reversal", orNull(entry.Reversal)},
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

// orNull returns nil for an empty string.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
