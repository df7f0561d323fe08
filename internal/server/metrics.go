package server

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/telemetry"
)

// measureEvery is how often a node measures what is not read for each scrape: open
// operations, disks, backups.
const measureEvery = 15 * time.Second

// expectProviderCalls creates the series of every call that can be made.
func expectProviderCalls(metrics *telemetry.Metrics) {
	var causes []string
	for _, cause := range gateway.Causes {
		causes = append(causes, string(cause))
	}
	metrics.ExpectProviderCalls(append(gateway.Questions, gateway.Orders...), causes)
	metrics.ExpectProviderOrders(gateway.Orders, []string{operation.Confirmed.String(), operation.Rejected.String(), operation.Unknown.String()})
}

// batchers observes the batches of a PostgreSQL store.
type batchers map[string]*telemetry.Batches

func (b batchers) Batch(batcher string, writes int) func() {
	return batches{b[batcher]}.Batch(writes)
}

// batches observes the batches of a SQLite store.
type batches struct{ metrics *telemetry.Batches }

func (b batches) Batch(writes int) func() {
	watch := telemetry.StartStopwatch()
	return func() { b.metrics.Committed(writes, watch.Elapsed()) }
}

func batchersOf(metrics *telemetry.Metrics) batchers {
	all := batchers{}
	for _, name := range postgres.Batchers {
		all[name] = metrics.Batches(name)
	}
	return all
}

// maxReversalsCounted bounds coax_reversals_waiting.
const maxReversalsCounted = 1000

// registerStoreMetrics registers what is read from the store for each scrape: a few rows each.
func registerStoreMetrics(metrics *telemetry.Metrics, store Store, config Config, now func() time.Time) {
	gauge := func(name, help string, read func(context.Context) (float64, error)) {
		metrics.Gauge(name, help, func() (float64, error) {
			ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
			defer cancel()
			return read(ctx)
		})
	}
	metrics.StoreQueue(store.Queued)
	gauge("coax_reviews_overdue", "Operations that have been in review for a day or longer; NaN if they could not be counted.",
		func(ctx context.Context) (float64, error) {
			count, err := store.CountOverdueReviews(ctx, now().Add(-admin.ReviewDue))
			return float64(count), err
		})
	gauge("coax_reversals_waiting", "Reversals that the provider has left unknown for so long that they wait for a person; NaN if they could not be counted.",
		func(ctx context.Context) (float64, error) {
			open, err := store.Reversals(ctx, admin.ReversalFilter{Open: true, Limit: maxReversalsCounted})
			waiting := 0
			for _, r := range open {
				if (admin.ReversalSettlement{Reference: r.Reference, Wait: config.Review.RefundAfter}).Refusal(r, now()) == nil {
					waiting++
				}
			}
			return float64(waiting), err
		})
	gauge("coax_maintenance", "1 while maintenance mode is on and no node accepts new operations, else 0; NaN if the store could not be read.",
		func(ctx context.Context) (float64, error) {
			m, err := store.Maintenance(ctx)
			return oneIf(m.On), err
		})
	gauge("coax_store_restored", "1 while the store was restored from an older copy and neither compared with the provider nor accepted, else 0; NaN if the store could not be read.",
		func(ctx context.Context) (float64, error) {
			restore, err := store.OpenRestore(ctx)
			return oneIf(restore.Open), err
		})
	gauge("coax_bulk_jobs_interrupted", "Bulk renewals that were interrupted and wait for a person to continue or stop them; NaN if they could not be counted.",
		func(ctx context.Context) (float64, error) {
			jobs, err := store.InterruptedBulkJobs(ctx)
			return float64(len(jobs)), err
		})
	gauge("coax_bulk_jobs_open", "Bulk renewals that run, or wait for rows in review; NaN if they could not be counted.",
		func(ctx context.Context) (float64, error) {
			open, err := store.OpenBulkJobs(ctx)
			return float64(open), err
		})
	gauge("coax_store_migrations", "Migrations that the store's schema has; NaN if the store could not be read.",
		func(ctx context.Context) (float64, error) {
			count, err := store.Migrations(ctx)
			return float64(count), err
		})
	gauge("coax_catalogue_verified_timestamp_seconds", "When our prices were last verified with the provider; 0 if never, NaN if the store could not be read.",
		func(ctx context.Context) (float64, error) {
			verified, _, err := store.Compared(ctx, config.Provider.Name)
			return machineTime(config, verified), err
		})
}

// registerNodeMetrics registers the settings and states of the node that alerts rest on.
func (n *Node) registerNodeMetrics() {
	version, commit, goVersion := build()
	n.metrics.BuildInfo(version, cmp.Or(commit, "unknown"), goVersion, n.Config.Store.Kind)
	n.metrics.Gauge("coax_catalogue_max_age_seconds", "The setting catalogue.max_age: how old verified prices may be.",
		func() (float64, error) { return n.Config.Catalogue.MaxAge.Seconds(), nil })
	n.metrics.Gauge("coax_audit_every_seconds", "The setting audit.every: how long this node pauses between two audits; 0 if it does not audit.",
		func() (float64, error) { return n.Config.Audit.Every.Seconds(), nil })
	n.metrics.Gauge("coax_breaker_open", "1 while this node refuses operations because the provider is down, else 0.",
		func() (float64, error) { return oneIf(n.Breaker.Allow() != nil), nil })
	n.metrics.Gauge("coax_ready", "1 while /readyz of this node is 200, else 0.", func() (float64, error) {
		ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
		defer cancel()
		return oneIf(n.internal.Ready(ctx) == ""), nil
	})
	if n.ClockWatch != nil {
		n.metrics.Gauge("coax_clock_offset_seconds", "By how much this node's clock is ahead of the database's.",
			func() (float64, error) { return time.Duration(n.ClockWatch.off.Load()).Seconds(), nil })
	}
	if _, known := clockSynchronized(); known {
		n.metrics.Gauge("coax_clock_synchronized", "1 if the kernel knows of a synchronization of the machine's clock, as NTP services report it, else 0.",
			func() (float64, error) { yes, _ := clockSynchronized(); return oneIf(yes), nil })
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// machineTime returns a time of the service in Unix seconds of the machine's clock, as a
// metrics server compares them; 0 for the zero time.
func machineTime(config Config, at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.Add(-config.Clock.Offset).UnixMilli()) / 1000
}

// every calls a function now and at intervals, until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// measureHolds measures the operations that hold money.
func measureHolds(ctx context.Context, store Store, now time.Time, metrics *telemetry.HoldMetrics, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	holds, err := store.Holds(ctx)
	if err != nil {
		metrics.Unknown()
		log.Debug("sum up the holds for the metrics", "error", err)
		return
	}
	for _, status := range heldIn {
		held := holds[operation.State(status)]
		age := time.Duration(0)
		if held.Count > 0 {
			age = max(0, now.Sub(held.Oldest))
		}
		metrics.Measured(status, held.Count, float64(held.Amount.Paise())/100, age)
	}
}

// heldIn are the statuses of operations that hold money.
var heldIn = []string{string(operation.Processing), string(operation.NeedsReview)}
