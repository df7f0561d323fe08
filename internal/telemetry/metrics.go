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

// Metrics counts what the service does. Each room reports through a small
// interface of its own that Metrics happens to satisfy. Labels only ever take
// values from fixed lists: a caller must not be able to make a new time series.
type Metrics struct {
	registry *prometheus.Registry

	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	connections    prometheus.Gauge
	refused        *prometheus.CounterVec
	dropped        *prometheus.CounterVec
	faults         prometheus.Counter

	batches      prometheus.Counter
	facts        prometheus.Counter
	batchSeconds prometheus.Histogram
	purged       prometheus.Counter
	notLogged    prometheus.Counter

	securityEvents     *prometheus.CounterVec
	securityNotWritten prometheus.Counter

	providerCalls *prometheus.CounterVec
	bulkRows      *prometheus.CounterVec

	// answers are the series of each kind of answer, found once: to look labels
	// up costs more than to count. Whoever adds a kind puts a new map in place of
	// the old one; labels take values from fixed lists, so that soon ends.
	answers   atomic.Pointer[map[answerKind]answerSeries]
	answersMu sync.Mutex
}

type answerKind struct{ endpoint, code string }

type answerSeries struct {
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
			Help: "Answers given by the API and the pages, by endpoint and code; a page's code is its status.",
		}, []string{"endpoint", "code"}),
		requestSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coax_http_request_seconds",
			Help:    "Time from a request's headers to its answer.",
			Buckets: requestBuckets,
		}, []string{"endpoint"}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coax_http_connections",
			Help: "Connections that are open.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_http_connections_refused_total",
			Help: "Connections closed before their first request, by reason.",
		}, []string{"reason"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_http_connections_dropped_total",
			Help: "Connections closed to make room for another, by the limit that was reached (total, network, address) and by what they were doing: waiting for a request, or idle after unauthenticated ones.",
		}, []string{"reason", "state"}),
		faults: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coax_framework_faults_total",
			Help: "Messages refused before they could be read as a request.",
		}),
		batches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coax_store_batches_total",
			Help: "Commits of the store's writer.",
		}),
		facts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coax_store_facts_total",
			Help: "Business facts that were part of a commit.",
		}),
		batchSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "coax_store_batch_seconds",
			Help:    "Time a commit took, the wait for the disk included.",
			Buckets: batchBuckets,
		}),
		providerCalls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_provider_calls_total",
			Help: "Questions put to the provider, by what was asked and how it ended; certificate and contract_violation deserve an alarm.",
		}, []string{"what", "cause"}),
		bulkRows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_bulk_rows_total",
			Help: "Rows of bulk renewals that this node has run, by what came of them; one that leaves a review counts once more.",
		}, []string{"outcome"}),
		purged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coax_purged_rows_total",
			Help: "Rows that were removed because their time was over: used nonces, rate counters, sessions of the pages, calls in the request log.",
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
	m.answers.Store(&map[answerKind]answerSeries{})
	for _, outcome := range []string{"done", "refused", "in_review", "cancelled"} {
		m.bulkRows.WithLabelValues(outcome) // at zero, so that the first one is an increase
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.requests, m.requestSeconds, m.connections, m.refused, m.dropped, m.faults,
		m.batches, m.facts, m.batchSeconds, m.purged, m.notLogged, m.providerCalls, m.bulkRows,
	)
	return m
}

// Handler serves the metrics to whoever collects them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// RequestAnswered counts an answer and how long it took.
func (m *Metrics) RequestAnswered(endpoint, code string, took time.Duration) {
	series, found := (*m.answers.Load())[answerKind{endpoint, code}]
	if !found {
		series = m.findSeries(answerKind{endpoint, code})
	}
	series.count.Inc()
	series.seconds.Observe(took.Seconds())
}

