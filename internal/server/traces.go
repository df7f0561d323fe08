package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/telemetry"
)

// traceGrace is how long a node that ends waits for the collector.
const traceGrace = 3 * time.Second

// tracesPath is OTLP's, for an endpoint without a path.
const tracesPath = "/v1/traces"

func readTraceEndpoint(c *Config, value string) error {
	c.Trace.Endpoint = ""
	if value == "" {
		return nil
	}
	at, err := url.Parse(value)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" {
		return fmt.Errorf("%q is not an address such as http://127.0.0.1:4318", maskUser(value))
	}
	if at.User != nil || at.RawQuery != "" || at.ForceQuery || at.Fragment != "" {
		return errors.New("it has a user, a password, or something behind ? or #: write the address alone; a token goes into the file of trace.headers_file")
	}
	if at.Path == "" || at.Path == "/" {
		at.Path = tracesPath
	}
	c.Trace.Endpoint = at.String()
	return nil
}

func readTraceRatio(c *Config, value string) error {
	ratio, err := strconv.ParseFloat(value, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		return fmt.Errorf("%q is not a number from 0 to 1, such as 0.01 for one request in a hundred", value)
	}
	c.Trace.Ratio = ratio
	return nil
}

// openTracer returns nil if nothing is to be traced. Without a tracer nothing is wrapped, so that
// requests run the same code as if there were no tracing.
func openTracer(config Config, node string, metrics *telemetry.Metrics, log *slog.Logger) (*telemetry.Tracer, error) {
	headers, err := traceHeaders(config)
	if err != nil {
		return nil, fmt.Errorf("trace.headers_file: %w", err)
	}
	if config.Trace.Endpoint == "" {
		return nil, nil
	}
	if host, plain := plainTraceHost(config); plain && len(headers) > 0 {
		return nil, fmt.Errorf("trace.headers_file: the collector's headers would travel unencrypted to %s: use https:// in trace.endpoint", host)
	}
	return telemetry.NewTracer(telemetry.TraceConfig{
		Endpoint: config.Trace.Endpoint, Header: headers, Ratio: config.Trace.Ratio, TrustParent: config.Trace.TrustParent,
		Version: release, Instance: node, Metrics: metrics,
		Problem: func(dropped int64, cause error) {
			log.Warn("spans were dropped", "spans", dropped, "error", cause)
		},
	}), nil
}

func closeTracer(tracer *telemetry.Tracer) {
	ctx, cancel := context.WithTimeout(context.Background(), traceGrace)
	defer cancel()
	tracer.Close(ctx)
}

// traceHeaders reads trace.headers_file. Its errors do not quote the file, which has secrets.
func traceHeaders(config Config) (http.Header, error) {
	if config.Trace.HeadersFile == "" {
		return nil, nil
	}
	content, err := os.ReadFile(config.Trace.HeadersFile)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !found || !isHeaderName(name) || value == "" || !isHeaderValue(value) {
			return nil, fmt.Errorf("line %d of %s is not a header: NAME: VALUE", number, config.Trace.HeadersFile)
		}
		headers.Add(name, value)
	}
	return headers, lines.Err()
}

func isHeaderName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return name != ""
}

