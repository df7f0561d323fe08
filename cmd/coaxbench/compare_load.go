package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/compare"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/generator"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/machine"
)

// meter reads what processes take of the processors, by the column that each
// stands in.
type meter map[string]func() (time.Duration, error)

func processes(of ...*compareNode) func() (time.Duration, error) {
	return func() (sum time.Duration, err error) {
		for _, node := range of {
			used, err := machine.CPU(node.PID())
			if err != nil {
				return 0, err
			}
			sum += used
		}
		return sum, nil
	}
}

// meterOf watches everything that has a part in answering.
func (c *comparison) meterOf(store *compareStore, nodes ...*compareNode) meter {
	m := meter{
		"generator": ownCPU,
		"service":   processes(nodes...),
		"simulator": func() (time.Duration, error) { return machine.CPU(c.simulator.PID()) },
	}
	if store.database != nil {
		m["database"] = store.database
	}
	return m
}

// cpuOf is what all processes of a PostgreSQL have taken.
func cpuOf(cluster *growth.Cluster) func() (time.Duration, error) {
	return func() (time.Duration, error) { return machine.CPUOfTree(cluster.PID()) }
}

func ownCPU() (time.Duration, error) { return machine.CPU(os.Getpid()) }

// read is what all have taken so far. Where the system does not tell, there is
// nothing to be shown.
func (m meter) read() map[string]time.Duration {
	used := map[string]time.Duration{}
	for process, read := range m {
		if cpu, err := read(); err == nil {
			used[process] = cpu
		}
	}
	return used
}

// perRequest is what was taken between two readings, for each request, in
// microseconds.
func perRequest(before, after map[string]time.Duration, requests uint64) map[string]float64 {
	each := map[string]float64{}
	for process, used := range after {
		if earlier, known := before[process]; known && requests > 0 {
			each[process] = float64((used - earlier).Microseconds()) / float64(requests)
		}
	}
	return each
}

// loading is one kind of load on nodes.
type loading struct {
	figure *compare.Figure
	store  *compareStore
	nodes  []*compareNode
	// lookup is what is read, balances by default, unless these are renewals, or activations.
	lookup             string
	renewals, activate bool
	meter              meter
	// warmup is how long it is loaded before; zero is as long as everything else.
	warmup   time.Duration
	duration time.Duration
	// accounts send the load; nil for all accounts whose orders the provider answers.
	accounts []*generator.Account
	// burst and unknownOutcome are passed to generator.Load.
	burst          time.Duration
	unknownOutcome bool
}

// load makes one run of a kind of load, and takes it into its figure.
func (c *comparison) load(ctx context.Context, of loading) error {
	var before, after map[string]time.Duration
	result, err := c.send(ctx, of, func() { before = of.meter.read() }, func() { after = of.meter.read() })
	if err != nil {
		return err
	}
	c.take(of.figure, compare.Run{
		Requests: result.Requests, Seconds: result.Seconds, PerSecond: result.PerSecond, Latency: result.Latency,
		CPU: perRequest(before, after, result.Requests),
	})
	return nil
}

// take adds a run to its figure and prints the result. A run without a measurement is an error,
// unless that was to be expected.
func (c *comparison) take(figure *compare.Figure, run compare.Run) {
	figure.Add(run)
	c.round = append(c.round, figure)
	if run.Requests == 0 && !c.flags.quick {
		c.report.Problems = append(c.report.Problems, figure.Name+": nothing was measured")
	}
	text := fmt.Sprintf("%s: %.0f/s", figure.Name, run.PerSecond)
	if run.Latency.P50 > 0 {
		text += fmt.Sprintf(", p50 %.2f ms, p99 %.2f ms", run.Latency.P50, run.Latency.P99)
	}
	c.tell("%s", text)
}

func (c *comparison) send(ctx context.Context, of loading, begin, end func()) (generator.Result, error) {
	load := c.loadOf(of)
	load.Begin, load.End = begin, end
	load.Progress = func(elapsed time.Duration, requests uint64) {
		if elapsed > 0 {
			c.tell("%s: %.0fs  %.0f/s", of.figure.Name, elapsed.Seconds(), float64(requests)/elapsed.Seconds())
		}
	}
	result, err := load.Run(ctx)
	if of.renewals {
		of.store.answered.Add(result.Tally)
	}
	if err != nil {
		return result, err
	}
	for _, problem := range result.Problems {
		c.report.Problems = append(c.report.Problems, of.figure.Name+": "+problem)
	}
	return result, nil
}

// loadOf is a kind of load as the generator wants it.
func (c *comparison) loadOf(of loading) generator.Load {
	load := generator.Load{
		Accounts: of.accounts, Clients: of.figure.Clients, Rate: of.figure.Rate, Burst: of.burst, UnknownOutcome: of.unknownOutcome, Lookup: of.lookup,
		Warmup: cmp.Or(of.warmup, c.plan.warmup), Duration: of.duration, Mark: fmt.Sprintf("bench-%d", time.Now().UnixNano()),
	}
	if load.Accounts == nil {
		load.Accounts = of.store.crowd.Accounts
	}
	for _, node := range of.nodes {
		load.Targets = append(load.Targets, node.target)
	}
	if of.renewals {
		load.Plans, load.Activate = of.store.crowd.Plans, of.activate
	}
	return load
}

// profile takes a CPU profile of the first node in a run that does not count, because profiling
// slows the node down.
func (c *comparison) profile(ctx context.Context, of loading, name string) error {
	if !c.flags.profile {
		return nil
	}
	file := filepath.Join(c.flags.out, name+".cpu.pprof")
	c.tell("%s: taking a profile", of.figure.Name)
	seconds := max(1, int(of.duration.Seconds()))
	of.duration = time.Duration(seconds+1) * time.Second
	taken := make(chan error, 1)
	_, err := c.send(ctx, of, func() {
		go func() { taken <- of.nodes[0].profile(ctx, seconds, file) }()
	}, func() {})
	if err != nil {
		return err
	}
	if err := errors.Join(<-taken); err != nil {
		return err
	}
	c.report.Notes = append(c.report.Notes, "a profile of the service is in "+file)
	return nil
}

// memory notes how large a node is, or was at its largest.
func (c *comparison) memory(name string, node *compareNode, peak bool, atMost int64) {
	m, err := machine.MemoryOf(node.PID())
	if err != nil {
		c.report.Notes = append(c.report.Notes, fmt.Sprintf("memory, %s: %v", name, err))
		return
	}
	size := compare.Size{Name: name, Bytes: m.Resident, AtMost: atMost}
	if peak {
		size.Bytes = m.Peak
	}
	c.report.Sizes = append(c.report.Sizes, size)
}
