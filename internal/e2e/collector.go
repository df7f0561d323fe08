package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector is an OTLP/HTTP collector in this process.
type Collector struct {
	URL string

	mu      sync.Mutex
	spans   []Span
	raw     []byte // of all exports
	headers []http.Header
}

// Span is a span that a collector has received.
type Span struct {
	*tracepb.Span
	Service string
}

// StartCollector starts a collector that ends with the test.
func StartCollector(t testing.TB) *Collector {
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("the collector got %s %s with %q: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw = append(c.raw, body...)
		c.headers = append(c.headers, r.Header.Clone())
		for _, resource := range data.ResourceSpans {
			service := attribute(resource.Resource.Attributes, "service.name")
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					c.spans = append(c.spans, Span{span, service})
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Spans returns the spans so far of a name; of every name if it is empty.
func (c *Collector) Spans(name string) []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s Span) bool { return name != "" && s.Name != name })
}

// Received returns the bodies of all exports, and their headers.
func (c *Collector) Received() ([]byte, []http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.raw), slices.Clone(c.headers)
}

// Trace is the id of the span's trace, ID its own and Parent its parent's.
func (s Span) Trace() string  { return fmt.Sprintf("%x", s.TraceId) }
func (s Span) ID() string     { return fmt.Sprintf("%x", s.SpanId) }
func (s Span) Parent() string { return fmt.Sprintf("%x", s.ParentSpanId) }

// Attribute returns an attribute as text; empty if it is missing.
func (s Span) Attribute(key string) string { return attribute(s.Attributes, key) }

func attribute(all []*commonpb.KeyValue, key string) string {
	for _, kv := range all {
		if kv.Key != key {
			continue
		}
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		}
	}
	return ""
}
