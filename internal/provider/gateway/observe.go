package gateway

import (
	"fmt"

	"github.com/coaxhq/coax/internal/operation"
)

// Cause is why a call ended as it did: finer than a verdict, for metrics and
// alarms. Money never depends on it.
type Cause string

// The ways a call can end.
const (
	Answered    Cause = "answered"           // a definite answer, to the letter
	Undecided   Cause = "undecided"          // to the letter, but the provider cannot say yet
	Unreachable Cause = "unreachable"        // no connection came about: nothing was sent
	Certificate Cause = "certificate"        // the same, because its certificate was not accepted
	TimedOut    Cause = "timed_out"          // no whole answer in time
	Interrupted Cause = "interrupted"        // the connection ended before a whole answer
	Unavailable Cause = "unavailable"        // HTTP 5xx
	Violation   Cause = "contract_violation" // an answer that the protocol does not know
)

// Observation is what became of one call.
type Observation struct {
	// What is activate, renew, advance_renew, reset_password, status, void,
	// catalogue or probe.
	What    string
	Cause   Cause
	Verdict operation.Outcome
}

// failure is a call without an answer that can be judged.
type failure struct {
	cause Cause
	// neverLeft: no connection was ever handed to the call.
	neverLeft bool
	detail    string
}

func violation(format string, args ...any) *failure {
	return &failure{cause: Violation, detail: fmt.Sprintf(format, args...)}
}

// judged is an answer with its cause.
type judged struct {
	cause  Cause
	answer operation.Reply
}

// judged is what a failure means for an order: nothing is known.
func (f *failure) judged() judged {
	return judged{cause: f.cause, answer: operation.Reply{Detail: f.detail}}
}
