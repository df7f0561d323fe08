package telemetry

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// AuditMetrics are the results of a node's audits. Violations are NaN before the first audit
// has ended: a missing result must not look like a clean one.
type AuditMetrics struct {
	invariants []string

	runs        *prometheus.CounterVec
	violations  *prometheus.GaugeVec
	lastSuccess prometheus.Gauge
	seconds     prometheus.Histogram
}

// An audit of a new store takes milliseconds, one of ten million operations many
// minutes.
var auditBuckets = []float64{.01, .1, .5, 1, 5, 15, 60, 300, 900, 3600}

// Audits registers the metrics of audits of these invariants. It can be called once.
func (m *Metrics) Audits(invariants []string) *AuditMetrics {
	a := &AuditMetrics{
		invariants: invariants,
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_audit_runs_total",
			Help: "Audits that ended, by result: clean, violated, or failed if the books could not be read.",
		}, []string{"result"}),
		violations: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coax_audit_violations",
			Help: "Violations that the last whole audit found, by invariant; NaN before the first one.",
		}, []string{"invariant"}),
		lastSuccess: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coax_audit_last_success_timestamp_seconds",
			Help: "When the last audit ended that read all of the books, with or without violations; 0 if none has.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "coax_audit_duration_seconds",
			Help:    "Time an audit took.",
			Buckets: auditBuckets,
		}),
	}
	m.registry.MustRegister(a.runs, a.violations, a.lastSuccess, a.seconds)
	for _, result := range []string{"clean", "violated", "failed"} {
		a.runs.WithLabelValues(result) // at zero, so that the first one is an increase
	}
	for _, invariant := range invariants {
		a.violations.WithLabelValues(invariant).Set(math.NaN())
	}
	return a
}

// Audited reports the violations of a whole audit, by invariant, and when it ended.
// Only invariants that were given to Audits are reported.
func (a *AuditMetrics) Audited(found map[string]int, at time.Time, took time.Duration) {
	result := "clean"
	for _, invariant := range a.invariants {
		a.violations.WithLabelValues(invariant).Set(float64(found[invariant]))
		if found[invariant] > 0 {
			result = "violated"
		}
	}
	a.runs.WithLabelValues(result).Inc()
	a.lastSuccess.Set(float64(at.UnixMilli()) / 1000)
	a.seconds.Observe(took.Seconds())
}

// Failed counts an audit that could not be finished. The violations of the last whole
// audit stay.
func (a *AuditMetrics) Failed(took time.Duration) {
	a.runs.WithLabelValues("failed").Inc()
	a.seconds.Observe(took.Seconds())
}
