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

	batches      *prometheus.CounterVec
	writes       *prometheus.CounterVec
	batchWrites  *prometheus.HistogramVec
	batchSeconds *prometheus.HistogramVec
	purged       *prometheus.CounterVec
	notLogged    prometheus.Counter

	securityEvents     *prometheus.CounterVec
	securityNotWritten prometheus.Counter

	providerCalls   *prometheus.CounterVec
	providerSeconds *prometheus.HistogramVec
	providerOrders  *prometheus.CounterVec
	bulkRows        *prometheus.CounterVec

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
	// A batch has 256 writes at most.
	writesBuckets = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}
	// provider.timeout is 20 s unless it is set, and 60 s at most.
	providerBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 60}
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
			Help:    "Time from a request's headers to its response, by endpoint and code.",
			Buckets: requestBuckets,
		}, []string{"endpoint", "code"}),
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
		batches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_store_batches_total",
			Help: "Transactions of the store's batchers, by batcher: SQLite has one, write; PostgreSQL has admission, reservation and settlement.",
		}, []string{"batcher"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_store_writes_total",
			Help: "Writes in those transactions.",
		}, []string{"batcher"}),
		batchWrites: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coax_store_batch_writes",
			Help:    "How many writes shared a transaction.",
			Buckets: writesBuckets,
		}, []string{"batcher"}),
		batchSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coax_store_batch_seconds",
			Help:    "Time from the start of a transaction to its durable commit.",
			Buckets: batchBuckets,
		}, []string{"batcher"}),
		providerCalls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_provider_calls_total",
			Help: "Calls to the provider, by kind of call and cause of the outcome; certificate and contract_violation deserve an alarm.",
		}, []string{"what", "cause"}),
		providerSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coax_provider_call_seconds",
			Help:    "Time of a call to the provider, answered or not, by kind of call.",
			Buckets: providerBuckets,
		}, []string{"what"}),
		providerOrders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_provider_orders_total",
			Help: "Orders sent to the provider, by kind of order and outcome: confirmed, rejected or unknown.",
		}, []string{"what", "outcome"}),
		bulkRows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_bulk_rows_total",
			Help: "Rows of bulk renewals that this node has run, by outcome; a row that leaves review counts again.",
		}, []string{"outcome"}),
		purged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coax_purged_rows_total",
			Help: "Rows that were deleted because they were old, by table; nonces includes rate counters, login_sessions the counters of tries, bulk_jobs their rows.",
		}, []string{"table"}),
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
	m.startAtZero()
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.requests, m.requestSeconds, m.connections, m.refused, m.dropped, m.malformed,
		m.batches, m.writes, m.batchWrites, m.batchSeconds, m.purged, m.notLogged,
		m.providerCalls, m.providerSeconds, m.providerOrders, m.bulkRows,
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
		seconds: m.requestSeconds.WithLabelValues(kind.endpoint, kind.code),
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

// Batches are the metrics of one of the store's batchers.
type Batches struct {
	batches, writes      prometheus.Counter
	batchWrites, seconds prometheus.Observer
}

// Batches returns the metrics of a batcher, which are there from now on.
func (m *Metrics) Batches(batcher string) *Batches {
	return &Batches{
		batches: m.batches.WithLabelValues(batcher), writes: m.writes.WithLabelValues(batcher),
		batchWrites: m.batchWrites.WithLabelValues(batcher), seconds: m.batchSeconds.WithLabelValues(batcher),
	}
}

// Committed counts a transaction of the store and the writes in it.
func (b *Batches) Committed(writes int, took time.Duration) {
	b.batches.Inc()
	b.writes.Add(float64(writes))
	b.batchWrites.Observe(float64(writes))
	b.seconds.Observe(took.Seconds())
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

// CertificateProblem reports whether a newer TLS certificate could not be taken; problem is
// called whenever metrics are collected.
func (m *Metrics) CertificateProblem(problem func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "coax_tls_certificate_problem",
		Help: "1 while the newest TLS certificate is not in use: its files cannot be read, or the last order failed.",
	}, func() float64 {
		if problem() {
			return 1
		}
		return 0
	}))
}

// Gauge registers a value that is read whenever metrics are collected. If it cannot be
// read, the metric is NaN, which must not look like zero.
func (m *Metrics) Gauge(name, help string, read func() (float64, error)) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		value, err := read()
		if err != nil {
			return math.NaN()
		}
		return value
	}))
}

// Replica reports how far the store's replica is behind.
func (m *Metrics) Replica(read func() (lag time.Duration, last time.Time, failures uint64)) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "coax_replica_lag_seconds",
			Help: "Age of the oldest commit that the replica does not have; 0 if it has all.",
		}, func() float64 { lag, _, _ := read(); return lag.Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "coax_replica_last_success_timestamp_seconds",
			Help: "When the replica was complete last, in Unix seconds; 0 if never.",
		}, func() float64 {
			_, last, _ := read()
			if last.IsZero() {
				return 0
			}
			return float64(last.UnixMilli()) / 1000
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "coax_replica_errors_total",
			Help: "Attempts to copy commits to the replica that failed.",
		}, func() float64 { _, _, failures := read(); return float64(failures) }))
}

// StoreMarkAge reports how long the mark file has been behind what was written.
func (m *Metrics) StoreMarkAge(age func() time.Duration) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "coax_store_mark_age_seconds",
		Help: "How long this node's mark file has been behind what was written to the store; 0 if it is not.",
	}, func() float64 { return age().Seconds() }))
}

// BulkRowSettled counts a row of a bulk renewal by its outcome.
func (m *Metrics) BulkRowSettled(outcome string) { m.bulkRows.WithLabelValues(outcome).Inc() }

// ProviderCalled counts a call to the provider, the cause of its outcome and its duration.
func (m *Metrics) ProviderCalled(what, cause string, took time.Duration) {
	m.providerCalls.WithLabelValues(what, cause).Inc()
	m.providerSeconds.WithLabelValues(what).Observe(took.Seconds())
}

// ProviderOrdered counts an order to the provider by its outcome.
func (m *Metrics) ProviderOrdered(what, outcome string) {
	m.providerOrders.WithLabelValues(what, outcome).Inc()
}

// RowsPurged counts old rows that were deleted from a table.
func (m *Metrics) RowsPurged(table string, rows int) {
	m.purged.WithLabelValues(table).Add(float64(rows))
}

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
