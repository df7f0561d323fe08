package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/crowd"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/machine"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest/pgprogram"
	"github.com/spf13/cobra"
)

// comparePlan has the size and the length of a comparison.
type comparePlan struct {
	crowd   crowd.Size
	clients []int
	// growthRounds is for the comparison of large with small stores, which differ little.
	rounds, growthRounds int
	warmup               time.Duration
	// meeting is how long a new node is loaded before it is measured, so that its cache has
	// all operators.
	meeting  time.Duration
	duration time.Duration
	// open is how long the open loops are measured.
	open time.Duration
	// scale is pgbench's.
	scale int
	// pause is the time between two checks of the CPU time that the host steals.
	pause time.Duration
	// large is the preferred number of operations of a large store, enough the number if
	// there is none in the cache; small is that of a small store.
	large, enough, small int
}

var (
	wholeComparison = comparePlan{
		crowd: crowd.Size{Operators: 1000, Subscribers: 100_000, Plans: 16, UnknownOutcome: 1000}, clients: []int{1, 16, 64}, rounds: 3, growthRounds: 5,
		warmup: time.Second, meeting: 5 * time.Second, duration: 5 * time.Second, open: 8 * time.Second, scale: 10, pause: 9 * time.Second,
		large: 10_000_000, enough: 1_000_000, small: 10_000,
	}
	quickComparison = comparePlan{
		crowd: crowd.Size{Operators: 32, Subscribers: 640, Plans: 8, UnknownOutcome: 80}, clients: []int{1, 4, 16}, rounds: 1, growthRounds: 1,
		duration: 200 * time.Millisecond, open: 200 * time.Millisecond, scale: 1,
		large: 20_000, enough: 20_000, small: 100,
	}
)

// maxClients is the number of clients that ratios are taken at.
func (p comparePlan) maxClients() int { return p.clients[len(p.clients)-1] }

// compareParts is what a comparison can be narrowed to.
var compareParts = []string{"reads", "sqlite", "postgres", "calls", "growth"}

type compareFlags struct {
	quick, profile bool
	out            string
	only           []string
}

func (f compareFlags) wants(part string) bool {
	return len(f.only) == 0 || slices.Contains(f.only, part)
}

func (a *app) compareCommand() *cobra.Command {
	var f compareFlags
	command := &cobra.Command{
		Use:   "compare [--quick] [--only PART] [--out DIR]",
		Short: "Measure the service beside what its parts can do, and print the ratios",
		Long: `Start a service, its provider and its database, each in a process of its own; load it from this
one; and in turn with it measure, in the same minutes on the same machine, what its parts can do by
themselves. How fast a machine is says little about a service; what the service leaves of it does.

  reads     signed look-ups on SQLite (balance, plans, subscription, transaction), beside a bare net/http
            handler with TLS that answers with the bytes of a balance
  sqlite    renewals on SQLite, beside their rows alone: prepared statements, 64 operations a commit;
            and activations beside renewals
  postgres  the same look-ups on PostgreSQL; renewals, one node and three, beside pgbench (TPC-B, prepared)
  calls     balances and renewals while operators' calls are kept for them, beside ones while they are not
  growth    renewals on stores of ten million operations, beside ones of ten thousand

1,000 operators and 100,000 subscribers share the load, over kept connections; every request is
signed with a fresh nonce, and every answer's code is checked. Closed loops have 1, 16 and 64 clients;
open loops send at half of what 64 clients reached, and count a request's time from when it was due;
renewals are sent so once more beside each of these jobs: audits of the store, one after the other;
the review of operations that the provider has left unknown, 30 a second; a bulk job, which makes
half of the load itself, in bursts; and a vacuum of PostgreSQL, which otherwise comes before each of
its runs instead of beside some of them.
Ratios are of the processor time that all processes together take for one request, with the ratio of
the rates beside them. Every figure is the median of three runs (of five, for growth), and so is every
ratio; a round in which the machine's host
gave more than 5 % of it to others is made again if anything is compared in it, four times for each
comparison at most, and none begins while the host does that, for twenty minutes in all at most. At
the end each store is audited, and its ledger has to have a line for every 200. Stores of ten million
operations are loaded where coaxbench fill has made them in --out, after their files were read once;
their books are counted and not audited. Where there are none, such of a million are made there.
PostgreSQL has a quarter of the machine's memory, and 4 GB at most.

It takes some 25 minutes on a machine of its own, in the system's temporary folder (TMPDIR moves it:
the disk beneath counts), and removes what it made, except for its report, which goes to --out as JSON.

Exits with 1 if anything was answered wrongly, or the books do not agree. A ratio that is not met is
said, and is no error.`,
		Example: `  coaxbench compare
  coaxbench compare --only sqlite --profile
  coaxbench compare --quick`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, part := range f.only {
				if !slices.Contains(compareParts, part) {
					return usage("--only %s: write %s", part, strings.Join(compareParts, ", "))
				}
			}
			if err := a.findCoax(); err != nil {
				return err
			}
			return a.compare(c.Context(), f)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&f.quick, "quick", false, "one short run of everything, to see that it works; its figures mean nothing")
	flags.StringSliceVar(&f.only, "only", nil, "measure only `PART`: reads, sqlite, postgres, calls or growth; may be repeated")
	flags.BoolVar(&f.profile, "profile", false, "take a CPU profile of the service under each kind of load, beside the report")
	flags.StringVar(&f.out, "out", ".bench", "`DIR` for the report and the profiles, and where filled stores are kept")
	a.addCoaxFlag(command)
	return command
}

