package main

import (
	"context"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/spf13/cobra"
)

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
		Long: `Make a plan, or change the one with that id. A new price applies from the next operation on,
on every node; earlier purchases are not changed. Components are the provider's codes.`,
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
