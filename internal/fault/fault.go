// Package fault has the contract's result codes and the error type that carries them. It knows no
// HTTP: httpapi maps codes to statuses.
package fault

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

// Error is an error with a code. Code, Message and Data are sent to the caller; Cause is only logged.
type Error struct {
	Code    Code
	Message string
	Data    map[string]any
	// RetryAfter is how long the caller should wait; zero if waiting does not help.
	RetryAfter time.Duration
	Cause      error
}

// New returns an Error with a message for people.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// With returns a copy of e with one more field in its data.
func (e *Error) With(name string, value any) *Error {
	clone := *e
	clone.Data = make(map[string]any, len(e.Data)+1)
	maps.Copy(clone.Data, e.Data)
	clone.Data[name] = value
	return &clone
}

// Because returns a copy of e with a cause, which is logged and never sent to the caller.
func (e *Error) Because(cause error) *Error {
	clone := *e
	clone.Cause = cause
	return &clone
}

// After returns a copy of e with a RetryAfter.
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

// From returns the Error in err. Any other error becomes INTERNAL_ERROR with a fixed message, so that
// no internal detail leaks.
func From(err error) *Error {
	var found *Error
	if errors.As(err, &found) {
		return found
	}
	return New(InternalError, "Something went wrong on our side. Retry with the same Idempotency-Key.").Because(err)
}

// CodeOf returns the code of err; OK for nil.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	return From(err).Code
}

// Is reports whether err carries the given code.
func Is(err error, code Code) bool { return CodeOf(err) == code }
