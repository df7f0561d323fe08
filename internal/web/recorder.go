package web

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/telemetry"
)

// responseRecorder records the status of a response, for the log.
type responseRecorder struct {
	http.ResponseWriter
	status int
}

func (r *responseRecorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *responseRecorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (r *responseRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *responseRecorder) begun() bool { return r.status != 0 }

// record logs one line about a request and counts it, by its route's pattern: nothing
// that the client sent is logged.
func (s *Site) record(v *Visit, cause error) {
	path := "-"
	switch {
	case v.asked != nil:
		path = v.asked.Path
	case strings.HasPrefix(v.path, "/static/"):
		path = "/static/"
	}
	took := v.watch.Elapsed()
	status := v.response.status
	if status == 0 {
		status = http.StatusOK
	}
	s.metrics.RequestAnswered(path, strconv.Itoa(status), took)
	line := telemetry.RequestLine{
		RequestID: v.RequestID,
		Operator:  v.Session.Person.OperatorID,
		Method:    v.method,
		Path:      path,
		Code:      strings.ToUpper(strings.ReplaceAll(http.StatusText(status), " ", "_")),
		Status:    status,
		Took:      took,
		Address:   v.Address,
		TraceID:   v.span.TraceID(),
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost}, line.Method) {
		line.Method = "-"
	}
	v.span.EndRequest(line)
	var told *Problem
	if cause == nil || errors.As(cause, &told) {
		telemetry.LogRequest(s.log, line)
		return
	}
	why := []slog.Attr{slog.String("error", cause.Error())}
	var broken *panicError
	if errors.As(cause, &broken) {
		why = append(why, slog.String("stack", string(broken.stack)))
	}
	telemetry.LogFailure(s.log, line, why...)
}
