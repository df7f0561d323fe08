package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coaxhq/coax/internal/web/look"
)

// Problem is why a visitor gets an error page, in words for them. Any other error
// that a handler returns is ours: the page says so, and the log says what it was.
type Problem struct {
	Status int
	// Text is in English, and translated when it is shown.
	Text       string
	RetryAfter time.Duration
	cause      error
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

// What happens on every site.
var (
	errNoPage    = problem(http.StatusNotFound, look.Word("There is no such page."))
	errSuspended = problem(http.StatusForbidden, look.Word("This was not done: the operator's account is suspended, so you can look at everything and download it, and change nothing. Your MSO suspended it; ask them to activate it again."))
	errNotYours  = problem(http.StatusForbidden, look.Word("Your login does not open this page."))
)

// NotFound is for a page about something that is not there, or that is somebody
// else's: the two look the same from outside.
func NotFound() error { return errNoPage }

// Forbidden is for a visitor who may see a page and not do what it was asked.
func Forbidden(text string) error { return problem(http.StatusForbidden, text) }

// panicked is a panic as an error, with where it came from.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// problemPage is what the error page shows.
type problemPage struct {
	Status    int
	Text      string
	RequestID string
	Home      string
}

// fail shows why there is no page. If one was already on its way, the connection
// is broken off instead: half a page must not look like a whole one.
func (v *Visit) fail(cause error) error {
	if v.answer.begun() {
		panic(http.ErrAbortHandler)
	}
	shown := &Problem{Status: http.StatusInternalServerError, Text: look.Word("Something went wrong on our side. Nothing you did is to blame; try again in a moment.")}
	var told *Problem
	if errors.As(cause, &told) {
		shown = told
	}
	if shown.RetryAfter > 0 {
		v.W.Header().Set("Retry-After", strconv.Itoa(seconds(shown.RetryAfter)))
	}
	v.W.Header().Del("Content-Disposition") // what was to be a file is a page now
	v.Status = shown.Status
	data := problemPage{Status: shown.Status, Text: shown.Text, RequestID: v.RequestID, Home: "/"}
	if v.ByHTMX() {
		return v.ShowPart("problem", "problem-part", data)
	}
	return v.Show("problem", data)
}

// failPlainly is for when even the error page cannot be shown.
func (v *Visit) failPlainly() {
	if v.answer.begun() {
		return
	}
	v.W.Header().Del("Content-Disposition")
	v.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
	v.W.WriteHeader(http.StatusInternalServerError)
	fmt.Fprintf(v.W, "Something went wrong on our side (%s).\n", v.RequestID)
}

// seconds rounds up, so that whoever waits as long as told is not early.
func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }
