package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/reconcile"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/spf13/cobra"
)

// compareWithProvider compares a restored store with what the provider has carried out since, and
// counts what is left to do.
func (a *app) compareWithProvider(ctx context.Context, config server.Config) (differences int, err error) {
	err = a.withStore(ctx, func(ctx context.Context, _ server.Config, s staffStore) error {
		differences, err = server.CompareRestored(ctx, config, s.store, s.vault, a.now, func(left time.Duration) {
			fmt.Fprintf(a.err, "no difference so far; waiting %v, because the provider may still carry out what it was asked before the restore\n", left.Round(time.Second))
		})
		return err
	})
	return differences, err
}

// reconcileFlags are the flags of coax reconcile.
type reconcileFlags struct {
	day, since, file string
	adopt            bool
	reason, only     string
	operators, plans []string
}

func (a *app) reconcileCommand() *cobra.Command {
	var flags reconcileFlags
	command := &cobra.Command{
		Use:   "reconcile --config FILE (--day YYYY-MM-DD | --since T)",
		Short: "Compare what the provider has carried out with our operations",
		Long: `Compare what the provider has carried out with our operations, for an Indian day or since a
moment (RFC 3339, or a day). For a store that was restored from an older copy, --since is the
restore's unless given.

  ours_only    a success here that is not in the provider's list
  theirs_only  carried out there, and not known here
  differs      known on both sides, and not the same

Operations that are processing or in review are no differences: review settles them, also in
maintenance. The list is read from the provider, or with --file from its export in CSV, with
the columns reference, kind, subscriber_id, mobile, component, carried_out_at and
transaction_id, and if there are, months, expires_at, client_key
and reversed_by.

It changes nothing unless --adopt is given. That records the operations of theirs_only in the
books, as after a restore from an older backup: under the same transaction id, charged at the
price of that time, and found again when the client repeats its request. An operation that the
provider has undone since, and that is not reversed here, is reversed under the provider's
reference: the provider is asked once more, and its answer takes everything back. What is not
known here and was undone since is named, and needs nothing. Nothing is guessed: what
no client has repeated and several plans fit has to be given. It needs maintenance mode, so that
nobody repeats one meanwhile. Enter the top-ups since the backup first.

Exits with 0 if there is no difference, or none is left; with 1 if there are some, or if the
comparison could not be made.`,
		Example: `  coax reconcile --config coax.toml --day 2027-03-01
  coax reconcile --config coax.toml --since 2027-03-01T02:00:00+05:30 --json
  coax reconcile --config coax.toml --adopt --reason "restored the backup of 2 o'clock"`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case flags.day != "" && flags.since != "":
				return usage("give either --day or --since")
			case flags.adopt && strings.TrimSpace(flags.reason) == "":
				return usage("--adopt needs --reason TEXT")
			case !flags.adopt && (flags.reason != "" || flags.only != ""):
				return usage("--reason and --only go with --adopt")
			}
			choice, err := flags.choice()
			if err != nil {
				return usage("%v", err)
			}
			return a.reconcile(c.Context(), flags, choice)
		},
	}
	a.addConfigFlags(command)
	f := command.Flags()
	f.StringVar(&flags.day, "day", "", "compare an Indian day, `YYYY-MM-DD`")
	f.StringVar(&flags.since, "since", "", "compare from a moment until now: RFC 3339, or `YYYY-MM-DD`")
	f.StringVar(&flags.file, "file", "", "the provider's export in `CSV`, in place of its list")
	f.BoolVar(&flags.adopt, "adopt", false, "record the forgotten operations in the books")
	f.StringVar(&flags.reason, "reason", "", "why; it is recorded")
	f.StringVar(&flags.only, "only", "", "adopt the order with this `REFERENCE` only")
	f.StringArrayVar(&flags.operators, "lco", nil, "the operator, for activations of which nothing else tells it: `[REFERENCE=]ID`, repeatable")
	f.StringArrayVar(&flags.plans, "plan", nil, "the plan, where several fit: `[REFERENCE=]ID`, repeatable; ID alone goes with --only")
	f.BoolVar(&a.asJSON, "json", false, "print a JSON array")
	return command
}

