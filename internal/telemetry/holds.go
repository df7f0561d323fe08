package telemetry

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// HoldMetrics are the operations that hold money, by status.
type HoldMetrics struct {
	statuses              []string
	count, rupees, oldest *prometheus.GaugeVec
}

// Holds registers the metrics of holds in these statuses, which are NaN until they are measured.
func (m *Metrics) Holds(statuses []string) *HoldMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"status"})
	}
	h := &HoldMetrics{
		statuses: statuses,
		count:    gauge("coax_holds", "Operations that hold money of a wallet, by status; NaN if they could not be counted."),
		rupees:   gauge("coax_holds_rupees", "Money that they hold, in rupees."),
		oldest:   gauge("coax_holds_oldest_age_seconds", "How long the oldest of them has been in its status; 0 if there is none."),
	}
	m.registry.MustRegister(h.count, h.rupees, h.oldest)
	h.Unknown()
	return h
}

// Measured sets the metrics of one status.
func (h *HoldMetrics) Measured(status string, count int, rupees float64, oldest time.Duration) {
	h.count.WithLabelValues(status).Set(float64(count))
	h.rupees.WithLabelValues(status).Set(rupees)
	h.oldest.WithLabelValues(status).Set(oldest.Seconds())
}

// Unknown makes all of them NaN.
func (h *HoldMetrics) Unknown() {
	for _, status := range h.statuses {
		for _, gauge := range []*prometheus.GaugeVec{h.count, h.rupees, h.oldest} {
			gauge.WithLabelValues(status).Set(math.NaN())
		}
	}
}
