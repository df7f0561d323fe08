package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/telemetry"
)

// maxAuditLines bounds how many violations one audit logs, so that a badly damaged
// store does not fill the disk with log lines.
const maxAuditLines = 20

// auditWatch audits the books at intervals while the node serves. It only reports, in
// metrics and in the log: a node whose books do not agree goes on, because stopping it
// is a person's decision.
type auditWatch struct {
	every    time.Duration
	store    StoreConfig
	settings audit.Settings
	keys     func() *audit.Keys
	// now is the service's clock, by which rows are dated and which a demo may have
	// moved; machine is the machine's clock, which metrics use.
	now, machine func() time.Time
	open         func(context.Context) (audit.Snapshot, func(), error)
	log          *slog.Logger
	metrics      *telemetry.AuditMetrics

	// known are the violations of the last audit.
	known map[problem]bool

	mu   sync.Mutex
	last admin.AuditHealth
}

// auditShown is how many violations of the last audit the console shows; `coax audit`
// lists them all.
const auditShown = 10

// health returns the result of the last audit.
func (w *auditWatch) health() admin.AuditHealth {
	if w == nil {
		return admin.AuditHealth{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// remember stores the result of an audit.
func (w *auditWatch) remember(report audit.Report, err error) {
	ended := admin.AuditHealth{Every: w.every, EndedAt: w.now(), Violations: int64(len(report.Violations)) + report.LeftOut}
	if err != nil {
		ended.Problem = err.Error()
	}
	for _, violation := range report.Violations[:min(auditShown, len(report.Violations))] {
		ended.First = append(ended.First, violation.String())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = ended
}

// problem identifies a violation across audits. Its detail is not part of it: the
// balance of a wallet that does not agree changes with every sale.
type problem struct{ invariant, subject string }

// newAuditWatch returns nil if audit.every is 0.
func newAuditWatch(config Config, keys func() *audit.Keys, log *slog.Logger, now func() time.Time, metrics *telemetry.Metrics) *auditWatch {
	if config.Audit.Every == 0 {
		return nil
	}
	invariants := make([]string, len(audit.Invariants))
	for i, invariant := range audit.Invariants {
		invariants[i] = invariant.ID
	}
	settings := AuditSettings(config)
	return &auditWatch{
		last:  admin.AuditHealth{Every: config.Audit.Every},
		every: config.Audit.Every, store: config.Store, settings: settings, keys: keys, now: now, log: log,
		machine: func() time.Time { return now().Add(-config.Clock.Offset) },
		open: func(ctx context.Context) (audit.Snapshot, func(), error) {
			return OpenSnapshot(ctx, config.Store)
		},
		metrics: metrics.Audits(invariants),
	}
}

// run audits until ctx ends. It pauses for the whole interval between two audits,
// however long one takes: SQLite cannot restart its WAL while an audit reads.
func (w *auditWatch) run(ctx context.Context) {
	for {
		pause := time.NewTimer(w.every)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		w.audit(ctx)
	}
}

// audit runs one audit. One that the end of the node interrupts is not counted.
func (w *auditWatch) audit(ctx context.Context) {
	watch := telemetry.StartStopwatch()
	report, err := w.runOnce(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		w.remember(report, err)
		w.metrics.Failed(watch.Elapsed())
		w.log.Warn("the books could not be audited", "error", err)
		return
	}
	w.remember(report, nil)
	found := map[string]int{}
	for _, violation := range report.Violations {
		found[violation.Invariant]++
	}
	w.metrics.Audited(found, w.machine(), watch.Elapsed())
	w.logChanges(report)
}

func (w *auditWatch) runOnce(ctx context.Context) (audit.Report, error) {
	// Before the snapshot: an operation must not look stuck only because the
	// audit took long to begin.
	now := w.now()
	snapshot, done, err := w.open(ctx)
	if err != nil {
		return audit.Report{}, err
	}
	defer done()
	settings := w.settings
	settings.Keys = w.keys()
	pace, release, err := AuditPaceOn(ctx, w.store)
	if err != nil {
		return audit.Report{}, err
	}
	defer release()
	settings.Rest = pace.Rest
	return settings.Run(ctx, snapshot, now, nil)
}

// logChanges logs violations that the last audit did not find, and that the books agree
// again if they do.
func (w *auditWatch) logChanges(report audit.Report) {
	found := map[problem]bool{}
	logged, unlogged := 0, report.LeftOut
	for _, v := range report.Violations {
		p := problem{v.Invariant, v.Subject}
		if w.known[p] || found[p] {
			found[p] = true
			continue
		}
		found[p] = true
		if logged++; logged > maxAuditLines {
			unlogged++
			continue
		}
		w.log.Error("the books do not agree", "invariant", v.Invariant, "subject", v.Subject, "detail", v.Detail)
	}
	if logged > 0 && unlogged > 0 {
		w.log.Error("the books do not agree in more places; `coax audit` names them all", "more", unlogged)
	}
	if len(w.known) > 0 && len(found) == 0 {
		w.log.Info("the books agree again")
	}
	w.known = found
}