// window returns what the flags select.
func (f reconcileFlags) window(ctx context.Context, store server.Store, now time.Time) (w reconcile.Window, err error) {
	switch {
	case f.day != "":
		w, err = reconcile.Day(f.day)
	case f.since != "":
		w, err = reconcile.Since(f.since)
	default:
		return server.RestoreWindow(ctx, store)
	}
	if err == nil && w.From.After(now) {
		err = fmt.Errorf("%s is in the future", w)
	}
	if err != nil {
		return w, usage("%v", err)
	}
	return w, nil
}

// choice is what a person knows about forgotten orders.
type choice struct {
	operatorID int64
	planID     string
	operators  map[string]int64
	plans      map[string]string
}

// choice returns what --lco and --plan give.
func (f reconcileFlags) choice() (c choice, err error) {
	operators, operatorID, err := choices("--lco", f.operators)
	if err != nil {
		return c, err
	}
	if c.plans, c.planID, err = choices("--plan", f.plans); err != nil {
		return c, err
	}
	if c.planID != "" && f.adopt && f.only == "" {
		return c, fmt.Errorf("--plan %s is for one order: give --only REFERENCE, or --plan REFERENCE=%[1]s for each", c.planID)
	}
	if operatorID != "" {
		operators[""] = operatorID
	}
	c.operators = map[string]int64{}
	for reference, text := range operators {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id <= 0 {
			return c, fmt.Errorf("--lco %s: an operator's id is a number", text)
		}
		c.operators[reference] = id
	}
	c.operatorID = c.operators[""]
	delete(c.operators, "")
	return c, nil
}

// choices reads values of the form REFERENCE=ID, or ID for all orders.
func choices(flag string, values []string) (byReference map[string]string, all string, err error) {
	byReference = map[string]string{}
	for _, value := range values {
		reference, id, single := strings.Cut(value, "=")
		if !single {
			reference, id = "", value
		}
		if id == "" || single && reference == "" {
			return nil, "", fmt.Errorf("%s %q: write ID, or REFERENCE=ID", flag, value)
		}
		if before := byReference[reference]; before != "" && before != id {
			return nil, "", fmt.Errorf("%s gives both %s and %s for the same", flag, before, id)
		}
		byReference[reference] = id
	}
	all = byReference[""]
	delete(byReference, "")
	return byReference, all, nil
}

// checkChoice refuses a choice for an order that is not forgotten: its reference is mistyped.
func checkChoice(report reconcile.Report, c choice) error {
	for _, reference := range slices.Concat(slices.Sorted(maps.Keys(c.operators)), slices.Sorted(maps.Keys(c.plans))) {
		if !slices.ContainsFunc(report.Differences, func(d reconcile.Difference) bool { return d.Kind == reconcile.TheirsOnly && d.Reference == reference }) {
			return admin.Refuse("no forgotten order has the reference %s, which --lco or --plan names: nothing was adopted", reference)
		}
	}
	return nil
}

