package gateway

import (
	"fmt"
	"time"

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

// Causes are all of them.
var Causes = []Cause{Answered, Undecided, Unreachable, Certificate, TimedOut, Interrupted, Unavailable, Violation}

// Observation is the outcome of one call.
type Observation struct {
	// What is one of Orders or Questions.
	What    string
	Cause   Cause
	Outcome operation.Outcome
	Took    time.Duration
}

// The kinds of calls: Orders are paid for.
var (
	Orders    = []string{string(operation.Activate), string(operation.Renew), string(operation.AdvanceRenew)}
	Questions = []string{"reset_password", "reverse", "contact", "status", "void", "orders", "catalogue", "probe"}
)

// failure is a call without a valid reply.
type failure struct {
	cause Cause
	// notSent: the call never had a connection.
	notSent bool
	// code is the HTTP status of a reply that cannot be used; 0 without one.
	code   int
	detail string
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
