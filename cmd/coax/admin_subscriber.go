package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/spf13/cobra"
)

func (a *app) subscriberCommand() *cobra.Command {
	return group("subscriber", "Subscribers", "Subscribers: bring them in from another system, list them, look at one, reset a password, or hand out and forget personal data.",
		a.subscriberImport(), a.subscriberList(), a.subscriberShow(), a.subscriberPassword(), a.subscriberExport(), a.subscriberForget())
}

func (a *app) subscriberImport() *cobra.Command {
	var check bool
	command := &cobra.Command{
		Use:   "import FILE",
		Short: "Bring in subscribers from a CSV or Excel (XLSX) file",
		Long: `Bring in subscribers from a CSV file or the first sheet of an Excel workbook (XLSX), or from
standard input if FILE is -. Its first line names these columns, in any order:

    lco,subscriber_id,mobile,name,plan_id,expiry

Beside them there may be email, area, address, box_number and notes. Other columns are ignored, and named. CSV may have commas, semicolons or tabs. An expiry is YYYY-MM-DD HH:MM:SS in Indian time, or a day, which lasts to its end. Nothing is
charged. All errors are reported at once, and with one error nothing is imported. Subscribers
that exist already are skipped, so a file can safely be imported again.`,
		Example: "  coax admin --config coax.toml subscriber import customers.csv --check\n  coax admin --config coax.toml subscriber import customers.csv",
		Args:    wants(1, "one FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := openInput(args[0], c.InOrStdin())
			if err != nil {
				return err
			}
			defer file.Close()
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				report, err := service.ImportSubscribers(ctx, file, check, a.progress("imported"))
				if err != nil {
					return err
				}
				return a.showImport(report, check)
			})
		},
	}
	command.Flags().BoolVar(&check, "check", false, "only check the file; change nothing")
	return command
}

func openInput(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open the file: %w", err)
	}
	return file, nil
}

// progress returns a function that prints the progress of a long job, on one line that a
// terminal overwrites.
func (a *app) progress(what string) func(done, total int) {
	return func(done, total int) {
		end := "\r"
		if done == total {
			end = "\n"
		}
		fmt.Fprintf(a.err, "%s %d of %d%s", what, done, total, end)
	}
}

func (a *app) showImport(report admin.ImportReport, check bool) error {
	if len(report.Problems) > 0 && !a.asJSON {
		for _, problem := range report.Problems {
			fmt.Fprintf(a.out, "line %d: %s\n", problem.Line, problem.Problem)
		}
	}
	problems := []object{}
	for _, problem := range report.Problems {
		problems = append(problems, object{{"line", problem.Line}, {"problem", problem.Problem}})
	}
	o := object{{"rows", report.Rows}, {"imported", report.Added}, {"already_there", report.Known}}
	if a.asJSON {
		o = append(o, field{"ignored_columns", append([]string{}, report.Ignored...)}, field{"problems", problems})
	}
	if err := a.show(o); err != nil {
		return err
	}
	if len(report.Ignored) > 0 && !a.asJSON {
		fmt.Fprintf(a.out, "Columns that are not used: %s.\n", strings.Join(report.Ignored, ", "))
	}
	if n := len(report.Problems); n > 0 {
		return admin.Refuse("%d of %d lines are not right, so nothing was imported; correct them and import the file again", n, report.Rows)
	}
	if check && !a.asJSON {
		fmt.Fprintln(a.out, "The file is fine; without --check it is imported.")
	}
	return nil
}

func (a *app) subscriberList() *cobra.Command {
	var id int64
	var flags listFlags
	command := &cobra.Command{
		Use:   "list [--lco ID]",
		Short: "List subscribers by id; --from and --to go by when they were made",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := optionalLCO(c, id); err != nil {
				return err
			}
			if err := flags.read(a, c); err != nil {
				return err
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				return printList(a, flags, lister[admin.SubscriberEntry]{
					none: "There is no such subscriber.",
					page: func(limit int, after *admin.SubscriberEntry) ([]admin.SubscriberEntry, error) {
						query := flags.query(id, limit)
						if after != nil {
							query.After.ID = after.ID
						}
						return service.SubscriberPage(ctx, query)
					},
					row: func(s admin.SubscriberEntry) object {
						return object{
							{"subscriber_id", s.ID}, {"lco_id", s.OperatorID}, {"mobile", s.Mobile}, {"name", s.Name}, {"plan_id", orNull(s.PlanID)},
							{"expiry_date", at(s.Expires)}, {"status", subscription.StatusAt(s.Expires, a.now())}, {"created_at", at(s.CreatedAt)},
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

func (a *app) subscriberShow() *cobra.Command {
	var id string
	command := &cobra.Command{
		Use:   "show --subscriber ID",
		Short: "Show a subscriber with its cycles and what is under way",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				operatorID, found, err := service.FindSubscriber(ctx, id)
				if err != nil {
					return err
				}
				return a.show(a.subscriberObject(operatorID, found))
			})
		},
	}
	subscriberFlag(command, &id)
	return command
}

func (a *app) subscriberObject(operatorID int64, s operation.Subscription) object {
	now := a.now()
	plan, _ := subscription.LatestPlan(s.Cycles, now)
	cycles := []object{}
	for _, cycle := range s.Cycles {
		cycles = append(cycles, object{{"plan_id", cycle.PlanID}, {"starts_at", when(cycle.StartsAt)}, {"ends_at", when(cycle.EndsAt)}})
	}
	pending := []object{}
	for _, op := range s.Pending {
		pending = append(pending, operationObject(op))
	}
	return object{
		{"subscriber_id", s.ID}, {"lco_id", operatorID}, {"name", s.Name}, {"mobile", s.Mobile}, {"email", s.Email}, {"area", s.Area}, {"address", s.Address},
		{"box_number", s.BoxNumber}, {"notes", s.Notes},
		{"connection_type", s.ConnectionType}, {"status", subscription.StatusAt(s.Expires, now)}, {"plan_id", orNull(plan)},
		{"expiry_date", when(s.Expires)}, {"created_at", when(s.CreatedAt)}, {"renewed_at", when(s.RenewedAt)},
		{"last_provider_transaction", orNull(s.LastProviderTransaction)}, {"cycles", cycles}, {"pending_operations", pending},
	}
}