// comparison is one under way.
type comparison struct {
	*app
	flags  compareFlags
	plan   comparePlan
	report *compare.Report
	// folder is where everything is made, and removed at the end.
	folder    string
	began     time.Time
	simulator *machine.Process
	provider  string // the simulator's address
	// round is the figures that this round has taken a run into; probed is how often one
	// had to wait.
	round  []*compare.Figure
	probed int
	// watchStolen and probeStolen are the machine's.
	watchStolen func() (part func() float64)
	probeStolen func() (part float64)
}

func (a *app) compare(ctx context.Context, f compareFlags) (err error) {
	plan := wholeComparison
	if f.quick {
		plan = quickComparison
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return fmt.Errorf("make a folder for the report: %w", err)
	}
	folder, err := os.MkdirTemp("", "coax-bench-")
	if err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	c := &comparison{app: a, flags: f, plan: plan, folder: folder, began: time.Now(), watchStolen: machine.WatchStolen, probeStolen: machine.ProbeStolen}
	c.report = &compare.Report{
		Began: c.began, Quick: f.quick, Program: server.Version(), Machine: compare.ThisMachine(),
		Figures: []*compare.Figure{}, Ratios: []compare.Ratio{}, Sizes: []compare.Size{}, Books: []compare.Books{}, Notes: []string{}, Problems: []string{},
	}
	err = errors.Join(c.run(ctx), os.RemoveAll(folder))
	if ctx.Err() != nil {
		return errors.New("interrupted: nothing was compared")
	}
	if err != nil && len(c.report.Ratios) == 0 {
		return err
	}
	if err != nil {
		// What was measured before took minutes, and is as good as ever.
		c.report.Problems = append(c.report.Problems, err.Error())
	}
	return c.conclude()
}

// checkPrograms checks for missing programs before anything is measured.
func (c *comparison) checkPrograms() error {
	if !c.flags.wants("postgres") && !c.flags.wants("calls") && !c.flags.wants("growth") {
		return nil
	}
	for _, name := range []string{"initdb", "postgres", "pgbench"} {
		if _, err := pgprogram.Find(name); err != nil {
			return fmt.Errorf("%w; --only reads,sqlite does without", err)
		}
	}
	return nil
}

