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

// answer notices what is answered, for the record.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach what is beneath.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) begun() bool { return a.status != 0 }

// record writes one line about a visit and counts it, by its route's pattern:
// nothing that a stranger sent is repeated.
func (s *Site) record(v *Visit, cause error) {
	path := "-"
	switch {
	case v.asked != nil:
		path = v.asked.Path
	case strings.HasPrefix(v.path, "/static/"):
		path = "/static/"
	}
	took := v.watch.Elapsed()
	status := v.answer.status
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
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost}, line.Method) {
		line.Method = "-"
	}
	var told *Problem
	if cause == nil || errors.As(cause, &told) {
		telemetry.LogRequest(s.log, line)
		return
	}
	why := []slog.Attr{slog.String("error", cause.Error())}
	var broken *panicked
	if errors.As(cause, &broken) {
		why = append(why, slog.String("stack", string(broken.stack)))
	}
	telemetry.LogFailure(s.log, line, why...)
}
