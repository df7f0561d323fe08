package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

const (
	callerTrace       = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan        = "00f067aa0ba902b7"
	callerSampled     = "00-" + callerTrace + "-" + callerSpan + "-01"
	callerNotSampled  = "00-" + callerTrace + "-" + callerSpan + "-00"
	droppedSpans      = `coax_trace_spans_dropped_total{reason="collector"}`
	tracedBalance     = "GET " + e2e.Balance
	tracedActivations = "POST /api/v1/activate"
)

// loggedTrace returns the trace_id in the log line of a request.
func loggedTrace(t *testing.T, w *e2e.Env, requestID string) string {
	t.Helper()
	var line struct {
		RequestID string `json:"request_id"`
		TraceID   string `json:"trace_id"`
	}
	w.WaitUntil("the request is logged", func() bool {
		for text := range strings.Lines(w.Log.String()) {
			if strings.Contains(text, requestID) && json.Unmarshal([]byte(text), &line) == nil && line.RequestID == requestID {
				return true
			}
		}
		return false
	})
	return line.TraceID
}

func only(t *testing.T, spans []e2e.Span, what string) e2e.Span {
	t.Helper()
	if len(spans) != 1 {
		t.Fatalf("%d spans of %s; want 1: %v", len(spans), what, spans)
	}
	return spans[0]
}

func ask(w *e2e.Env, as e2e.Caller, traceparent ...string) e2e.Answer {
	w.TB.Helper()
	return w.Send(e2e.Call{As: as, Path: e2e.Balance, Header: map[string][]string{"Traceparent": traceparent}})
}

// A node that ends exports what it has, so that the spans of its last second are not lost.
func TestTraces_ActivationIsOneTrace(t *testing.T) {
	t.Parallel()
	collector := e2e.StartCollector(t)
	w := e2e.NewEnv(t, "trace.endpoint="+collector.URL)
	me := w.NewFundedOperator("me", "1000")
	got := w.Operate(me, "activate", "one-trace-1", e2e.Order{"full_name": "Asha", "mobile": "9800000001", "plan_id": "BASIC-1"})
	if got.Code != fault.OK {
		t.Fatal(string(got.Raw))
	}
	orders := w.Simulator.Calls("9800000001")
	id := got.Text("transaction_id")
	logged := loggedTrace(t, w, got.ID)
	w.Stop()

	request := only(t, collector.Spans(tracedActivations), tracedActivations)
	if request.Parent() != "" || request.Kind != tracepb.Span_SPAN_KIND_SERVER || request.Service != "coax" ||
		request.Attribute("coax.code") != "OK" || request.Attribute("http.response.status_code") != "200" ||
		request.Attribute("coax.request_id") != got.ID || request.Attribute("coax.operator") != fmt.Sprint(me.OperatorID) {
		t.Errorf("the request's span is %v", request)
	}
	if logged == "" || logged != request.Trace() {
		t.Errorf("the log line has the trace %q; want %s", logged, request.Trace())
	}
	before := request.StartTimeUnixNano
	for _, name := range []string{"admission", "snapshot", "reserve", "provider activate", "settle"} {
		step := only(t, slices.DeleteFunc(collector.Spans(name), func(s e2e.Span) bool { return s.Trace() != request.Trace() }), name)
		if step.Parent() != request.ID() || step.StartTimeUnixNano < before || step.EndTimeUnixNano > request.EndTimeUnixNano {
			t.Errorf("%s is not a step of the request after the one before: %v", name, step)
		}
		before = step.EndTimeUnixNano
		if name == "reserve" || name == "settle" {
			if step.Attribute("coax.operation") != id {
				t.Errorf("%s has the operation %q; want %s", name, step.Attribute("coax.operation"), id)
			}
		}
	}
	call := only(t, collector.Spans("provider activate"), "provider activate")
	if call.Kind != tracepb.Span_SPAN_KIND_CLIENT || call.Attribute("coax.reference") != id ||
		call.Attribute("coax.outcome") != "confirmed" || call.Attribute("coax.cause") != "answered" {
		t.Errorf("the provider call's span is %v", call)
	}
	if want := "00-" + request.Trace() + "-" + call.ID() + "-01"; len(orders) != 1 || orders[0].Traceparent != want {
		t.Errorf("the provider got %+v; want the traceparent %s", orders, want)
	}
}

