package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coaxhq/coax/internal/web/look"
)

// Problem is an error with a status and a text for the error page. Any other error that
// a handler returns is shown as an internal error, and its text is only logged.
type Problem struct {
	Status int
	// Text is in English, and translated when it is shown.
	Text string
	// Next is the URL of a page that helps, and NextText its link in English; may be empty.
	Next, NextText string
	RetryAfter     time.Duration
	cause          error
}

func (p *Problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("%d %s: %v", p.Status, p.Text, p.cause)
	}
	return fmt.Sprintf("%d %s", p.Status, p.Text)
}

func (p *Problem) Unwrap() error { return p.cause }

func problem(status int, text string) *Problem { return &Problem{Status: status, Text: text} }

func (p *Problem) because(err error) *Problem {
	p.cause = err
	return p
}

// The site's own problems.
var (
	errNoPage    = problem(http.StatusNotFound, look.Text("There is no such page."))
	errSuspended = problem(http.StatusForbidden, look.Text("Nothing was changed: the operator's account is suspended. You can view and download everything. Ask your MSO to reactivate it."))
	errNotYours  = problem(http.StatusForbidden, look.Text("You do not have permission to view this page."))
)

// NotFound is the error for something that does not exist or belongs to another operator:
// the two must look the same.
func NotFound() error { return errNoPage }

// panicError is a recovered panic with its stack.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// problemPage is the data of the error page.
type problemPage struct {
	Status    int
	Text      string
	RequestID string
	Home      string

	Next, NextText string
}

// fail shows the error page. If a response was already begun, it aborts the connection
// instead, so that half a page does not look complete.
func (v *Visit) fail(cause error) error {
	if v.response.begun() {
		panic(http.ErrAbortHandler)
	}
	shown := &Problem{Status: http.StatusInternalServerError, Text: look.Text("Something went wrong on our side. Try again in a moment.")}
	var told *Problem
	if errors.As(cause, &told) {
		shown = told
	}
	if shown.RetryAfter > 0 {
		v.W.Header().Set("Retry-After", strconv.Itoa(seconds(shown.RetryAfter)))
	}
	v.W.Header().Del("Content-Disposition") // it is a page, not the file
	v.Status = shown.Status
	data := problemPage{Status: shown.Status, Text: shown.Text, RequestID: v.RequestID, Home: "/", Next: shown.Next, NextText: shown.NextText}
	if v.ByHTMX() {
		return v.ShowPart("problem", "problem-part", data)
	}
	return v.Show("problem", data)
}

// failPlainly is for when even the error page cannot be shown.
func (v *Visit) failPlainly() {
	if v.response.begun() {
		return
	}
	v.W.Header().Del("Content-Disposition")
	v.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
	v.W.WriteHeader(http.StatusInternalServerError)
	fmt.Fprintf(v.W, "Something went wrong on our side (%s).\n", v.RequestID)
}

// seconds rounds up, so that a client that waits this long is not early.
func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }
