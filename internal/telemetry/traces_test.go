package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// problems collects what a Tracer reports.
type problems struct {
	mu    sync.Mutex
	spans []int64
	texts []string
}

func (p *problems) add(dropped int64, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spans, p.texts = append(p.spans, dropped), append(p.texts, cause.Error())
}

func (p *problems) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.texts, "\n")
}

// counts returns the values of a Tracer's metrics.
func counts(t *testing.T, m *Metrics) (exported, queue, collector float64) {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.Metric {
			switch {
			case family.GetName() == "coax_trace_spans_exported_total":
				exported = metric.Counter.GetValue()
			case family.GetName() == "coax_trace_spans_dropped_total" && metric.Label[0].GetValue() == "queue":
				queue = metric.Counter.GetValue()
			case family.GetName() == "coax_trace_spans_dropped_total":
				collector = metric.Counter.GetValue()
			}
		}
	}
	return exported, queue, collector
}

// endSpans ends a request's span with a number of steps.
func endSpans(tracer *Tracer, steps int) {
	ctx, request := tracer.Request(context.Background(), nil)
	for range steps {
		_, step := tracer.Step(ctx, "step")
		step.End()
	}
	request.EndRequest(aLine)
}

func TestTracer_CountsWhatTheCollectorTook(t *testing.T) {
	partly := protowire.AppendTag(nil, 1, protowire.VarintType) // rejected_spans
	partly = protowire.AppendVarint(partly, 2)
	partly = protowire.AppendTag(partly, 2, protowire.BytesType) // error_message
	partly = protowire.AppendString(partly, "quota")
	success := protowire.AppendTag(nil, 1, protowire.BytesType)
	success = protowire.AppendBytes(success, partly)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed: the headers are for the collector only")
	}))
	defer elsewhere.Close()
	tests := []struct {
		name             string
		answer           http.HandlerFunc
		exported, failed float64
		says             string
	}{
		{"all", func(http.ResponseWriter, *http.Request) {}, 4, 0, ""},
		{"all but two", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(success) }, 2, 2, "rejected 2 spans"},
		{"none", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, 0, 4, "HTTP 503"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, 0, 4, "HTTP 307"},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("half"))
		}, 0, 4, "reply"},
		{"no OTLP", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>\xff\xff") }, 4, 0, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			collector := httptest.NewServer(test.answer)
			defer collector.Close()
			metrics, reported := NewMetrics(), &problems{}
			tracer := NewTracer(TraceConfig{Endpoint: collector.URL, Ratio: 1, Metrics: metrics, Problem: reported.add})
			endSpans(tracer, 3)
			tracer.Close(t.Context())
			exported, queue, failed := counts(t, metrics)
			if exported != test.exported || queue != 0 || failed != test.failed {
				t.Errorf("exported %v, dropped %v and %v; want %v, 0 and %v", exported, queue, failed, test.exported, test.failed)
			}
			if (reported.text() == "") != (test.says == "") || !strings.Contains(reported.text(), test.says) {
				t.Errorf("reported %q; want %q", reported.text(), test.says)
			}
		})
	}
}

// Spans that come faster than the collector takes them are dropped at once and counted: whoever
// ends a span never waits.
func TestTracer_FullQueueDropsAndCounts(t *testing.T) {
	release := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer collector.Close()
	metrics, reported := NewMetrics(), &problems{}
	tracer := NewTracer(TraceConfig{Endpoint: collector.URL, Ratio: 1, Metrics: metrics, Problem: reported.add})
	endSpans(tracer, maxSpans+99) // and one of the request
	if _, queue, _ := counts(t, metrics); queue != 100 {
		t.Errorf("%v spans found the queue full; want 100", queue)
	}
	close(release)
	tracer.Close(t.Context())
	if exported, queue, failed := counts(t, metrics); exported != maxSpans || queue != 100 || failed != 0 {
		t.Errorf("exported %v, dropped %v and %v; want %d, 100 and 0", exported, queue, failed, maxSpans)
	}
	if want := []int64{1}; !slices.Equal(reported.spans, want) {
		t.Errorf("reported %v; want the first within a minute: %v", reported.spans, want)
	}
}

// A Tracer that is closed while the collector hangs gives up when it is told to.
func TestTracer_CloseIsBounded(t *testing.T) {
	release := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer collector.Close()
	defer close(release)
	metrics, reported := NewMetrics(), &problems{}
	tracer := NewTracer(TraceConfig{Endpoint: collector.URL, Ratio: 1, Metrics: metrics, Problem: reported.add})
	endSpans(tracer, 2*exportBatch)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	tracer.Close(ended)
	if took := time.Since(began); took > exportTimeout/2 {
		t.Errorf("Close took %s; want it to end with its context", took)
	}
	if _, _, failed := counts(t, metrics); failed != 2*exportBatch+1 || len(reported.spans) != 1 {
		t.Errorf("dropped %v spans, reported %v; want all counted and one report", failed, reported.spans)
	}
}