func TestTraces_ReviewIsItsOwnTrace(t *testing.T) {
	t.Parallel()
	collector := e2e.StartCollector(t)
	w := e2e.NewEnv(t, "trace.endpoint="+collector.URL, "provider.timeout=500ms", "review.first_check=1s")
	me := w.NewFundedOperator("me", "1000")
	_, got := w.StartReview(me, "activate", "reset_applied", "9800000001", "review-trace-1")
	id := got.Text("transaction_id")
	w.Advance(time.Minute)
	if settled := w.AwaitSettled(me, "review-trace-1"); settled.Text("status") != "success" {
		t.Fatal(string(settled.Raw))
	}
	w.Stop()

	var settled, asked int
	for _, review := range collector.Spans("review") {
		if review.Parent() != "" || review.Attribute("coax.operation") != id {
			t.Errorf("the review's span is %v; want a root about %s", review, id)
		}
		for _, step := range collector.Spans("") {
			switch {
			case step.Trace() != review.Trace():
			case step.Name == "settle":
				settled++
			case step.Name == "provider status" && step.Parent() == review.ID():
				asked++
			}
		}
	}
	if settled != 1 || asked == 0 {
		t.Errorf("the reviews asked %d times and settled %d times; want at least once, and once", asked, settled)
	}
	call := only(t, collector.Spans("provider activate"), "provider activate")
	if call.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || call.Attribute("coax.outcome") != "unknown" {
		t.Errorf("the order without an answer has the span %v", call)
	}
}

// A page is a trace by its pattern, and each row of a bulk renewal that it starts is one of its own.
func TestTraces_PagesAndBulkRows(t *testing.T) {
	t.Parallel()
	collector := e2e.StartCollector(t)
	w := e2e.NewEnv(t, "trace.endpoint="+collector.URL)
	_, ids := w.NewSubscribers(2)
	b := w.SignIn(t, w.Demo.Operator)
	list := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).Location
	b.Post(list+"/start", nil).RedirectsTo(t, list)
	w.WaitUntil("it is finished", func() bool { return strings.Contains(b.Get(list).Body, "Finished") })
	w.Stop()

	started := only(t, collector.Spans("POST /panel/bulk/{id}/start"), "the page")
	if started.Parent() != "" || started.Attribute("http.response.status_code") != "303" {
		t.Errorf("the page's span is %v", started)
	}
	rows := collector.Spans("bulk row")
	if len(rows) != 2 || rows[0].Trace() == rows[1].Trace() {
		t.Fatalf("%v; want a trace for each of two rows", rows)
	}
	for _, row := range rows {
		steps := slices.DeleteFunc(collector.Spans(""), func(s e2e.Span) bool { return s.Parent() != row.ID() })
		if len(steps) != 4 || row.Attribute("coax.state") != "success" || row.Attribute("coax.operation") == "" {
			t.Errorf("%v has the steps %v; want snapshot, reserve, provider call and settle", row, steps)
		}
	}
	for _, span := range collector.Spans("") {
		if strings.Contains(span.Name, "/static/") {
			t.Errorf("a picture or style is traced: %v", span)
		}
	}
}

