package baseline

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// PgBench is PostgreSQL's own benchmark, TPC-B as its makers see it: three
// updates, a read and an insert in each transaction, one commit.
type PgBench struct {
	// Program is where it is; URL the address of the database.
	Program, URL string
}

// PgBenchRun is what one run came to.
type PgBenchRun struct {
	PerSecond    float64
	LatencyMS    float64
	Transactions uint64
	// CPU is what pgbench itself has taken of the processors.
	CPU time.Duration
}

// Prepare fills the database with so many times 100,000 accounts.
func (p PgBench) Prepare(ctx context.Context, scale int) error {
	_, _, err := p.run(ctx, "--initialize", "--quiet", "--scale", strconv.Itoa(scale))
	return err
}

// Run loads with so many clients for so long, in whole seconds.
func (p PgBench) Run(ctx context.Context, clients int, duration time.Duration) (PgBenchRun, error) {
	seconds := max(1, int(duration.Round(time.Second).Seconds()))
	text, cpu, err := p.run(ctx, "--no-vacuum", "--protocol", "prepared", "--client", strconv.Itoa(clients),
		"--jobs", strconv.Itoa(min(2, clients)), "--time", strconv.Itoa(seconds))
	if err != nil {
		return PgBenchRun{}, err
	}
	run, err := parsePgBench(text)
	run.CPU = cpu
	return run, err
}

func (p PgBench) run(ctx context.Context, args ...string) (output string, cpu time.Duration, err error) {
	command := exec.CommandContext(ctx, p.Program, append(args, p.URL)...)
	command.Env = append(command.Environ(), "LC_ALL=C")
	text, err := command.CombinedOutput()
	if err != nil {
		return "", 0, fmt.Errorf("pgbench: %w\n%s", err, text)
	}
	return string(text), command.ProcessState.UserTime() + command.ProcessState.SystemTime(), nil
}

var (
	pgbenchTPS     = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \((without initial connection time|excluding connections establishing)\)$`)
	pgbenchLatency = regexp.MustCompile(`(?m)^latency average = ([0-9.]+) ms$`)
	pgbenchDone    = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	pgbenchFailed  = regexp.MustCompile(`(?m)^number of failed transactions: ([1-9]\d*)`)
)

// parsePgBench reads what pgbench prints at its end. Where no transaction was
// done in time it says no more than that.
func parsePgBench(text string) (PgBenchRun, error) {
	var run PgBenchRun
	done, err := pgbenchNumber(pgbenchDone, text)
	if err != nil || done == 0 {
		return run, err
	}
	run.Transactions = uint64(done)
	if match := pgbenchFailed.FindStringSubmatch(text); match != nil {
		return run, fmt.Errorf("%s transactions of pgbench failed", match[1])
	}
	if run.PerSecond, err = pgbenchNumber(pgbenchTPS, text); err != nil {
		return run, err
	}
	run.LatencyMS, err = pgbenchNumber(pgbenchLatency, text)
	return run, err
}

func pgbenchNumber(form *regexp.Regexp, text string) (float64, error) {
	match := form.FindStringSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("pgbench says nothing like %s:\n%s", form, text)
	}
	return strconv.ParseFloat(match[1], 64)
}
