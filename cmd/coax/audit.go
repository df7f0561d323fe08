package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

func (a *app) auditCommand() *cobra.Command {
	var showProgress bool
	var headFiles []string
	command := &cobra.Command{
		Use:   "audit --config FILE",
		Short: "Audit the books: recompute everything from the rows and list what does not agree",
		Long: `Audit the books: recompute every balance, expiry and history from the rows alone and list
what does not agree.

Reads one snapshot of the store and changes nothing, so that it may run beside live nodes:
while the store is being written it takes at most half of a processor, at the lowest priority.
If the master key of the configuration can be read, it also verifies the MACs of staff actions
and of the daily digests of wallet entries and ledger lines. Without it everything else is
audited, and the report says what was skipped. Rows of today have no digest yet.

An attacker with the database and the master key can recompute every MAC, and rows removed at
the end of a chain leave no gap. Only a head that was saved elsewhere shows either: a node
logs one every hour, and --json prints one. --head compares the store with all heads in a
file: it must contain each of them.

Prints what it counted. Exits with 0 if everything agrees; with 1 if not, after one line
for each violation: what was broken, where, what was expected and what was found.

The invariants that it checks:

` + invariants(),
		Example: `  coax audit --config coax.toml
  coax audit --config coax.toml --json | jq .violations
  coax audit --config coax.toml --head /var/log/coax.log`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.ownProcess {
				server.LowerPriority()
			}
			heads, err := readHeads(headFiles)
			if err != nil {
				return err
			}
			report, err := a.runAudit(c.Context(), showProgress, heads)
			if err != nil {
				return err
			}
			if err := a.showAudit(report); err != nil || report.OK {
				return err
			}
			return fmt.Errorf("the books do not agree: %s", counted(int64(len(report.Violations))+report.LeftOut, "violation"))
		},
	}
	a.addConfigFlags(command)
	command.Flags().BoolVar(&a.asJSON, "json", false, "print one JSON object")
	command.Flags().StringArrayVar(&headFiles, "head", nil, "compare the store with the heads in `FILE`: a node's log, or what --json printed")
	command.Flags().BoolVar(&showProgress, "progress", false, "print the progress on standard error, as it does on a terminal")
	return command
}

func invariants() string {
	var text strings.Builder
	for _, invariant := range audit.Invariants {
		fmt.Fprintf(&text, "  %-4s %s\n", invariant.ID, invariant.Promise)
	}
	return text.String()
}

// readHeads reads the heads in all files.
func readHeads(files []string) (heads []audit.Head, err error) {
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--head: %w", err)
		}
		found, err := audit.ReadHeads(file)
		_ = file.Close()
		if err != nil {
			return nil, fmt.Errorf("--head %s: %w", name, err)
		}
		heads = append(heads, found...)
	}
	return heads, nil
}

func (a *app) runAudit(ctx context.Context, showProgress bool, heads []audit.Head) (audit.Report, error) {
	config, err := a.config()
	if err != nil {
		return audit.Report{}, err
	}
	// The time is taken before the snapshot: an operation must not look stuck
	// only because the audit took long.
	now := server.Clock(config.Clock.Offset)()
	var progress func(string, int64)
	if onTerminal := isTerminal(a.err); showProgress || onTerminal {
		var end func()
		progress, end = auditProgress(a.err, onTerminal)
		defer end()
	}
	return server.RunAudit(ctx, config, a.environ, now, heads, progress)
}

// auditProgress returns a function that prints the progress a few times a second: on a
// terminal in one line that end erases, else line by line.
func auditProgress(to io.Writer, onTerminal bool) (progress func(what string, rows int64), end func()) {
	var last time.Time
	begin, finish := "", "\n"
	if onTerminal {
		begin, finish = "\r\x1b[K", ""
	}
	progress = func(what string, rows int64) {
		if now := time.Now(); now.Sub(last) > 200*time.Millisecond {
			last = now
			fmt.Fprintf(to, "%s%s read, in %s now%s", begin, counted(rows, "row"), what, finish)
		}
	}
	return progress, func() { fmt.Fprint(to, begin) }
}

// isTerminal reports whether a writer is a terminal.
func isTerminal(writer io.Writer) bool {
	file, is := writer.(*os.File)
	if !is {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (a *app) showAudit(report audit.Report) error {
	if a.asJSON {
		return json.NewEncoder(a.out).Encode(report)
	}
	counts := report.Counts
	operations := counts.Operations
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, f := range (object{
		{"operators", counts.Operators}, {"wallets", counts.Wallets}, {"wallet entries", counts.WalletEntries}, {"ledger lines", counts.LedgerLines},
		{"operations", fmt.Sprintf("%d (%d success, %d failed, %d processing, %d needs_review)",
			operations.Total, operations.Success, operations.Failed, operations.Processing, operations.NeedsReview)},
		{"commissions", counts.Commissions}, {"events of operations", counts.Events}, {"provider calls", counts.ProviderCalls},
		{"exceptions", counts.Exceptions}, {"reversals", counts.Reversals}, {"subscribers", counts.Subscribers}, {"cycles", counts.Cycles},
		{"plans", fmt.Sprintf("%d (%d versions)", counts.Plans, counts.PlanVersions)},
		{"keys", counts.Keys}, {"whitelist entries", counts.Whitelist}, {"staff actions", counts.Actions}, {"last action's hash", orNull(report.ActionsHead)}, {"last action's MAC", orNull(report.Head.MAC)},
		{"ledger digests", digestsOf(report)},
		{"credited", counts.Sums.Credited}, {"charged", counts.Sums.Charged}, {"held", counts.Sums.Held}, {"balance", counts.Sums.Balance},
		{"ledger", counts.Sums.Ledger}, {"commission", counts.Sums.Commission},
	}) {
		fmt.Fprintf(table, "%s\t%s\n", f.name, cell(f.value))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, skipped := range report.Skipped {
		fmt.Fprintln(a.out, "Not verified:", skipped)
	}
	if report.Compared > 0 {
		fmt.Fprintf(a.out, "Compared with %s.\n", counted(int64(report.Compared), "exported head"))
	}
	for _, violation := range report.Violations {
		fmt.Fprintln(a.out, violation)
	}
	if report.LeftOut > 0 {
		fmt.Fprintf(a.out, "… and %s that are not shown\n", counted(report.LeftOut, "violation"))
	}
	if report.OK {
		fmt.Fprintln(a.out, "Everything agrees.")
	}
	return nil
}

// digestsOf describes how far the digests reach.
func digestsOf(report audit.Report) string {
	text := fmt.Sprintf("%d", report.Counts.Digests)
	if report.Head.Day != "" {
		text += ", the last for " + report.Head.Day
	}
	return text + "; " + counted(report.Counts.Unsealed, "row") + " without digest yet"
}

func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
