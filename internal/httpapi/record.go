package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/telemetry"
)

// record tells people what was answered: one line a request, and the metrics.
// What it writes comes from fixed lists or from ourselves; nothing a stranger
// sent is repeated.
type record struct {
	log     *slog.Logger
	metrics *telemetry.Metrics
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

// unknown stands for a path or a method that is none of ours.
const unknown = "-"

// request records a request that had a handler.
func (rec record) request(method string, x *exchange, answer reply, cause error) {
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
		method:   knownMethod(method),
		path:     path,
		took:     took,
		address:  x.address,
		cause:    cause,
	})
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
