package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/coaxhq/coax/signing"
)

// record tells people what was answered: one line a request, and the metrics.
// What it writes there comes from fixed lists or from ourselves; nothing a stranger
// sent is repeated. The operator whose key was named finds more in the request log.
type record struct {
	log      *slog.Logger
	metrics  *telemetry.Metrics
	requests *requestlog.Log // nil where none is kept
}

func newRecord(log *slog.Logger, metrics *telemetry.Metrics) record {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if metrics == nil {
		metrics = telemetry.NewMetrics()
	}
	return record{log: log, metrics: metrics}
}

func (rec record) keepingIn(requests *requestlog.Log) record {
	rec.requests = requests
	return rec
}

// unknown stands for a path or a method that is none of ours.
const unknown = "-"

// request records a request that had a handler.
func (rec record) request(r *http.Request, x *exchange, answer reply, cause error) {
	path := x.route.path
	if path == "" {
		path = unknown
	}
	took := x.watch.Elapsed()
	rec.metrics.RequestAnswered(path, string(answer.code), took)
	rec.line(line{
		answer:   answer,
		operator: x.caller.Operator.ID,
		key:      x.caller.KeyHint,
		method:   knownMethod(r.Method),
		path:     path,
		took:     took,
		address:  x.address,
		cause:    cause,
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
		Status:         answer.status,
		Code:           answer.code,
		Address:        x.address,
		RequestID:      x.requestID,
		Took:           took,
		IdempotencyKey: idempotencyKey,
		Signature:      x.evidence,
	})
}

// evidence keeps what a signature was judged on, where that is what was refused: a
// caller who sees it finds out by themselves what they signed instead.
func (rec record) evidence(asked access.Request, refusal error) *requestlog.SignatureDetails {
	if !rec.requests.On() {
		return nil
	}
	switch fault.CodeOf(refusal) {
	case fault.InvalidSignature, fault.TimestampExpired, fault.InvalidNonce, fault.ReplayDetected:
	default:
		return nil
	}
	// The gate has seen to it that each of the headers is there, and once.
	return requestlog.NewSignatureDetails(signing.Request{
		Method:    asked.Method,
		Path:      asked.Path,
		RawQuery:  asked.RawQuery,
		Timestamp: asked.Timestamp[0],
		Nonce:     asked.Nonce[0],
		Body:      asked.Body,
	}.StringToSign(), asked.Signature[0])
}

// fault records a message that never became a request.
func (rec record) fault(answer reply, peer netip.Addr) {
	rec.metrics.FrameworkFault(unknown, string(answer.code))
	rec.line(line{answer: answer, method: unknown, path: unknown, address: peer})
}

type line struct {
	answer   reply
	operator int64
	key      string
	method   string
	path     string
	took     time.Duration
	address  netip.Addr
	cause    error
}

func (rec record) line(l line) {
	told := telemetry.RequestLine{
		RequestID: l.answer.requestID,
		Operator:  l.operator,
		Key:       l.key,
		Method:    l.method,
		Path:      l.path,
		Code:      string(l.answer.code),
		Status:    l.answer.status,
		Took:      l.took,
		Address:   l.address,
	}
	// Why a caller was refused is in the code. Only what is our own fault needs
	// its cause told.
	if l.answer.status < http.StatusInternalServerError || l.cause == nil {
		telemetry.LogRequest(rec.log, told)
		return
	}
	attrs := []slog.Attr{slog.String("error", l.cause.Error())}
	var broken *panicked
	if errors.As(l.cause, &broken) {
		attrs = append(attrs, slog.String("stack", string(broken.stack)))
	}
	telemetry.LogFailure(rec.log, told, attrs...)
}

// knownMethod returns a method that HTTP knows, or a dash: a method may be any
// word, of any length.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return unknown
}
