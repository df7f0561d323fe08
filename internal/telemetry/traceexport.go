package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	// maxSpans limits the spans that wait for the collector: 4 to 8 MB.
	maxSpans = 4096
	// exportEvery and exportBatch end a batch.
	exportEvery = time.Second
	exportBatch = 512
	// exportTimeout limits one export.
	exportTimeout = 10 * time.Second
	// traceProblemEvery limits how often dropped spans are logged.
	traceProblemEvery = time.Minute
	// maxExportReply limits the collector's reply.
	maxExportReply = 64 << 10
)

var errTooManySpans = errors.New("more spans ended than the collector took")

// spanExporter queues spans, posts them in batches, and counts what became of them.
type spanExporter struct {
	inner   *otlptrace.Exporter
	batches sdktrace.SpanProcessor
	abort   context.CancelFunc

	// waiting counts the spans that are queued or being exported.
	waiting  atomic.Int64
	exported prometheus.Counter
	dropped  *prometheus.CounterVec

	problem    func(dropped int64, cause error)
	mu         sync.Mutex
	unreported int64
	reportedAt time.Time
}

func newSpanExporter(config TraceConfig) *spanExporter {
	ctx, abort := context.WithCancel(context.Background())
	e := &spanExporter{inner: otlptrace.NewUnstarted(newCollector(ctx, config)), abort: abort, problem: config.Problem}
	e.exported, e.dropped = config.Metrics.traces()
	e.batches = sdktrace.NewBatchSpanProcessor(e,
		sdktrace.WithMaxQueueSize(maxSpans), sdktrace.WithMaxExportBatchSize(exportBatch),
		sdktrace.WithBatchTimeout(exportEvery), sdktrace.WithExportTimeout(exportTimeout))
	return e
}

// traces registers the metrics of exported and dropped spans.
func (m *Metrics) traces() (exported prometheus.Counter, dropped *prometheus.CounterVec) {
	exported = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "coax_trace_spans_exported_total",
		Help: "Spans that the collector has taken.",
	})
	dropped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "coax_trace_spans_dropped_total",
		Help: "Spans that were dropped, by reason: the queue was full, or the collector did not take them.",
	}, []string{"reason"})
	for _, reason := range []string{"queue", "collector"} {
		dropped.WithLabelValues(reason) // at zero, so that the first one is an increase
	}
	m.registry.MustRegister(exported, dropped)
	return exported, dropped
}

// processor returns what the SDK gives ended spans to.
func (e *spanExporter) processor() sdktrace.SpanProcessor { return countedQueue{e.batches, e} }

// countedQueue drops spans before the SDK's queue is full, because the SDK does not count those
// that it drops.
type countedQueue struct {
	sdktrace.SpanProcessor
	exporter *spanExporter
}

func (q countedQueue) OnEnd(span sdktrace.ReadOnlySpan) {
	if q.exporter.waiting.Add(1) > maxSpans {
		q.exporter.waiting.Add(-1)
		q.exporter.drop("queue", 1, errTooManySpans)
		return
	}
	q.SpanProcessor.OnEnd(span)
}

// ExportSpans posts a batch. It returns no error: the SDK would write it to standard error.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.inner.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	lost := int64(0)
	if err != nil {
		lost = int64(len(spans))
	}
	var partly *rejectedSpans
	if errors.As(err, &partly) {
		lost = min(lost, max(0, partly.spans))
	}
	e.exported.Add(float64(int64(len(spans)) - lost))
	if lost > 0 {
		e.drop("collector", lost, err)
	}
	return nil
}

// Shutdown is part of sdktrace.SpanExporter.
func (e *spanExporter) Shutdown(ctx context.Context) error { return e.inner.Shutdown(ctx) }

// drop counts spans, and reports them if none were reported within the last minute.
func (e *spanExporter) drop(reason string, spans int64, cause error) {
	e.dropped.WithLabelValues(reason).Add(float64(spans))
	e.mu.Lock()
	e.unreported += spans
	now := time.Now()
	due := e.reportedAt.IsZero() || now.Sub(e.reportedAt) >= traceProblemEvery
	count := e.unreported
	if due {
		e.unreported, e.reportedAt = 0, now
	}
	e.mu.Unlock()
	if due && e.problem != nil {
		e.problem(count, cause)
	}
}

// collector posts spans to an OTLP/HTTP collector. OpenTelemetry's own client would link gRPC,
// which is 8 MB, and take its address and headers from the environment.
type collector struct {
	ctx      context.Context // ends when the Tracer is closed: the SDK's does not
	endpoint string
	header   http.Header
	client   *http.Client
}

var _ otlptrace.Client = (*collector)(nil)

func newCollector(ctx context.Context, config TraceConfig) *collector {
	header := config.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/x-protobuf")
	header.Set("User-Agent", "coax")
	return &collector{ctx: ctx, endpoint: config.Endpoint, header: header, client: &http.Client{
		Transport: &http.Transport{IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: exportTimeout, MaxResponseHeaderBytes: maxExportReply},
		// A redirect would take the headers elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Start is part of otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop is part of otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces posts spans, once. TracesData has the encoding of ExportTraceServiceRequest, whose
// package imports gRPC.
func (c *collector) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	ctx, cancel := context.WithTimeout(c.ctx, exportTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = c.header
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, maxExportReply))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("the collector answered HTTP %d", response.StatusCode)
	}
	if err != nil {
		return fmt.Errorf("read the collector's reply: %w", err)
	}
	if rejected := rejectedIn(reply); rejected > 0 {
		return &rejectedSpans{rejected}
	}
	return nil
}

// rejectedSpans is a reply that took a part of the spans only.
type rejectedSpans struct{ spans int64 }

func (e *rejectedSpans) Error() string {
	return fmt.Sprintf("the collector rejected %d spans", e.spans)
}

// rejectedIn reads partial_success.rejected_spans from an ExportTraceServiceResponse; 0 from
// anything else.
func rejectedIn(reply []byte) int64 {
	const partialSuccess, rejectedSpans = 1, 1
	partial, ok := field(reply, partialSuccess, protowire.BytesType)
	if !ok {
		return 0
	}
	message, n := protowire.ConsumeBytes(partial)
	if n < 0 {
		return 0
	}
	if value, ok := field(message, rejectedSpans, protowire.VarintType); ok {
		if rejected, n := protowire.ConsumeVarint(value); n > 0 {
			return int64(rejected)
		}
	}
	return 0
}

// field returns what begins with the value of a message's field.
func field(message []byte, number protowire.Number, kind protowire.Type) (rest []byte, found bool) {
	for len(message) > 0 {
		got, gotKind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		if got == number && gotKind == kind {
			return message[n:], true
		}
		value := protowire.ConsumeFieldValue(got, gotKind, message[n:])
		if value < 0 {
			return nil, false
		}
		message = message[n+value:]
	}
	return nil, false
}
