package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TraceConfig says which requests are traced and where their spans go.
type TraceConfig struct {
	// Endpoint is the address that spans are posted to, as OTLP in protobuf.
	Endpoint string
	// Header goes with every export, for a collector that asks for a token.
	Header http.Header
	// Ratio is the share of traces that are recorded, from 0 to 1.
	Ratio float64
	// TrustParent makes a request part of the trace that its traceparent header names, which
	// then decides whether it is recorded. Otherwise the request only links to that trace: else
	// any client could have every request recorded.
	TrustParent bool
	// Version and Instance are those of the service.
	Version, Instance string
	Metrics           *Metrics
	// Problem is told at most once a minute that spans were dropped.
	Problem func(dropped int64, cause error)
}

// Tracer records what requests spend their time on, and exports it in the background. Nothing
// waits for the collector: spans that it does not take are dropped and counted. A nil Tracer
// records nothing and costs nothing.
type Tracer struct {
	spans       trace.Tracer
	provider    *sdktrace.TracerProvider
	exporter    *spanExporter
	trustParent bool
}

// NewTracer returns a Tracer. It does not call the collector, which may be down.
func NewTracer(config TraceConfig) *Tracer {
	exporter := newSpanExporter(config)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(exporter.processor()),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(config.Ratio))),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "coax"),
			attribute.String("service.version", config.Version),
			attribute.String("service.instance.id", config.Instance),
		)),
	)
	return &Tracer{
		spans: provider.Tracer("github.com/coaxhq/coax"), provider: provider, exporter: exporter, trustParent: config.TrustParent,
	}
}

// Close exports what is left. When ctx ends, the rest is dropped.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	// Without abort an export that hangs would go on after Close.
	stop := context.AfterFunc(ctx, t.exporter.abort)
	defer stop()
	_ = t.provider.Shutdown(context.WithoutCancel(ctx)) // the exporter has reported what failed
	t.exporter.abort()
}

// Span is a step of a trace. The zero Span records nothing. What is set on a span leaves the
// machine: no secrets, no customers' data, no texts that a caller or the provider has sent.
type Span struct{ span trace.Span }

// Request begins the span of a request with this header.
func (t *Tracer) Request(ctx context.Context, header http.Header) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	server := trace.WithSpanKind(trace.SpanKindServer)
	caller := remoteParent(header)
	if !caller.IsValid() {
		return t.begin(ctx, "request", server)
	}
	if t.trustParent {
		return t.begin(trace.ContextWithRemoteSpanContext(ctx, caller), "request", server)
	}
	return t.begin(ctx, "request", server, trace.WithLinks(trace.Link{SpanContext: caller}))
}

// remoteParent reads the traceparent header. The tracestate header is left out: it is free text.
func remoteParent(header http.Header) trace.SpanContext {
	sent := header["Traceparent"]
	if len(sent) != 1 {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": sent[0]})
	return trace.SpanContextFromContext(ctx)
}

// Root begins a trace of work that no request has asked for.
func (t *Tracer) Root(ctx context.Context, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	return t.begin(ctx, name, trace.WithNewRoot())
}

// Step begins a step of the trace in ctx. Without one, or if that is not recorded, it does nothing.
func (t *Tracer) Step(ctx context.Context, name string) (context.Context, Span) {
	return t.step(ctx, name, trace.SpanKindInternal)
}

// Call is Step for a call to another system.
func (t *Tracer) Call(ctx context.Context, name string) (context.Context, Span) {
	return t.step(ctx, name, trace.SpanKindClient)
}

func (t *Tracer) step(ctx context.Context, name string, kind trace.SpanKind) (context.Context, Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, Span{}
	}
	return t.begin(ctx, name, trace.WithSpanKind(kind))
}

func (t *Tracer) begin(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, Span) {
	ctx, span := t.spans.Start(ctx, name, options...)
	return ctx, Span{span}
}

// Traceparent returns the traceparent header of a call made in ctx; empty outside of a trace. A
// trace that is not recorded has one, too: it appears in our log and may in the other system's.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// TraceID returns the id of the span's trace, recorded or not; empty for the zero Span.
func (s Span) TraceID() string {
	if s.span == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Text sets an attribute.
func (s Span) Text(key, value string) {
	if s.recording() {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// Number sets an attribute.
func (s Span) Number(key string, value int64) {
	if s.recording() {
		s.span.SetAttributes(attribute.Int64(key, value))
	}
}

// Fail marks the span as failed. An error's text is not recorded, because it may quote what was sent.
func (s Span) Fail() {
	if s.recording() {
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// EndRequest ends a request's span, with what is logged about the request except address and key.
func (s Span) EndRequest(line RequestLine) {
	if s.recording() {
		s.span.SetName(line.Method + " " + line.Path)
		s.span.SetAttributes(
			attribute.String("http.request.method", line.Method),
			attribute.String("http.route", line.Path),
			attribute.Int("http.response.status_code", line.Status),
			attribute.String("coax.code", line.Code),
			attribute.String("coax.request_id", line.RequestID),
			attribute.Int64("coax.operator", line.Operator),
		)
		if line.Status >= http.StatusInternalServerError {
			s.Fail()
		}
	}
	s.End()
}

func (s Span) recording() bool { return s.span != nil && s.span.IsRecording() }
