package login

import (
	"errors"
	"time"
)

// ErrSignedOut is returned for a token that has no session, or no longer.
var ErrSignedOut = errors.New("the token has no session")

// Reason classifies a Refusal.
type Reason string

// The reasons.
const (
	// Wrong is a wrong username or password; the person is not told which.
	Wrong Reason = "wrong"
	// WrongPassword is a wrong password in a session.
	WrongPassword Reason = "wrong password"
	Throttled     Reason = "throttled"
	Disabled      Reason = "disabled"
	WeakPassword  Reason = "weak password"
	WrongCode     Reason = "wrong code"
	// PasswordEnded is a correct temporary password that has expired.
	PasswordEnded Reason = "temporary password ended"
	// SessionOver: the session was ended after too many wrong guesses.
	SessionOver  Reason = "session over"
	WrongPasskey Reason = "wrong passkey"
	// PasskeyCopied is a passkey whose counter went back.
	PasskeyCopied Reason = "passkey counter went back"
	// InvalidPasskey is a passkey that cannot be added.
	InvalidPasskey Reason = "unsuitable"
	// Required is a second factor that may not be removed.
	Required Reason = "required"
	// Stale: a StepUp is needed first.
	Stale Reason = "stale"
	// WrongStage is a request that the session's stage does not allow.
	WrongStage Reason = "out of turn"
)

// Refusal is a refused request, with a message for the person.
type Refusal struct {
	Reason Reason
	// RetryAfter is how long to wait, where waiting helps.
	RetryAfter time.Duration
	// Text is complete sentences in English without variable parts, so that they can be
	// translated.
	Text string
}

func (r *Refusal) Error() string { return r.Text }

func refuse(reason Reason, text string) *Refusal { return &Refusal{Reason: reason, Text: text} }

func throttled(wait time.Duration) *Refusal {
	return &Refusal{Reason: Throttled, RetryAfter: wait, Text: "Too many attempts. Wait a moment and try again."}
}

// The messages.
const (
	wrongText         = "The username or the password is wrong."
	wrongPasswordText = "The password is wrong."
	wrongCodeText     = "The code is wrong, or was used already. Wait for the next one and try again."
	disabledText      = "This login is disabled. Ask an administrator."
	closedText        = "This operator's account is closed."
	passwordEndedText = "This temporary password has expired. Ask for a new one."
	sessionOverText   = "You were signed out after too many wrong attempts. Sign in again."
	staleText         = "Confirm that it is you first."
	wrongStageText    = "Finish signing in first."
	requiredText      = "A second factor is required for your login. It can be replaced, not removed."
	noEnrolmentText   = "The setup has expired. Start again."
	noFactorText      = "No such second factor is set up."
	wrongPasskeyText  = "The passkey was not accepted. Try again, or use a code."
	copiedText        = "The passkey was refused because it may have been copied. Use a code, then remove this passkey."
	badPasskeyText    = "The passkey could not be added. Start again."
	knownPasskeyText  = "This passkey is in use already."
	tooManyText       = "You have ten passkeys, which is the maximum. Remove one first."
	nameText          = "Give the passkey a name of at most 40 characters."
	noSiteText        = "Passkeys need a host name: they do not work when the address is an IP address."
)