func (a *app) reconcile(ctx context.Context, flags reconcileFlags, chosen choice) error {
	return a.withStore(ctx, func(ctx context.Context, config server.Config, s staffStore) error {
		window, err := flags.window(ctx, s.store, a.now())
		if err != nil {
			return err
		}
		list, source, closeList, err := a.openList(config, flags.file)
		if err != nil {
			return err
		}
		defer closeList()
		for _, id := range slices.Sorted(maps.Values(chosen.operators)) {
			if _, err := s.store.Operator(ctx, id); err != nil {
				return err
			}
		}
		if chosen.operatorID > 0 {
			if _, err := s.store.Operator(ctx, chosen.operatorID); err != nil {
				return err
			}
		}
		comparison := server.NewComparison(config, s.store, s.vault, list, source, a.now)
		comparison.Choice.OperatorID, comparison.Choice.PlanID = chosen.operatorID, chosen.planID
		comparison.Choice.Operators, comparison.Choice.Plans = chosen.operators, chosen.plans
		last := time.Now()
		comparison.Progress = func(orders int) {
			if now := time.Now(); now.Sub(last) > time.Second {
				last = now
				fmt.Fprintf(a.err, "%s read\n", counted(int64(orders), "order"))
			}
		}
		report, err := comparison.Run(ctx, window)
		if errors.Is(err, operation.ErrListUnsupported) {
			return a.listOurs(ctx, s.store, window)
		}
		if err == nil {
			err = checkChoice(report, chosen)
		}
		if err != nil {
			return err
		}
		var outcomes []reconcile.Outcome
		if flags.adopt {
			service := admin.NewService(s.store, s.vault, s.actor, a.now)
			if outcomes, err = comparison.Adopt(ctx, service, flags.reason, flags.only); err != nil {
				return err
			}
			if flags.only != "" && len(outcomes) == 0 {
				return admin.Refuse("no forgotten order or reversal has the reference %s", flags.only)
			}
		}
		return a.showComparison(window, report, outcomes)
	})
}

// openList opens the provider's list, or a file in its place.
func (a *app) openList(config server.Config, path string) (list operation.OrderLister, source string, end func(), err error) {
	if path == "" {
		provider, err := server.OpenProvider(config, nil)
		if err != nil {
			return nil, "", nil, err
		}
		return provider, server.SourceList, provider.Close, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, "", nil, fmt.Errorf("--file: %w", err)
	}
	defer file.Close()
	orders, err := reconcile.ReadFile(file)
	if err != nil {
		return nil, "", nil, fmt.Errorf("--file %s: %w", path, err)
	}
	if len(orders.Ignored) > 0 {
		fmt.Fprintf(a.err, "columns of the file that are not used: %s\n", strings.Join(orders.Ignored, ", "))
	}
	return orders, "the provider's file", func() {}, nil
}

