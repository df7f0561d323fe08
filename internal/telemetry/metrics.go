package telemetry

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics counts what the service does. Each package reports through a small
// interface of its own, which Metrics implements. Labels only take values from fixed
// lists: a caller must not be able to create a time series.
type Metrics struct {
	registry *prometheus.Registry

	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	connections    prometheus.Gauge
	refused        *prometheus.CounterVec
	dropped        *prometheus.CounterVec
	malformed      prometheus.Counter

	batches      prometheus.Counter
	writes       prometheus.Counter
	batchSeconds prometheus.Histogram
	purged       prometheus.Counter
	notLogged    prometheus.Counter

	securityEvents     *prometheus.CounterVec
	securityNotWritten prometheus.Counter

	providerCalls *prometheus.CounterVec
	bulkRows      *prometheus.CounterVec

	// responses caches the series of each endpoint and code: looking labels up costs
	// more than counting. The map is replaced when one is added.
	responses   atomic.Pointer[map[responseKind]responseSeries]
	responsesMu sync.Mutex
}

type responseKind struct{ endpoint, code string }

type responseSeries struct {
	count   prometheus.Counter
	seconds prometheus.Observer
}

// Signed reads take well under a millisecond and a provider may take many
// seconds, so the buckets reach from one end to the other.
var (
	requestBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	batchBuckets   = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}
)

// NewMetrics returns metrics in a registry of their own, with those of the Go
// runtime and of the process beside them.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_http_requests_total",
			Help: "Responses of the API and the pages, by endpoint and code; a page's code is its status.",
		}, []string{"endpoint", "code"}),
		requestSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coax_http_request_seconds",
			Help:    "Time from a request's headers to its response.",
			Buckets: requestBuckets,
		}, []string{"endpoint"}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coax_http_connections",
			Help: "Open connections.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_http_connections_refused_total",
			Help: "Connections closed before their first request, by reason.",
		}, []string{"reason"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_http_connections_dropped_total",
			Help: "Connections closed to make room for another, by the limit that was reached (total, network, address) and by what they were doing: waiting for a request, or idle after unauthenticated ones.",
		}, []string{"reason", "state"}),
		malformed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coax_http_malformed_requests_total",
			Help: "Messages refused because they could not be parsed as an HTTP request.",
		}),
		batches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coax_store_batches_total",
			Help: "Transactions committed by the store's batchers.",
		}),
		writes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coax_store_writes_total",
			Help: "Writes in those transactions.",
		}),
		batchSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "coax_store_batch_seconds",
			Help:    "Time from the start of a transaction to its durable commit.",
			Buckets: batchBuckets,
		}),
		providerCalls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_provider_calls_total",
			Help: "Calls to the provider, by kind of call and cause of the outcome; certificate and contract_violation deserve an alarm.",
		}, []string{"what", "cause"}),
		bulkRows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_bulk_rows_total",
			Help: "Rows of bulk renewals that this node has run, by outcome; a row that leaves review counts again.",
		}, []string{"outcome"}),
		purged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coax_purged_rows_total",
			Help: "Expired rows that were deleted: used nonces, rate counters, sessions of the pages, calls in the request log.",
		}),
		notLogged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coax_request_log_dropped_total",
			Help: "Calls that were answered but are missing in the operators' request log, because it could not be written.",
		}),
	}
	m.securityEvents = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "coax_security_events_total",
		Help: "Security events, by event and outcome.",
	}, []string{"event", "outcome"})
	m.securityNotWritten = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "coax_security_log_errors_total",
		Help: "Security events that could not be written to log.security_file, and went to the ordinary log instead.",
	})
	m.registry.MustRegister(m.securityEvents, m.securityNotWritten)
	m.responses.Store(&map[responseKind]responseSeries{})
	for _, outcome := range []string{"done", "refused", "in_review", "cancelled"} {
		m.bulkRows.WithLabelValues(outcome) // at zero, so that the first one is an increase
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.requests, m.requestSeconds, m.connections, m.refused, m.dropped, m.malformed,
		m.batches, m.writes, m.batchSeconds, m.purged, m.notLogged, m.providerCalls, m.bulkRows,
	)
	return m
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// RequestAnswered counts a response and its duration.
func (m *Metrics) RequestAnswered(endpoint, code string, took time.Duration) {
	series, found := (*m.responses.Load())[responseKind{endpoint, code}]
	if !found {
		series = m.findSeries(responseKind{endpoint, code})
	}
	series.count.Inc()
	series.seconds.Observe(took.Seconds())
}

func (m *Metrics) findSeries(kind responseKind) responseSeries {
	series := responseSeries{
		count:   m.requests.WithLabelValues(kind.endpoint, kind.code),
		seconds: m.requestSeconds.WithLabelValues(kind.endpoint),
	}
	m.responsesMu.Lock()
	defer m.responsesMu.Unlock()
	known := maps.Clone(*m.responses.Load())
	known[kind] = series
	m.responses.Store(&known)
	return series
}

