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

// auditLinesMost bounds what one audit may write into the log: a store that is
// broken all over must not fill the disk as well.
const auditLinesMost = 20

// auditWatch proves the books again and again, beside a node at work. What it
// finds it tells in metrics and in the log, and changes nothing else: a node whose
// books do not agree goes on, because stopping is a person's decision.
type auditWatch struct {
	every    time.Duration
	store    StoreConfig
	settings audit.Settings
	// now is the service's clock, which the rows carry; machine is the one that
	// whoever collects metrics goes by. A demo may have moved the first.
	now, machine func() time.Time
	open         func(context.Context) (audit.Snapshot, func(), error)
	log          *slog.Logger
	metrics      *telemetry.AuditMetrics

	// known is what was wrong when it last looked.
	known map[problem]bool

	mu   sync.Mutex
	last admin.AuditHealth
}

// auditShown is how many violations of the last audit are kept for people to see;
// `coax audit` names them all.
const auditShown = 10

// health is how the last audit ended.
func (w *auditWatch) health() admin.AuditHealth {
	if w == nil {
		return admin.AuditHealth{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// remember keeps how an audit ended.
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

// problem tells a violation from others. What it says is not part of it: the
// balance of a wallet that does not agree moves on with every sale.
type problem struct{ invariant, subject string }

// newAuditWatch returns nil where no audit is wanted.
func newAuditWatch(config Config, keys *audit.Keys, log *slog.Logger, now func() time.Time, metrics *telemetry.Metrics) *auditWatch {
	if config.Audit.Every == 0 {
		return nil
	}
	invariants := make([]string, len(audit.Invariants))
	for i, invariant := range audit.Invariants {
		invariants[i] = invariant.ID
	}
	settings := AuditSettings(config)
	settings.Keys = keys
	return &auditWatch{
		last:  admin.AuditHealth{Every: config.Audit.Every},
		every: config.Audit.Every, store: config.Store, settings: settings, now: now, log: log,
		machine: func() time.Time { return now().Add(-config.Clock.Offset) },
		open: func(ctx context.Context) (audit.Snapshot, func(), error) {
			return OpenSnapshot(ctx, config.Store)
		},
		metrics: metrics.Audits(invariants),
	}
}

// run audits until ctx ends. It pauses between two audits, however long one
// takes: an audit that is always under way would never let SQLite's log begin
// anew.
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

// audit looks once. What was cut short by the end of the node counts as nothing.
func (w *auditWatch) audit(ctx context.Context) {
	watch := telemetry.StartStopwatch()
	report, err := w.look(ctx)
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
	w.tell(report)
}

func (w *auditWatch) look(ctx context.Context) (audit.Report, error) {
	// Before the snapshot: an operation must not look stuck only because the
	// audit took long to begin.
	now := w.now()
	snapshot, done, err := w.open(ctx)
	if err != nil {
		return audit.Report{}, err
	}
	defer done()
	settings := w.settings
	pace, letGo, err := AuditPaceOn(ctx, w.store)
	if err != nil {
		return audit.Report{}, err
	}
	defer letGo()
	settings.Rest = pace.Rest
	return settings.Run(ctx, snapshot, now, nil)
}

// tell writes what is newly wrong into the log, and when all is well again.
func (w *auditWatch) tell(report audit.Report) {
	found := map[problem]bool{}
	told, untold := 0, report.LeftOut
	for _, v := range report.Violations {
		p := problem{v.Invariant, v.Subject}
		if w.known[p] || found[p] {
			found[p] = true
			continue
		}
		found[p] = true
		if told++; told > auditLinesMost {
			untold++
			continue
		}
		w.log.Error("the books do not agree", "invariant", v.Invariant, "subject", v.Subject, "detail", v.Detail)
	}
	if told > 0 && untold > 0 {
		w.log.Error("the books do not agree in more places; `coax audit` names them all", "more", untold)
	}
	if len(w.known) > 0 && len(found) == 0 {
		w.log.Info("the books agree again")
	}
	w.known = found
}