func isHeaderValue(value string) bool {
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// traceAdmissions records the admissions of requests.
func traceAdmissions(store access.Store, tracer *telemetry.Tracer) access.Store {
	if tracer == nil {
		return store
	}
	return tracedAdmissions{store, tracer}
}

type tracedAdmissions struct {
	access.Store
	tracer *telemetry.Tracer
}

func (s tracedAdmissions) Admit(ctx context.Context, admission access.Admission) (access.Admitted, error) {
	ctx, span := s.tracer.Step(ctx, "admission")
	admitted, err := s.Store.Admit(ctx, admission)
	endStep(span, err)
	return admitted, err
}

// traceOperations records an operation's snapshot and commits.
func traceOperations(store operation.ReviewStore, tracer *telemetry.Tracer) operation.ReviewStore {
	if tracer == nil {
		return store
	}
	return tracedOperations{store, tracer}
}

type tracedOperations struct {
	operation.ReviewStore
	tracer *telemetry.Tracer
}

func (s tracedOperations) Snapshot(ctx context.Context, query operation.SnapshotQuery) (operation.Snapshot, error) {
	ctx, span := s.tracer.Step(ctx, "snapshot")
	snapshot, err := s.ReviewStore.Snapshot(ctx, query)
	endStep(span, err)
	return snapshot, err
}

func (s tracedOperations) Reserve(ctx context.Context, draft operation.Draft) (operation.Operation, error) {
	ctx, span := s.commit(ctx, "reserve", draft.ID)
	op, err := s.ReviewStore.Reserve(ctx, draft)
	endStep(span, err)
	return op, err
}

func (s tracedOperations) ExtendLease(ctx context.Context, id string, epoch int64, until time.Time) (bool, error) {
	ctx, span := s.commit(ctx, "extend lease", id)
	owned, err := s.ReviewStore.ExtendLease(ctx, id, epoch, until)
	endStep(span, err)
	return owned, err
}

func (s tracedOperations) Settle(ctx context.Context, settlement operation.Settlement) (operation.Operation, bool, error) {
	ctx, span := s.commit(ctx, "settle", settlement.OperationID)
	span.Text("coax.state", string(settlement.To))
	op, settled, err := s.ReviewStore.Settle(ctx, settlement)
	endStep(span, err)
	return op, settled, err
}

func (s tracedOperations) Postpone(ctx context.Context, p operation.Postponement) (bool, error) {
	ctx, span := s.commit(ctx, "postpone", p.OperationID)
	owned, err := s.ReviewStore.Postpone(ctx, p)
	endStep(span, err)
	return owned, err
}

func (s tracedOperations) SettleAddon(ctx context.Context, settlement operation.AddonSettlement) error {
	ctx, span := s.commit(ctx, "settle add-on", settlement.OperationID)
	err := s.ReviewStore.SettleAddon(ctx, settlement)
	endStep(span, err)
	return err
}

func (s tracedOperations) CloseLateCheck(ctx context.Context, check operation.LateCheck) error {
	ctx, span := s.commit(ctx, "close late check", check.OperationID)
	err := s.ReviewStore.CloseLateCheck(ctx, check)
	endStep(span, err)
	return err
}

func (s tracedOperations) SettleReversal(ctx context.Context, answer operation.ReversalAnswer) error {
	ctx, span := s.commit(ctx, "settle reversal", answer.OperationID)
	err := s.ReviewStore.SettleReversal(ctx, answer)
	endStep(span, err)
	return err
}

func (s tracedOperations) commit(ctx context.Context, name, operationID string) (context.Context, telemetry.Span) {
	ctx, span := s.tracer.Step(ctx, name)
	span.Text("coax.operation", operationID)
	return ctx, span
}

// endStep ends a step of the store, with the kind of its error.
func endStep(span telemetry.Span, err error) {
	switch {
	case err == nil:
	case errors.Is(err, operation.ErrStale):
		span.Text("coax.outcome", "stale") // the request starts again
	case errors.Is(err, operation.ErrCommitUnknown):
		span.Text("coax.outcome", "commit_unknown")
		span.Fail()
	case errors.Is(err, context.Canceled):
		span.Text("coax.outcome", "cancelled")
	default:
		span.Text("coax.outcome", "error")
		span.Fail()
	}
	span.End()
}

// traceCalls records calls to the provider that belong to a trace, and returns the traceparent
// that they carry; nil without a tracer.
func traceCalls(tracer *telemetry.Tracer) func(ctx context.Context, what, reference string) (string, func(gateway.Observation)) {
	if tracer == nil {
		return nil
	}
	return func(ctx context.Context, what, reference string) (string, func(gateway.Observation)) {
		ctx, span := tracer.Call(ctx, "provider "+what)
		span.Text("coax.reference", reference)
		return telemetry.Traceparent(ctx), func(o gateway.Observation) {
			span.Text("coax.cause", string(o.Cause))
			span.Text("coax.outcome", o.Outcome.String())
			if o.Cause != gateway.Answered && o.Cause != gateway.Undecided {
				span.Fail()
			}
			span.End()
		}
	}
}

// traceFollowUps makes a trace of each follow-up of an operation; nil without a tracer.
func traceFollowUps(tracer *telemetry.Tracer) func(context.Context, string, operation.Operation) (context.Context, func(error)) {
	if tracer == nil {
		return nil
	}
	return func(ctx context.Context, what string, op operation.Operation) (context.Context, func(error)) {
		ctx, span := tracer.Root(ctx, what)
		span.Text("coax.operation", op.ID)
		span.Number("coax.operator", op.OperatorID)
		return ctx, func(err error) { endStep(span, err) }
	}
}

// traceRows makes a trace of each row of a bulk renewal.
func traceRows(operations bulk.Operations, tracer *telemetry.Tracer) bulk.Operations {
	if tracer == nil {
		return operations
	}
	return tracedRows{operations, tracer}
}

type tracedRows struct {
	bulk.Operations
	tracer *telemetry.Tracer
}

func (r tracedRows) Process(ctx context.Context, request operation.Request) (operation.Result, error) {
	ctx, span := r.tracer.Root(ctx, "bulk row")
	defer span.End()
	span.Number("coax.operator", request.OperatorID)
	result, err := r.Operations.Process(ctx, request)
	if err == nil {
		span.Text("coax.operation", result.ID)
		span.Text("coax.state", string(result.State))
	}
	return result, err
}