// MalformedRequest counts a message that could not be parsed as a request. It got a
// response, so it counts among the responses too, without a duration.
func (m *Metrics) MalformedRequest(endpoint, code string) {
	m.malformed.Inc()
	m.requests.WithLabelValues(endpoint, code).Inc()
}

// ConnectionOpened counts a connection until ConnectionClosed.
func (m *Metrics) ConnectionOpened() { m.connections.Inc() }

// ConnectionClosed counts an opened connection as closed.
func (m *Metrics) ConnectionClosed() { m.connections.Dec() }

// ConnectionRefused counts a connection that was closed before its first request.
func (m *Metrics) ConnectionRefused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// ConnectionDropped counts a connection that was closed to make room for another.
func (m *Metrics) ConnectionDropped(reason, state string) {
	m.dropped.WithLabelValues(reason, state).Inc()
}

// BatchCommitted counts a transaction of the store and the writes in it.
func (m *Metrics) BatchCommitted(writes int, took time.Duration) {
	m.batches.Inc()
	m.writes.Add(float64(writes))
	m.batchSeconds.Observe(took.Seconds())
}

// StoreQueue reports the number of queued writes; length is called whenever metrics
// are collected. A second store would need a second Metrics.
func (m *Metrics) StoreQueue(length func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "coax_store_queue",
		Help: "Writes that wait for a transaction.",
	}, func() float64 { return float64(length()) }))
}

// CertificateExpires reports when the TLS certificate expires; expires is called
// whenever metrics are collected.
func (m *Metrics) CertificateExpires(expires func() time.Time) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "coax_tls_certificate_expiry_timestamp_seconds",
		Help: "When the TLS certificate in use expires.",
	}, func() float64 { return float64(expires().Unix()) }))
}

// ReviewsOverdue reports how many operations have been in review for too long; count
// is called whenever metrics are collected. If it fails, the metric is NaN, which must
// not look like zero.
func (m *Metrics) ReviewsOverdue(count func() (int, error)) {
	m.counted(prometheus.GaugeOpts{
		Name: "coax_reviews_overdue",
		Help: "Operations that have been in review for a day or longer; NaN if they could not be counted.",
	}, count)
}

// BulkJobsOpen reports how many bulk renewals are not over, in the same way.
func (m *Metrics) BulkJobsOpen(count func() (int, error)) {
	m.counted(prometheus.GaugeOpts{
		Name: "coax_bulk_jobs_open",
		Help: "Bulk renewals that run, or wait for rows in review; NaN if they could not be counted.",
	}, count)
}

// BulkJobsInterrupted reports how many bulk renewals wait for a person, in the same way.
func (m *Metrics) BulkJobsInterrupted(count func() (int, error)) {
	m.counted(prometheus.GaugeOpts{
		Name: "coax_bulk_jobs_interrupted",
		Help: "Bulk renewals that were interrupted and wait for a person to continue or stop them; NaN if they could not be counted.",
	}, count)
}

// Maintenance reports whether maintenance mode is on, in the same way.
func (m *Metrics) Maintenance(on func() (int, error)) {
	m.counted(prometheus.GaugeOpts{
		Name: "coax_maintenance",
		Help: "1 while maintenance mode is on and no node accepts new operations, else 0; NaN if the store could not be read.",
	}, on)
}

func (m *Metrics) counted(opts prometheus.GaugeOpts, count func() (int, error)) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(opts, func() float64 {
		n, err := count()
		if err != nil {
			return math.NaN()
		}
		return float64(n)
	}))
}

// BulkRowSettled counts a row of a bulk renewal by its outcome.
func (m *Metrics) BulkRowSettled(outcome string) { m.bulkRows.WithLabelValues(outcome).Inc() }

// ProviderCalled counts a call to the provider and the cause of its outcome.
func (m *Metrics) ProviderCalled(what, cause string) {
	m.providerCalls.WithLabelValues(what, cause).Inc()
}

// RowsPurged counts expired rows that were deleted.
func (m *Metrics) RowsPurged(rows int) { m.purged.Add(float64(rows)) }

// RequestsNotLogged counts calls that the request log had to drop.
func (m *Metrics) RequestsNotLogged(calls int) { m.notLogged.Add(float64(calls)) }

// SecurityEvent counts a security event.
func (m *Metrics) SecurityEvent(event, outcome string) {
	if !slices.Contains(SecurityEvents, event) {
		event = "other"
	}
	m.securityEvents.WithLabelValues(event, outcome).Inc()
}

// SecurityNotWritten counts a security event that could not be written to its file.
func (m *Metrics) SecurityNotWritten() { m.securityNotWritten.Inc() }
