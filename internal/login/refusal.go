package login

import (
	"errors"
	"time"
)

// ErrSignedOut is what a token gets that opens no session, or no longer.
var ErrSignedOut = errors.New("nobody is signed in with this token")

// Reason is why somebody was refused, for whoever shows it.
type Reason string

// The reasons.
const (
	// Wrong is of username and password together: which of the two it was is not
	// said.
	Wrong Reason = "wrong"
	// WrongPassword is of somebody who is signed in and gave a wrong one.
	WrongPassword Reason = "wrong password"
	Throttled     Reason = "throttled"
	Disabled      Reason = "disabled"
	WeakPassword  Reason = "weak password"
	WrongCode     Reason = "wrong code"
	// PasswordEnded is of a temporary password that was right, too late.
	PasswordEnded Reason = "temporary password ended"
	// SessionOver is of a session that ended because of wrong guesses in it.
	SessionOver  Reason = "session over"
	WrongPasskey Reason = "wrong passkey"
	// PasskeyCopied is of a passkey whose counter went back.
	PasskeyCopied Reason = "passkey counter went back"
	// Unsuitable is of a passkey that cannot be added.
	Unsuitable Reason = "unsuitable"
	// Required is of a second factor that may not be taken away.
	Required Reason = "required"
	// Stale is of what needs a younger proof of identity: StepUp comes first.
	Stale Reason = "stale"
	// OutOfTurn is of what has no place in the session's stage.
	OutOfTurn Reason = "out of turn"
)

// Refusal is something that was not done, with a sentence for the person.
type Refusal struct {
	Reason Reason
	// RetryAfter is how long to wait, where waiting helps.
	RetryAfter time.Duration
	// Text is whole sentences in English, without anything that varies, so that it
	// can be looked up in another language.
	Text string
}

func (r *Refusal) Error() string { return r.Text }

func refuse(reason Reason, text string) *Refusal { return &Refusal{Reason: reason, Text: text} }

func throttled(wait time.Duration) *Refusal {
	return &Refusal{Reason: Throttled, RetryAfter: wait, Text: "There were too many attempts. Wait a little and try again."}
}

// The sentences.
const (
	wrongText         = "The username or the password is wrong."
	wrongPasswordText = "The password is wrong."
	wrongCodeText     = "The code is wrong, or was used already. Wait for the next one and try again."
	disabledText      = "This login is switched off. Ask an administrator."
	closedText        = "This operator's account is closed."
	passwordEndedText = "This temporary password has ended. Ask for a new one."
	sessionOverText   = "There were too many wrong tries, and you were signed out. Sign in again."
	staleText         = "Confirm that it is you first."
	outOfTurnText     = "This is not possible now. Finish signing in first."
	requiredText      = "A second factor is required for your login. It can be replaced, not removed."
	noEnrolmentText   = "Start again: no second factor is being set up, or it took too long."
	noFactorText      = "No such second factor is set up."
	wrongPasskeyText  = "The passkey was not accepted. Try again, or use a code."
	copiedText        = "The passkey was refused: its counter went back, as it does when there is a copy. Use a code, then remove this passkey."
	badPasskeyText    = "The passkey could not be added. Start again."
	knownPasskeyText  = "This passkey is in use already."
	tooManyText       = "You have ten passkeys, which is the most. Remove one first."
	nameText          = "Give the passkey a name of at most 40 characters."
	noSiteText        = "Passkeys need an address with a name: they do not work where the address is a number."
)
