package server

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
)

// Without a tracer a node runs the same code as if there were no tracing.
func TestTraces_OffWrapsNothing(t *testing.T) {
	var config Config
	tracer, err := openTracer(config, "node", nil, nil)
	if tracer != nil || err != nil {
		t.Fatalf("openTracer = %v, %v; want no tracer without trace.endpoint", tracer, err)
	}
	store := struct{ Store }{}
	var rows bulk.Operations = (*operation.Processor)(nil)
	if traceAdmissions(store, tracer) != any(store) || traceOperations(store, tracer) != any(store) || traceRows(rows, tracer) != rows {
		t.Error("a store or a worker is wrapped")
	}
	if traceCalls(tracer) != nil || traceFollowUps(tracer) != nil {
		t.Error("provider calls or follow-ups have hooks")
	}
}

func TestTraceHeaders_AreReadStrictly(t *testing.T) {
	for _, test := range []struct{ text, refused string }{
		{"", ""},
		{"# comment\n\nAuthorization: Bearer hunter2\r\nX-Tenant:coax", ""},
		{"Authorization Bearer hunter2", "line 1"},
		{"X-Tenant: coax\nAuthorization:", "line 2"},
		{"X Tenant: hunter2", "line 1"},
		{": hunter2", "line 1"},
		{"X-Tenant: hun\x00ter2", "line 1"},
	} {
		var config Config
		config.Trace.HeadersFile = writeConfig(t, filepath.Join(t.TempDir(), "headers"), []byte(test.text))
		headers, err := traceHeaders(config)
		switch {
		case test.refused == "" && err != nil:
			t.Errorf("%q: %v", test.text, err)
		case test.refused == "" && test.text != "" && (headers.Get("Authorization") != "Bearer hunter2" || headers.Get("X-Tenant") != "coax" || len(headers) != 2):
			t.Errorf("%q is read as %v", test.text, headers)
		case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%q: %v; want %s refused, without its content", test.text, err, test.refused)
		}
	}
}