func TestTracer_ReportsDropsOncePerMinute(t *testing.T) {
	e := &spanExporter{problem: (&problems{}).add}
	reported := &problems{}
	e.problem = reported.add
	_, e.dropped = NewMetrics().traces()
	cause := errors.New("down")
	e.drop("collector", 5, cause)
	e.drop("collector", 7, cause)
	e.reportedAt = e.reportedAt.Add(-traceProblemEvery)
	e.drop("collector", 1, cause)
	if want := []int64{5, 8}; !slices.Equal(reported.spans, want) {
		t.Errorf("reported %v; want %v", reported.spans, want)
	}
}

// A panic is recorded neither as an event nor as a text: its value may be anything.
func TestSpan_RecordsNoPanic(t *testing.T) {
	var got []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, _ = io.ReadAll(r.Body) }))
	defer collector.Close()
	tracer := NewTracer(TraceConfig{Endpoint: collector.URL, Ratio: 1, Metrics: NewMetrics()})
	func() {
		defer func() { _ = recover() }()
		_, span := tracer.Root(t.Context(), "root")
		defer span.End()
		panic("canary")
	}()
	tracer.Close(t.Context())
	var data tracepb.TracesData
	if err := proto.Unmarshal(got, &data); err != nil || len(data.ResourceSpans) != 1 {
		t.Fatalf("exported %q, %v; want the span", got, err)
	}
	if strings.Contains(string(got), "canary") {
		t.Errorf("the trace has the panic: %v", &data)
	}
}

// Outside of a trace there are no steps: background work that nobody follows makes no traces.
func TestTracer_StepNeedsATrace(t *testing.T) {
	tracer := NewTracer(TraceConfig{Endpoint: "http://127.0.0.1:9", Ratio: 1, Metrics: NewMetrics()})
	defer tracer.Close(t.Context())
	ctx, span := tracer.Step(t.Context(), "step")
	if span != (Span{}) || Traceparent(ctx) != "" {
		t.Errorf("a step outside of a trace is %+v with the traceparent %q", span, Traceparent(ctx))
	}
}

// Without tracing a request allocates nothing for it.
func TestTracer_NilAllocatesNothing(t *testing.T) {
	var tracer *Tracer
	ctx, header := t.Context(), http.Header{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}
	allocated := testing.AllocsPerRun(1000, func() {
		ctx, request := tracer.Request(ctx, header)
		ctx, step := tracer.Step(ctx, "step")
		step.Text("key", "value")
		step.Number("key", 7)
		step.Fail()
		step.End()
		line := aLine
		line.TraceID = request.TraceID()
		request.EndRequest(line)
		if line.TraceID != "" || Traceparent(ctx) != "" {
			t.Fatal("a nil Tracer makes a trace")
		}
	})
	if allocated != 0 {
		t.Errorf("%v allocations; want none", allocated)
	}
	tracer.Close(ctx)
}

// The two metrics are there only on a node that traces.
func TestMetrics_TracesOnlyWithTracer(t *testing.T) {
	m := NewMetrics()
	if err := m.registry.Register(prometheus.NewCounter(prometheus.CounterOpts{Name: "coax_trace_spans_exported_total", Help: "free"})); err != nil {
		t.Error(err)
	}
}

// BenchmarkTracer is what the spans of an order cost: its request, the admission, the snapshot, two
// commits and the provider call.
func BenchmarkTracer(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer collector.Close()
	for _, mode := range []struct {
		name  string
		ratio float64
	}{{"off", -1}, {"ratio 0.01", 0.01}, {"ratio 1", 1}} {
		b.Run(mode.name, func(b *testing.B) {
			var tracer *Tracer
			if mode.ratio >= 0 {
				tracer = NewTracer(TraceConfig{Endpoint: collector.URL, Ratio: mode.ratio, Metrics: NewMetrics()})
			}
			b.ReportAllocs()
			for b.Loop() {
				ctx, request := tracer.Request(b.Context(), nil)
				for range 4 {
					_, step := tracer.Step(ctx, "step")
					step.Text("coax.operation", "CX06D3K9ZR")
					step.End()
				}
				ctx, call := tracer.Call(ctx, "provider renew")
				Traceparent(ctx)
				call.Text("coax.cause", "answered")
				call.End()
				line := aLine
				line.TraceID = request.TraceID()
				request.EndRequest(line)
			}
			tracer.Close(b.Context())
		})
	}
}
