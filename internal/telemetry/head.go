package telemetry

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// HeadMetrics are the ends of the chains of staff actions and of ledger digests, so that
// a metrics server keeps them outside the store.
type HeadMetrics struct {
	actions, digests prometheus.Gauge
	info             *prometheus.GaugeVec
}

// Heads registers the metrics of the ends of the chains.
func (m *Metrics) Heads() *HeadMetrics {
	h := &HeadMetrics{
		actions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coax_staff_actions",
			Help: "Number of the last staff action when this node last exported the audit head; NaN before the first export.",
		}),
		digests: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coax_ledger_digests",
			Help: "Number of the last digest of wallet entries and ledger lines when this node last exported the audit head; NaN before the first export.",
		}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coax_audit_head_info",
			Help: "1, with the MACs of the last staff action and of the last digest of wallet entries and ledger lines; NaN, without them, before the first export.",
		}, []string{"mac", "digest_mac"}),
	}
	m.registry.MustRegister(h.actions, h.digests, h.info)
	// Without a head yet: a number must not look like that of an empty chain.
	h.actions.Set(math.NaN())
	h.digests.Set(math.NaN())
	h.info.WithLabelValues("", "").Set(math.NaN())
	return h
}

// Exported sets the metrics to a head.
func (h *HeadMetrics) Exported(actions int64, mac string, digests int64, digestMAC string) {
	h.actions.Set(float64(actions))
	h.digests.Set(float64(digests))
	h.info.Reset()
	h.info.WithLabelValues(mac, digestMAC).Set(1)
}