func (m *Metrics) findSeries(kind answerKind) answerSeries {
	series := answerSeries{
		count:   m.requests.WithLabelValues(kind.endpoint, kind.code),
		seconds: m.requestSeconds.WithLabelValues(kind.endpoint),
	}
	m.answersMu.Lock()
	defer m.answersMu.Unlock()
	known := maps.Clone(*m.answers.Load())
	known[kind] = series
	m.answers.Store(&known)
	return series
}

// FrameworkFault counts a message that could not be read as a request. It was
// answered, so it counts among the answers too; how long it took nobody measured.
func (m *Metrics) FrameworkFault(endpoint, code string) {
	m.faults.Inc()
	m.requests.WithLabelValues(endpoint, code).Inc()
}

// ConnectionOpened counts a connection until ConnectionClosed.
func (m *Metrics) ConnectionOpened() { m.connections.Inc() }

// ConnectionClosed ends what ConnectionOpened began.
func (m *Metrics) ConnectionClosed() { m.connections.Dec() }

// ConnectionRefused counts a connection that never got to its first request.
func (m *Metrics) ConnectionRefused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// ConnectionDropped counts a connection that was closed to make room for another.
func (m *Metrics) ConnectionDropped(reason, state string) {
	m.dropped.WithLabelValues(reason, state).Inc()
}

// BatchCommitted counts a commit of the store's writer and the facts in it.
func (m *Metrics) BatchCommitted(facts int, took time.Duration) {
	m.batches.Inc()
	m.facts.Add(float64(facts))
	m.batchSeconds.Observe(took.Seconds())
}

// StoreQueue makes the length of the writer's queue visible; length is called
// whenever metrics are collected. A second store would need a second Metrics.
func (m *Metrics) StoreQueue(length func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "coax_store_queue",
		Help: "Facts that wait for a commit.",
	}, func() float64 { return float64(length()) }))
}

// CertificateExpires makes the end of the TLS certificate visible; expires is called
// whenever metrics are collected.
func (m *Metrics) CertificateExpires(expires func() time.Time) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "coax_tls_certificate_expiry_timestamp_seconds",
		Help: "When the TLS certificate in use expires.",
	}, func() float64 { return float64(expires().Unix()) }))
}

// ReviewsOverdue makes visible how many operations have been in review for too
// long; count is called whenever metrics are collected. What it cannot count is not
// a number, and must not look like none.
func (m *Metrics) ReviewsOverdue(count func() (int, error)) {
	m.counted(prometheus.GaugeOpts{
		Name: "coax_reviews_overdue",
		Help: "Operations that have been in review for a day or longer; NaN where they could not be counted.",
	}, count)
}

// BulkJobsOpen makes visible how many bulk renewals are not over, in the same way.
func (m *Metrics) BulkJobsOpen(count func() (int, error)) {
	m.counted(prometheus.GaugeOpts{
		Name: "coax_bulk_jobs_open",
		Help: "Bulk renewals that run, or wait for rows in review; NaN where they could not be counted.",
	}, count)
}

// BulkJobsInterrupted makes visible how many bulk renewals wait for a person, in the
// same way.
func (m *Metrics) BulkJobsInterrupted(count func() (int, error)) {
	m.counted(prometheus.GaugeOpts{
		Name: "coax_bulk_jobs_interrupted",
		Help: "Bulk renewals that were interrupted and wait for a person to continue or stop them; NaN where they could not be counted.",
	}, count)
}

// Maintenance makes visible whether maintenance mode is on, in the same way.
func (m *Metrics) Maintenance(on func() (int, error)) {
	m.counted(prometheus.GaugeOpts{
		Name: "coax_maintenance",
		Help: "1 while maintenance mode is on and no node accepts new operations, else 0; NaN where the store did not say.",
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

// BulkRowSettled counts a row of a bulk renewal by what came of it.
func (m *Metrics) BulkRowSettled(outcome string) { m.bulkRows.WithLabelValues(outcome).Inc() }

// ProviderAsked counts a question to the provider and how it ended.
func (m *Metrics) ProviderAsked(what, cause string) {
	m.providerCalls.WithLabelValues(what, cause).Inc()
}

// RowsPurged counts rows that were removed because their time was over.
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
