package login

import (
	"context"
	"errors"
	"net/netip"
)

// EventKind names what somebody did at the service.
type EventKind string

// The kinds of events. Changes of a password or of a second factor that were made are
// in the audit log; here are those that were refused.
const (
	SignedIn             EventKind = "signed in"
	PasswordAccepted     EventKind = "password accepted" // the code is outstanding
	SignInFailed         EventKind = "sign-in failed"
	SignedOut            EventKind = "signed out"
	SessionEnded         EventKind = "session ended"
	SteppedUp            EventKind = "stepped up"
	StepUpFailed         EventKind = "step-up failed"
	PasswordChangeFailed EventKind = "password change failed"
	TOTPConfirmFailed    EventKind = "totp confirm failed"
	FactorChangeFailed   EventKind = "factor change failed"
	PasskeyWentBack      EventKind = "passkey counter went back"
	RecoveryCodeSpent    EventKind = "recovery code spent"
)

// Factors and reasons of events.
const (
	factorPassword     = "password"
	factorTOTP         = "totp"
	factorRecoveryCode = "recovery code"
	factorPasskey      = "passkey"

	reasonUnknownName     = "unknown name"
	reasonOperatorDeleted = "operator deleted"
	reasonChanged         = "changed meanwhile"
)

// Event is something that happened at the service. What the person is told may be less:
// that a name is nobody's is said here only. It has no password and no code, and no
// name that is nobody's, which may be a password in the wrong field.
type Event struct {
	Kind   EventKind
	Reason string
	// Person is whose login it is; zero where that is not known.
	Person    Person
	SessionID string
	// Factor is what was proved, or, where that failed, what was not.
	Factor  string
	Address netip.Addr
	Agent   string
	// CodesLeft is how many recovery codes are left, where one was spent; -1 where that
	// could not be read.
	CodesLeft int
}

// observe tells whoever listens.
func (d *Service) observe(ctx context.Context, e Event) {
	if d.config.Observe != nil {
		d.config.Observe(ctx, e)
	}
}

// reasonOf is why something was refused, for an event; empty where the error is no
// refusal.
func reasonOf(err error) string {
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return string(refusal.Reason)
	case errors.Is(err, ErrSignedOut):
		return "signed out"
	}
	return ""
}

// observeProof tells what came of proving oneself in a session; a success only if passed
// names it.
func (d *Service) observeProof(ctx context.Context, record Record, address netip.Addr, passed, failed EventKind, factor string, err error) {
	e := Event{Kind: passed, Person: record.Account.Person, SessionID: record.ID, Factor: factor, Address: address, Agent: record.Agent}
	if err != nil {
		if e.Kind, e.Reason = failed, reasonOf(err); e.Reason == "" {
			return // it went wrong on our side
		}
		d.observe(ctx, e)
		return
	}
	if passed != "" {
		d.observe(ctx, e)
	}
	if e.Factor == factorRecoveryCode || e.Factor == factorPassword+", "+factorRecoveryCode {
		left, err := d.store.RecoveryCodesLeft(ctx, e.Person.ID)
		if err != nil {
			left = -1
		}
		e.Kind, e.CodesLeft = RecoveryCodeSpent, left
		d.observe(ctx, e)
	}
}

// codeFactor is what kind of code somebody gave.
func codeFactor(account Account, code string) string {
	switch {
	case !account.SecondFactor():
		return ""
	case looksLikeTOTP(plain(code)):
		return factorTOTP
	}
	return factorRecoveryCode
}
