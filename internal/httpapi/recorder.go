package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/coaxhq/coax/signing"
)

// recorder writes one log line per request, the metrics and the request log. Log
// lines and metrics hold only values of our own or from fixed lists, nothing that an
// unauthenticated client sent. The request log shows the operator more.
type recorder struct {
	log      *slog.Logger
	metrics  *telemetry.Metrics
	requests *requestlog.Log // nil if there is none
}

func newRecorder(log *slog.Logger, metrics *telemetry.Metrics) recorder {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if metrics == nil {
		metrics = telemetry.NewMetrics()
	}
	return recorder{log: log, metrics: metrics}
}

func (rec recorder) withRequestLog(requests *requestlog.Log) recorder {
	rec.requests = requests
	return rec
}

// codesToWatch are counted from the start, also while there are none: an alert may rest on them.
var codesToWatch = []string{
	string(fault.OK), string(fault.InternalError), string(fault.ServiceUnavailable), string(fault.PlansUnavailable),
	string(fault.PendingReview), string(fault.TimestampExpired),
}

// unknown stands for an unknown path or method.
const unknown = "-"

// request records a request that reached the API.
func (rec recorder) request(r *http.Request, x *exchange, resp response, cause error) {
	path := x.route.path
	if path == "" {
		path = unknown
	}
	took := x.watch.Elapsed()
	rec.metrics.RequestAnswered(path, string(resp.code), took)
	rec.line(line{
		resp:     resp,
		operator: x.caller.Operator.ID,
		key:      x.caller.KeyHint,
		method:   knownMethod(r.Method),
		path:     path,
		took:     took,
		address:  x.address,
		cause:    cause,
		span:     x.span,
	})
	if rec.requests == nil || x.caller.Operator.ID == 0 {
		return
	}
	var idempotencyKey string
	if sent := r.Header["Idempotency-Key"]; len(sent) == 1 {
		idempotencyKey = sent[0]
	}
	rec.requests.Record(requestlog.Entry{
		At:             x.now,
		OperatorID:     x.caller.Operator.ID,
		CredentialID:   x.caller.CredentialID,
		KeyHint:        x.caller.KeyHint,
		Method:         r.Method,
		Path:           path,
		Status:         resp.status,
		Code:           resp.code,
		Address:        x.address,
		RequestID:      x.requestID,
		Took:           took,
		IdempotencyKey: idempotencyKey,
		PlanID:         operation.PlanInMaintenance(cause),
		Signature:      x.signature,
	})
}

// signatureDetails returns what the signature was checked against, if the signature,
// its timestamp or its nonce was refused: integrators compare it with what they
// signed.
func (rec recorder) signatureDetails(checked access.Request, refusal error) *requestlog.SignatureDetails {
	if !rec.requests.On() {
		return nil
	}
	switch fault.CodeOf(refusal) {
	case fault.InvalidSignature, fault.TimestampExpired, fault.InvalidNonce, fault.ReplayDetected:
	default:
		return nil
	}
	// With these codes the authorizer has checked that each header occurs once.
	return requestlog.NewSignatureDetails(signing.Request{
		Method:    checked.Method,
		Path:      checked.Path,
		RawQuery:  checked.RawQuery,
		Timestamp: checked.Timestamp[0],
		Nonce:     checked.Nonce[0],
		Body:      checked.Body,
	}.StringToSign(), checked.Signature[0])
}

// fault records a message that could not be read as a request.
func (rec recorder) fault(resp response, peer netip.Addr) {
	rec.metrics.MalformedRequest(unknown, string(resp.code))
	rec.line(line{resp: resp, method: unknown, path: unknown, address: peer})
}

type line struct {
	resp     response
	operator int64
	key      string
	method   string
	path     string
	took     time.Duration
	address  netip.Addr
	cause    error
	span     telemetry.Span
}

func (rec recorder) line(l line) {
	logged := telemetry.RequestLine{
		RequestID: l.resp.requestID,
		Operator:  l.operator,
		Key:       l.key,
		Method:    l.method,
		Path:      l.path,
		Code:      string(l.resp.code),
		Status:    l.resp.status,
		Took:      l.took,
		Address:   l.address,
		TraceID:   l.span.TraceID(),
	}
	l.span.EndRequest(logged)
	// The code says why a caller was refused. Only internal failures need a cause.
	if l.resp.status < http.StatusInternalServerError || l.cause == nil {
		telemetry.LogRequest(rec.log, logged)
		return
	}
	attrs := []slog.Attr{slog.String("error", l.cause.Error())}
	var broken *panicError
	if errors.As(l.cause, &broken) {
		attrs = append(attrs, slog.String("stack", string(broken.stack)))
	}
	telemetry.LogFailure(rec.log, logged, attrs...)
}

// knownMethod returns a method of HTTP, or a dash: a client may send any word, of
// any length, as its method.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return unknown
}