func TestTraces_CallersTraceparent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                 string
		sets                 []string
		traceparent          []string
		recorded, same, link bool
	}{
		{"not trusted: a trace of its own with a link", nil, []string{callerSampled}, true, false, true},
		{"not trusted: the ratio decides", []string{"trace.ratio=0"}, []string{callerSampled}, false, false, false},
		{"trusted: part of the trace", []string{"trace.trust_parent=true"}, []string{callerSampled}, true, true, false},
		{"trusted: recorded whatever the ratio", []string{"trace.trust_parent=true", "trace.ratio=0"}, []string{callerSampled}, true, true, false},
		{"trusted: not recorded", []string{"trace.trust_parent=true"}, []string{callerNotSampled}, false, true, false},
		{"trusted: malformed", []string{"trace.trust_parent=true"}, []string{"00-" + callerTrace}, true, false, false},
		{"trusted: sent twice", []string{"trace.trust_parent=true"}, []string{callerSampled, callerSampled}, true, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			collector := e2e.StartCollector(t)
			w := e2e.NewEnv(t, append(test.sets, "trace.endpoint="+collector.URL)...)
			got := ask(w, w.NewFundedOperator("me", "0"), test.traceparent...)
			logged := loggedTrace(t, w, got.ID)
			w.Stop()
			if (logged == callerTrace) != test.same || len(logged) != 32 {
				t.Errorf("the request's trace is %q; the caller's: %v", logged, test.same)
			}
			spans := collector.Spans(tracedBalance)
			if !test.recorded {
				if all := collector.Spans(""); len(all) > 0 {
					t.Errorf("recorded %v; want nothing", all)
				}
				return
			}
			span := only(t, spans, tracedBalance)
			if span.Trace() != logged || (span.Parent() == callerSpan) != test.same || (len(span.Links) == 1) != test.link {
				t.Errorf("recorded %v", span)
			}
			if test.link && fmt.Sprintf("%x", span.Links[0].TraceId) != callerTrace {
				t.Errorf("the link is %v; want %s", span.Links[0], callerTrace)
			}
		})
	}
}

func TestTraces_RatioZeroSendsNothing(t *testing.T) {
	t.Parallel()
	collector := e2e.StartCollector(t)
	w := e2e.NewEnv(t, "trace.endpoint="+collector.URL, "trace.ratio=0")
	me := w.NewFundedOperator("me", "1000")
	w.Activate(me, "9800000001", "BASIC-1")
	got := ask(w, me)
	logged := loggedTrace(t, w, got.ID)
	orders := w.Simulator.Calls("9800000001")
	w.Stop()
	if raw, exports := collector.Received(); len(exports) > 0 {
		t.Errorf("%d exports of %d bytes; want none", len(exports), len(raw))
	}
	// A trace that is not recorded still connects our log with the provider's.
	if len(logged) != 32 || len(orders) != 1 || !strings.HasSuffix(orders[0].Traceparent, "-00") {
		t.Errorf("logged %q, the provider got %+v; want a trace id, and a traceparent that says not recorded", logged, orders)
	}
}

func TestTraces_OffLeavesNothing(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	me := w.NewFundedOperator("me", "1000")
	w.Activate(me, "9800000001", "BASIC-1")
	got := ask(w, me, callerSampled)
	if logged := loggedTrace(t, w, got.ID); logged != "" {
		t.Errorf("the log line has the trace %s", logged)
	}
	if orders := w.Simulator.Calls("9800000001"); len(orders) != 1 || orders[0].Traceparent != "" {
		t.Errorf("the provider got %+v; want no traceparent", orders)
	}
	if strings.Contains(w.Log.String(), "trace_id") || w.Metric(droppedSpans) != -1 {
		t.Error("a node without traces logs or counts them")
	}
}