// run measures the requested parts, one after the other.
func (c *comparison) run(ctx context.Context) (err error) {
	if err := c.checkPrograms(); err != nil {
		return err
	}
	// PostgreSQL may run as another user, who has to get to its own folder.
	if err := os.Chmod(c.folder, 0o711); err != nil {
		return err
	}
	if err := server.EnsureCertificate(c.folder, "127.0.0.1:0"); err != nil {
		return err
	}
	if err := server.WriteMasterKey(filepath.Join(c.folder, "master.key")); err != nil {
		return err
	}
	if err := c.startSimulator(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.simulator.Stop()) }()
	if c.flags.wants("reads") || c.flags.wants("sqlite") {
		if err := c.compareSQLite(ctx); err != nil {
			return fmt.Errorf("on SQLite: %w", err)
		}
	}
	if c.flags.wants("postgres") {
		if err := c.comparePostgres(ctx); err != nil {
			return fmt.Errorf("on PostgreSQL: %w", err)
		}
	}
	if c.flags.wants("calls") {
		if err := c.compareRequestLog(ctx); err != nil {
			return fmt.Errorf("with and without the log of calls: %w", err)
		}
	}
	if c.flags.wants("growth") {
		if err := c.compareGrowth(ctx); err != nil {
			return fmt.Errorf("on stores that have grown: %w", err)
		}
	}
	return nil
}

// conclude writes the report and prints where it is.
func (c *comparison) conclude() error {
	c.report.Took = time.Since(c.began).Seconds()
	if missed := c.report.Missed(); c.flags.quick && missed > 0 {
		c.report.Notes = append(c.report.Notes, "this was a quick run: its figures mean nothing")
	}
	fmt.Fprintln(c.out)
	if err := c.report.WriteText(c.out); err != nil {
		return err
	}
	file := filepath.Join(c.flags.out, "bench-"+c.began.UTC().Format("20060102-150405")+".json")
	if err := c.report.WriteJSON(file); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	fmt.Fprintf(c.out, "The report is in %s\n", file)
	if problems := c.report.Problems; len(problems) > 0 {
		return fmt.Errorf("%s; the first: %s", counted(len(problems), "problem"), problems[0])
	}
	return nil
}

// tell prints the current step and the elapsed time.
func (c *comparison) tell(format string, args ...any) {
	fmt.Fprintf(c.err, "%5.0fs  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// figure adds a figure to the report.
func (c *comparison) figure(f compare.Figure) *compare.Figure {
	c.report.Figures = append(c.report.Figures, &f)
	return &f
}

const (
	// maxStolen is the share of CPU time that the host may steal in a round that counts.
	maxStolen = 0.05
	// maxRepeated is how many rounds of one comparison are repeated for that; a limit for all
	// comparisons together could be used up by the first. maxProbed is how often a run waits
	// for the host before a round: for twenty minutes in all.
	maxRepeated = 4
	maxProbed   = 120
)

// alternate runs several measurements in turn, as often as the plan says, so that other load
// of the machine affects them equally. A round in which the host stole CPU time is repeated,
// unless it compares nothing.
func (c *comparison) alternate(ctx context.Context, runs ...func() error) error {
	for done, repeated := 0, 0; done < c.plan.rounds; {
		if err := c.awaitHost(ctx); err != nil {
			return err
		}
		c.round = nil
		watched := c.watchStolen()
		for _, run := range runs {
			if err := run(); err != nil {
				return err
			}
		}
		stolen := watched()
		if stolen <= maxStolen || c.flags.quick || len(runs) == 1 || repeated == maxRepeated {
			done++
			if stolen > maxStolen && !c.flags.quick {
				c.report.Notes = append(c.report.Notes, fmt.Sprintf("a round of %s counts although the host took %.0f %% of the machine", c.round[0].Name, 100*stolen))
			}
			continue
		}
		c.tell("the host took %.0f %% of the machine: once more", 100*stolen)
		repeated++
		for _, figure := range c.round {
			figure.Drop()
		}
	}
	return nil
}

// awaitHost waits until the host steals no more than maxStolen, which can be measured only
// while the machine is busy.
func (c *comparison) awaitHost(ctx context.Context) error {
	for ; c.probed < maxProbed && !c.flags.quick; c.probed++ {
		stolen := c.probeStolen()
		if stolen <= maxStolen {
			return nil
		}
		c.tell("the host takes %.0f %% of the machine: waiting", 100*stolen)
		select {
		case <-time.After(c.plan.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
