package gateway

import (
	"fmt"

	"github.com/coaxhq/coax/internal/operation"
)

// Cause is how a call ended, in more detail than its outcome, for metrics and alarms. Money never
// depends on it.
type Cause string

// The ways a call can end.
const (
	Answered    Cause = "answered"           // a definite, valid reply
	Undecided   Cause = "undecided"          // a valid reply without a definite outcome
	Unreachable Cause = "unreachable"        // no connection: nothing was sent
	Certificate Cause = "certificate"        // no connection, because the certificate was not accepted
	TimedOut    Cause = "timed_out"          // no complete reply in time
	Interrupted Cause = "interrupted"        // the connection ended before the reply was complete
	Unavailable Cause = "unavailable"        // HTTP 5xx
	Violation   Cause = "contract_violation" // a reply that the protocol does not allow
)

// Observation is the outcome of one call.
type Observation struct {
	// What is activate, renew, advance_renew, reset_password, status, void,
	// catalogue or probe.
	What    string
	Cause   Cause
	Outcome operation.Outcome
}

// failure is a call without a valid reply.
type failure struct {
	cause Cause
	// notSent: the call never had a connection.
	notSent bool
	detail  string
}

func violation(format string, args ...any) *failure {
	return &failure{cause: Violation, detail: fmt.Sprintf(format, args...)}
}

// result is a reply with its cause.
type result struct {
	cause  Cause
	answer operation.Reply
}

// result is the result of a failed call: the outcome is unknown.
func (f *failure) result() result {
	return result{cause: f.cause, answer: operation.Reply{Detail: f.detail}}
}
