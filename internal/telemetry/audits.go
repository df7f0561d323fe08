package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// AuditMetrics tells what the audits of a node find. There are none before the
// first audit has ended: no answer must not look like a good one.
type AuditMetrics struct {
	invariants []string

	runs        *prometheus.CounterVec
	violations  *prometheus.GaugeVec
	lastSuccess *prometheus.GaugeVec
	seconds     prometheus.Histogram
}

// An audit of a new shop takes milliseconds, one of ten million operations many
// minutes.
var auditBuckets = []float64{.01, .1, .5, 1, 5, 15, 60, 300, 900, 3600}

// Audits makes the audits of these invariants visible. A second time would need
// a second Metrics.
func (m *Metrics) Audits(invariants []string) *AuditMetrics {
	a := &AuditMetrics{
		invariants: invariants,
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_audit_runs_total",
			Help: "Audits that ended, by result: clean, violated, or failed if the books could not be read.",
		}, []string{"result"}),
		violations: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coax_audit_violations",
			Help: "Violations that the last whole audit found, by what was broken.",
		}, []string{"invariant"}),
		lastSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coax_audit_last_success_timestamp_seconds",
			Help: "When the last audit ended that read the whole of the books, whatever it found.",
		}, nil),
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
	return a
}

// Audited tells what a whole audit found, by invariant, and when it ended. Only
// the invariants that were named beforehand are told of.
func (a *AuditMetrics) Audited(found map[string]int, at time.Time, took time.Duration) {
	result := "clean"
	for _, invariant := range a.invariants {
		a.violations.WithLabelValues(invariant).Set(float64(found[invariant]))
		if found[invariant] > 0 {
			result = "violated"
		}
	}
	a.runs.WithLabelValues(result).Inc()
	a.lastSuccess.WithLabelValues().Set(float64(at.UnixMilli()) / 1000)
	a.seconds.Observe(took.Seconds())
}

// Failed counts an audit that could not be carried through. What the last whole
// one found stays.
func (a *AuditMetrics) Failed(took time.Duration) {
	a.runs.WithLabelValues("failed").Inc()
	a.seconds.Observe(took.Seconds())
}