// Whatever callers, customers and the provider send stays out of the traces.
func TestTraces_HoldNoSecrets(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	headers := filepath.Join(folder, "headers")
	if err := os.WriteFile(headers, []byte("# for the collector\n\nAuthorization: Bearer canary-token\nX-Tenant: coax\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	collector := e2e.StartCollector(t)
	w := e2e.NewEnv(t, "trace.endpoint="+collector.URL+"/v1/traces", "trace.headers_file="+headers, "trace.trust_parent=true")
	me := w.NewFundedOperator("me", "1000")
	order := e2e.Order{
		"full_name": "Canary Name", "mobile": "9812345678", "plan_id": "BASIC-1", "email": "canary@example.in",
		"address": "7 Canary Street", "password": "Canary-Pass-7", "connection_type": "fiber",
	}
	nonce := "canary-nonce-0123456789abcdef"
	activated := w.Operate(me, "activate", "canary-key-1", order)
	if activated.Code != fault.OK {
		t.Fatal(string(activated.Raw))
	}
	delete(order, "password")
	order["mobile"] = "9812345679"
	generated := w.Operate(me, "activate", "canary-key-2", order).Text("customer.password")
	w.ScriptProvider("9812345678", "reject")
	w.Operate(me, "renew", "canary-key-3", e2e.Order{"mobile": "9812345678", "plan_id": "BASIC-1"})
	w.Send(e2e.Call{As: me, Path: e2e.Balance, Nonce: nonce})
	w.Send(e2e.Call{As: me, Path: e2e.Balance, Signature: strings.Repeat("c0ffee", 10) + "c0ff"})
	w.Send(e2e.Call{As: me, Path: "/api/v1/subscription?mobile=9812345678"})
	w.Send(e2e.Call{As: me, Path: e2e.Balance, Header: map[string][]string{
		"Traceparent": {callerSampled}, "Tracestate": {"vendor=canary-state"}, "Baggage": {"user=canary-baggage"}, "User-Agent": {"canary-agent"},
	}})
	w.Stop()

	raw, exported := collector.Received()
	if len(exported) == 0 || exported[0].Get("Authorization") != "Bearer canary-token" || exported[0].Get("X-Tenant") != "coax" {
		t.Errorf("exported with %v; want the headers of the file", exported)
	}
	if len(collector.Spans(tracedActivations)) != 2 || !bytes.Contains(raw, []byte(activated.Text("transaction_id"))) || len(generated) < 8 {
		t.Fatal("the traces lack the activations, so that finding nothing in them proves nothing")
	}
	canaries := []string{me.Key, me.Secret, generated, nonce, "c0ffee", "9812345678", "9812345679", "127.0.0.1", "canary", "Canary", me.Key[:12]}
	for _, canary := range canaries {
		if bytes.Contains(raw, []byte(canary)) {
			t.Errorf("the traces have %q", canary)
		}
	}
	if strings.Contains(w.Log.String(), "canary-token") {
		t.Error("the log has the collector's token")
	}
}

func TestTraces_CollectorDown(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String()
	listener.Close()
	w := e2e.NewEnv(t, "trace.endpoint="+nobody)
	me := w.NewFundedOperator("me", "1000")
	w.Activate(me, "9800000001", "BASIC-1")
	w.WaitUntil("the spans are dropped", func() bool { return w.Metric(droppedSpans) >= 6 })
	ask(w, me)
	w.WaitUntil("more spans are dropped", func() bool { return w.Metric(droppedSpans) >= 8 })
	w.CheckAudit()
	w.Stop()
	if !strings.Contains(w.Log.String(), `"msg":"spans were dropped"`) {
		t.Error("the log does not say that spans were dropped")
	}
}

// A collector that accepts connections and never answers holds up neither requests nor the end of
// the node.
func TestTraces_CollectorHangs(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	t.Cleanup(hanging.Close)
	t.Cleanup(sync.OnceFunc(func() { close(released) }))
	w := e2e.NewEnv(t, "trace.endpoint="+hanging.URL)
	me := w.NewFundedOperator("me", "1000")
	w.Activate(me, "9800000001", "BASIC-1")
	ask(w, me)
	w.CheckAudit()
	began := time.Now()
	w.Stop()
	// The grace is 3 s; the rest is for a busy machine.
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the node took %s to end", took)
	}
}