// listOurs lists our own operations of a window, for a person to compare.
func (a *app) listOurs(ctx context.Context, store server.Store, w reconcile.Window) error {
	unsupported := errors.New("the provider does not list its orders, so nothing was compared: compare by hand, or get its export and give that with --file")
	if a.asJSON {
		return unsupported
	}
	filter := admin.OperationFilter{State: operation.Success, From: w.From, To: w.Until, OldestFirst: true, Limit: 500}
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OUR SUCCESSFUL OPERATIONS\tOPERATION\tLCO\tSUBSCRIBER\tMOBILE\tPLAN\tAMOUNT\tCREATED\tPROVIDER'S NUMBER")
	for {
		batch, err := store.ListOperations(ctx, filter)
		if err != nil {
			return err
		}
		for _, op := range batch {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", op.ID, op.Kind, op.OperatorID, op.SubscriberID, op.Mobile, op.PlanID, op.Amount, shortTime(op.CreatedAt), op.ProviderTransaction)
			filter.After = admin.Cursor{At: op.CreatedAt, ID: op.ID}
		}
		if len(batch) < filter.Limit {
			break
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return unsupported
}

func shortTime(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.In(subscription.IST).Format("2006-01-02 15:04:05")
}

// showComparison prints the differences and what was adopted, and returns an error if any is left.
func (a *app) showComparison(w reconcile.Window, report reconcile.Report, outcomes []reconcile.Outcome) error {
	done := map[string]reconcile.Outcome{}
	adopted := 0
	for _, outcome := range outcomes {
		done[outcome.Reference] = outcome
		if outcome.Adopted {
			adopted++
		}
	}
	left := len(report.Differences) - adopted
	if a.asJSON {
		rows := []object{}
		for _, d := range report.Differences {
			rows = append(rows, differenceRow(d, done))
		}
		if err := json.NewEncoder(a.out).Encode(rows); err != nil {
			return err
		}
	} else if err := a.printComparison(w, report, done, adopted); err != nil {
		return err
	}
	switch {
	case left == 0:
		return nil
	case outcomes != nil:
		return fmt.Errorf("%s left", counted(int64(left), "difference"))
	}
	return fmt.Errorf("%s found", counted(int64(left), "difference"))
}

func differenceRow(d reconcile.Difference, done map[string]reconcile.Outcome) object {
	var amount any
	if !d.Amount.IsZero() {
		amount = d.Amount
	}
	var operatorID any
	if d.OperatorID != 0 {
		operatorID = d.OperatorID
	}
	row := object{
		{"kind", d.Kind}, {"transaction_id", d.TransactionID}, {"reference", d.Reference}, {"lco_id", operatorID}, {"operation", d.Operation},
		{"status", orNull(string(d.State))}, {"subscriber_id", d.SubscriberID}, {"mobile", d.Mobile}, {"components", d.Components}, {"months", d.Months},
		{"plan_id", orNull(d.PlanID)}, {"amount", amount}, {"created_at", when(d.CreatedAt)}, {"carried_out_at", when(d.CarriedOutAt)}, {"expires_at", when(d.ExpiresAt)},
		{"provider_transaction_id", orNull(d.ProviderTransaction)}, {"has_client_key", d.HasClientKey}, {"detail", d.Detail}, {"suggestion", d.Suggestion},
		{"adoptable", d.Adoptable()}, {"reversed_by", orNull(d.ReversedBy)},
	}
	if outcome, is := done[d.Reference]; is {
		row = append(row, field{"adopted", outcome.Adopted}, field{"problem", orNull(outcome.Problem)})
	}
	return row
}

func (a *app) printComparison(w reconcile.Window, report reconcile.Report, done map[string]reconcile.Outcome, adopted int) error {
	fmt.Fprintf(a.out, "%s: %s of the provider and %s of ours compared.\n", w, counted(int64(report.Orders), "order"), counted(int64(report.Operations), "operation"))
	for _, d := range report.Undone {
		fmt.Fprintf(a.out, "%s: %s.\n", d.Reference, d.Detail)
	}
	if len(report.Differences) == 0 {
		fmt.Fprintln(a.out, "No difference.")
		return nil
	}
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KIND\tREFERENCE\tOPERATION\tLCO\tSUBSCRIBER\tMOBILE\tCOMPONENTS\tPLAN\tAMOUNT\tTIME")
	sums, counts := map[reconcile.Kind]money.Amount{}, map[reconcile.Kind]int64{}
	for _, d := range report.Differences {
		lco := "–"
		if d.OperatorID != 0 {
			lco = fmt.Sprint(d.OperatorID)
		}
		amount := "–"
		if !d.Amount.IsZero() {
			amount = d.Amount.String()
		}
		plan := d.PlanID
		if plan == "" {
			plan = "–"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Kind, d.Reference, d.Operation, lco, d.SubscriberID, d.Mobile, strings.Join(d.Components, "+"), plan, amount, shortTime(d.At()))
		sums[d.Kind], counts[d.Kind] = sums[d.Kind].Add(d.Amount), counts[d.Kind]+1
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, d := range report.Differences {
		text := d.Detail + ". " + d.Suggestion
		switch outcome, is := done[d.Reference]; {
		case is && outcome.Adopted && d.Reversible():
			text = "its reversal is asked for: the provider's answer takes everything back"
		case is && outcome.Adopted:
			text = "adopted"
		case is:
			text = "not adopted: " + outcome.Problem
		}
		fmt.Fprintf(a.out, "%s: %s\n", d.Reference, text)
	}
	for _, kind := range []reconcile.Kind{reconcile.OursOnly, reconcile.TheirsOnly, reconcile.Differs} {
		if counts[kind] > 0 {
			fmt.Fprintf(a.out, "%s: %d, ₹%s\n", kind, counts[kind], sums[kind])
		}
	}
	if len(done) > 0 {
		fmt.Fprintf(a.out, "%s adopted.\n", counted(int64(adopted), "operation"))
	}
	return nil
}
