package telemetry

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RequestLine is what is logged about a request that was answered. A handler
// that has no failure of ours to explain logs nothing else, so this line is
// nearly all that a busy service logs.
type RequestLine struct {
	RequestID string
	Operator  int64
	Key       string // its hint
	Method    string
	Path      string
	Code      string
	Status    int
	Took      time.Duration
	Address   netip.Addr
	// TraceID is empty without tracing, and then left out.
	TraceID string
}

// LogRequest writes a request's line at level info. A logger of NewLogger's that
// writes JSON takes it without waiting for the writer: it is written right after,
// in order, and Flush waits for it. Any other logger gets it as attributes.
func LogRequest(log *slog.Logger, line RequestLine) {
	fast, ok := log.Handler().(*jsonHandler)
	if !ok || !line.isPlain() {
		log.LogAttrs(context.Background(), slog.LevelInfo, requestMessage, line.attrs()...)
		return
	}
	if !fast.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	buffer := lineBuffers.Get().(*[]byte)
	*buffer = line.appendJSON((*buffer)[:0], time.Now())
	fast.lines.queue(*buffer)
	lineBuffers.Put(buffer)
}

// LogFailure writes a request's line at level error, with what tells why, and
// returns when it is written.
func LogFailure(log *slog.Logger, line RequestLine, why ...slog.Attr) {
	log.LogAttrs(context.Background(), slog.LevelError, requestMessage, append(line.attrs(), why...)...)
}

// Flush waits until everything that was logged is written. It is called before a
// program ends.
func Flush(log *slog.Logger) {
	if fast, ok := log.Handler().(*jsonHandler); ok {
		fast.lines.flush()
	}
}

const requestMessage = "request"

var lineBuffers = sync.Pool{New: func() any { return new([]byte) }}

// jsonHandler is slog's own, with a way past it for the one line that is written
// for every request.
type jsonHandler struct {
	slog.Handler
	lines *lineWriter
}

func newJSONHandler(w io.Writer, options *slog.HandlerOptions) *jsonHandler {
	lines := newLineWriter(w)
	return &jsonHandler{Handler: slog.NewJSONHandler(lines, options), lines: lines}
}

func (l RequestLine) attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("request_id", l.RequestID),
		slog.Int64("operator", l.Operator),
		slog.String("key", l.Key),
		slog.String("method", l.Method),
		slog.String("path", l.Path),
		slog.String("code", l.Code),
		slog.Int("status", l.Status),
		slog.Float64("ms", l.milliseconds()),
		slog.String("ip", l.Address.String()),
	}
	if l.TraceID != "" {
		attrs = append(attrs, slog.String("trace_id", l.TraceID))
	}
	return attrs
}

func (l RequestLine) milliseconds() float64 { return float64(l.Took.Microseconds()) / 1000 }

// appendJSON writes what slog's JSON handler writes of the attributes. A test
// compares the two.
func (l RequestLine) appendJSON(b []byte, at time.Time) []byte {
	b = append(b, `{"time":"`...)
	b = at.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"INFO","msg":"`+requestMessage+`","request_id":"`...)
	b = append(b, l.RequestID...)
	b = append(b, `","operator":`...)
	b = strconv.AppendInt(b, l.Operator, 10)
	b = append(b, `,"key":"`...)
	b = append(b, l.Key...)
	b = append(b, `","method":"`...)
	b = append(b, l.Method...)
	b = append(b, `","path":"`...)
	b = append(b, l.Path...)
	b = append(b, `","code":"`...)
	b = append(b, l.Code...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(l.Status), 10)
	b = append(b, `,"ms":`...)
	b = strconv.AppendFloat(b, l.milliseconds(), 'f', -1, 64)
	b = append(b, `,"ip":"`...)
	if l.Address.IsValid() {
		b = l.Address.AppendTo(b)
	} else {
		b = append(b, l.Address.String()...)
	}
	if l.TraceID != "" {
		b = append(b, `","trace_id":"`...)
		b = append(b, l.TraceID...)
	}
	return append(b, "\"}\n"...)
}

// isPlain reports whether nothing in the line needs to be escaped or redacted.
// All of it comes from fixed lists and from ourselves, so it always is; but what
// ends up in a log is not taken on trust.
func (l RequestLine) isPlain() bool {
	return plain(l.RequestID) && plain(l.Method) && plain(l.Path) && plain(l.Code) && plain(l.Address.Zone()) && plain(l.TraceID) &&
		(isHint(l.Key) || plain(l.Key)) && l.Took >= 0
}

// isHint reports whether a text is the beginning of a key that people may see.
func isHint(text string) bool {
	return len(text) <= prefixLen+hintDigits && strings.HasPrefix(text, "cxk_") && hexRun(text[prefixLen:]) == len(text)-prefixLen
}

// plain reports whether a text stands for itself in JSON and cannot hold a secret:
// those begin with cxs_ or cxk_.
func plain(text string) bool {
	before := byte(0)
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == 'x' && before == 'c' {
			return false
		}
		before = c
	}
	return true
}
