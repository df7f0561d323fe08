// Package fault names every reason Coax has for saying no, in the contract's
// own words. It knows no HTTP: how a code travels is httpapi's business.
package fault

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

// Error is a refusal that may be shown to a caller: its code, its text and its
// data leave the house. Cause does not; it is for the log.
type Error struct {
	Code    Code
	Message string
	Data    map[string]any
	// RetryAfter is how long the caller is asked to wait; zero where waiting
	// is not what mends it.
	RetryAfter time.Duration
	Cause      error
}

// New returns a refusal with a text for people.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// With returns a copy of e that also carries one named detail for the caller.
func (e *Error) With(name string, value any) *Error {
	clone := *e
	clone.Data = make(map[string]any, len(e.Data)+1)
	maps.Copy(clone.Data, e.Data)
	clone.Data[name] = value
	return &clone
}

// Because returns a copy of e that remembers what led to it. The cause reaches
// the log, never the caller.
func (e *Error) Because(cause error) *Error {
	clone := *e
	clone.Cause = cause
	return &clone
}

// After returns a copy of e that asks the caller to wait.
func (e *Error) After(wait time.Duration) *Error {
	clone := *e
	clone.RetryAfter = wait
	return &clone
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Cause }

// From finds the refusal in err. An error that is not one of ours becomes
// INTERNAL_ERROR with a fixed text, so that no inner detail can leak.
func From(err error) *Error {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return New(InternalError, "Something went wrong on our side. Retry with the same Idempotency-Key.").Because(err)
}

// CodeOf returns the code that err stands for; OK for nil.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	return From(err).Code
}

// Is reports whether err carries the given code.
func Is(err error, code Code) bool { return CodeOf(err) == code }
