package login

import (
	"context"
	"errors"
	"net/netip"
)

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events. Successful changes of a password or of a second factor are in the
// audit log; only refused ones are events.
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

// Event is a security event. It may say more than the person is told, such as that a
// username is unknown. It has no password, no code and no unknown username, which may be
// a password in the wrong field.
type Event struct {
	Kind   EventKind
	Reason string
	// Person is zero where the login is not known.
	Person    Person
	SessionID string
	// Factor is the factor that was verified, or that failed.
	Factor  string
	Address netip.Addr
	Agent   string
	// CodesLeft is how many recovery codes are left after one was used; -1 if that could
	// not be read.
	CodesLeft int
}

func (svc *Service) observe(ctx context.Context, e Event) {
	if svc.config.Observe != nil {
		svc.config.Observe(ctx, e)
	}
}

// reasonOf returns why something was refused, for an event; empty if the error is no
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

// observeProof reports the result of a verification in a session; a success only if
// passed is given.
func (svc *Service) observeProof(ctx context.Context, record Record, address netip.Addr, passed, failed EventKind, factor string, err error) {
	e := Event{Kind: passed, Person: record.Account.Person, SessionID: record.ID, Factor: factor, Address: address, Agent: record.Agent}
	if err != nil {
		if e.Kind, e.Reason = failed, reasonOf(err); e.Reason == "" {
			return // an internal error
		}
		svc.observe(ctx, e)
		return
	}
	if passed != "" {
		svc.observe(ctx, e)
	}
	if e.Factor == factorRecoveryCode || e.Factor == factorPassword+", "+factorRecoveryCode {
		left, err := svc.store.RecoveryCodesLeft(ctx, e.Person.ID)
		if err != nil {
			left = -1
		}
		e.Kind, e.CodesLeft = RecoveryCodeSpent, left
		svc.observe(ctx, e)
	}
}

// codeFactor returns the kind of a code that was given.
func codeFactor(account Account, code string) string {
	switch {
	case !account.SecondFactor():
		return ""
	case looksLikeTOTP(plain(code)):
		return factorTOTP
	}
	return factorRecoveryCode
}
