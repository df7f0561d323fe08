package login

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// A stolen session cookie must not be enough to change the second factors. So each change
// needs the password and a present second factor, however recent the session or its last
// step-up, and each ends the person's other sessions.

// SecondFactor reports whether signing in needs more than the password.
func (p Person) SecondFactor() bool { return p.TOTP || p.Passkeys > 0 }

// Credentials are a password and a second factor: a code (of the app, or a recovery code)
// or a passkey's response to the session's challenge.
type Credentials struct {
	Password, Code string
	// Passkey is the browser's response, in JSON. If it is set, the code is ignored.
	Passkey []byte
}

// factor names the second factor that was given, for events.
func (c Credentials) factor(account Account) string {
	if c.Passkey != nil {
		return factorPasskey
	}
	return codeFactor(account, c.Code)
}

// challengeFor is how long a challenge is valid.
const challengeFor = 10 * time.Minute

// counted runs an attempt to verify credentials in a session, within the limits of
// step-up, and reports the result as an event.
func (svc *Service) counted(ctx context.Context, record Record, address netip.Addr, passed, failed EventKind, factor string, attempt func() error) error {
	err := svc.proveInSession(ctx, record, svc.config.Now(), attempt)
	svc.observeProof(ctx, record, address, passed, failed, factor, err)
	return err
}

// secondProof verifies the second factor. The store checks whether it was used before.
func (svc *Service) secondProof(ctx context.Context, record Record, given Credentials, address netip.Addr, now time.Time) (Proof, error) {
	if given.Passkey != nil && record.Account.SecondFactor() {
		return svc.passkeyProof(ctx, record, given.Passkey, address, now)
	}
	return svc.proofOf(ctx, record.Account, given.Code, now)
}

// refuseUsed refuses a proof that was used before.
func refuseUsed(proof Proof) *Refusal {
	if proof.Passkey != nil {
		return refuse(WrongPasskey, wrongPasskeyText)
	}
	return refuse(WrongCode, wrongCodeText)
}

// prove verifies the password and, if one is set up, the second factor.
func (svc *Service) prove(ctx context.Context, record Record, given Credentials, address netip.Addr, now time.Time) (Proof, error) {
	if err := svc.verifyPassword(ctx, record.Account, given.Password); err != nil {
		return Proof{}, err
	}
	return svc.secondProof(ctx, record, given, address, now)
}

// begin starts a change of second factors that takes two forms. With valid credentials it
// returns a ticket for the second form. state returns what is stored until then.
func (svc *Service) begin(ctx context.Context, token string, given Credentials, address netip.Addr, kind ChallengeKind,
	state func(Record) ([]byte, error)) (ticket, fresh string, s Session, err error) {
	now := svc.config.Now()
	record, err := svc.open(ctx, token, now)
	if err != nil {
		return "", "", s, err
	}
	if stage := svc.session(record).Stage; stage != Complete && stage != NeedsTOTP {
		return "", "", s, refuse(WrongStage, wrongStageText)
	}
	stored, err := state(record)
	if err != nil {
		return "", "", s, err
	}
	ticket, fresh = newToken(), newToken()
	challenge := Challenge{ChallengeRef: ChallengeRef{SessionID: record.ID, Kind: kind, Ticket: HashToken(ticket)}, State: stored, ExpiresAt: now.Add(challengeFor)}
	err = svc.counted(ctx, record, address, "", FactorChangeFailed, provedBy(record.Account, given), func() error {
		proof, err := svc.prove(ctx, record, given, address, now)
		if err != nil {
			return err
		}
		return refusedBy(proof, svc.store.UpgradeSession(ctx, SessionUpgrade{
			Old: HashToken(token), New: HashToken(fresh), PersonID: record.Account.ID, Version: record.Account.Version,
			Proof: proof, SteppedUpAt: now, Begins: &challenge,
		}))
	})
	if err != nil {
		return "", "", s, err
	}
	fresh, s, err = svc.reread(ctx, fresh)
	return ticket, fresh, s, err
}

// finish reads what begin stored, for the holder of its ticket.
func (svc *Service) finish(ctx context.Context, token, ticket string, kind ChallengeKind) (Record, Challenge, error) {
	now := svc.config.Now()
	record, err := svc.open(ctx, token, now)
	if err != nil {
		return record, Challenge{}, err
	}
	if stage := svc.session(record).Stage; stage != Complete && stage != NeedsTOTP {
		return record, Challenge{}, refuse(WrongStage, wrongStageText)
	}
	challenge, found, err := svc.store.ChallengeOf(ctx, record.ID, kind)
	if err != nil {
		return record, challenge, fmt.Errorf("read a challenge: %w", err)
	}
	given := HashToken(ticket)
	if !found || !now.Before(challenge.ExpiresAt) || subtle.ConstantTimeCompare(given[:], challenge.Ticket[:]) != 1 {
		return record, challenge, refuse(WrongStage, noEnrolmentText)
	}
	return record, challenge, nil
}

// change makes a change of second factors in a session, which gets another token.
func (svc *Service) change(ctx context.Context, token string, record Record, action string, c FactorChange, notice FactorNotice) (fresh string, s Session, err error) {
	notice.At, notice.Session = c.At, record.ID
	if c.Notice, err = AddNotice(record.Account.FactorNotice, notice); err != nil {
		return "", s, err
	}
	fresh = newToken()
	c.PersonID, c.Version, c.Old, c.New = record.Account.ID, record.Account.Version, HashToken(token), HashToken(fresh)
	if err := svc.store.ChangeFactors(ctx, svc.ownAction(record.Account.Person, action, c.At), c); err != nil {
		return "", s, refusedBy(c.Proof, err)
	}
	return svc.reread(ctx, fresh)
}

// refusedBy converts a store's error into what the person is told.
func refusedBy(proof Proof, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUsed) && proof.Present():
		return refuseUsed(proof)
	case errors.Is(err, ErrUsed):
		return refuse(WrongStage, noEnrolmentText)
	case errors.Is(err, ErrPasskeyExists):
		return refuse(InvalidPasskey, knownPasskeyText)
	}
	return signedOutIfChanged(err)
}

func provedBy(account Account, given Credentials) string {
	if second := given.factor(account); second != "" {
		return factorPassword + ", " + second
	}
	return factorPassword
}

// changeAtOnce makes a change of second factors that takes one form. After verification,
// wanted returns the change, or why it is not possible.
func (svc *Service) changeAtOnce(ctx context.Context, token string, given Credentials, address netip.Addr, action string,
	wanted func(Record) (FactorChange, FactorNotice, error)) (fresh string, s Session, err error) {
	now := svc.config.Now()
	record, err := svc.open(ctx, token, now)
	if err != nil {
		return "", s, err
	}
	if svc.session(record).Stage != Complete {
		return "", s, refuse(WrongStage, wrongStageText)
	}
	err = svc.counted(ctx, record, address, "", FactorChangeFailed, provedBy(record.Account, given), func() error {
		proof, err := svc.prove(ctx, record, given, address, now)
		if err != nil {
			return err
		}
		c, notice, err := wanted(record)
		if err != nil {
			return err
		}
		c.Proof, c.At = proof, now
		fresh, s, err = svc.change(ctx, token, record, action, c, notice)
		return err
	})
	return fresh, s, err
}

// TOTPOffer is an authenticator app that is being set up.
type TOTPOffer struct {
	Enrolment
	// Ticket goes with the code that sets it up.
	Ticket string
}

// BeginTOTP starts setting up an authenticator app. It takes effect when ConfirmTOTP gets
// a code of it with the ticket; until then nothing changes but the session's token.
func (svc *Service) BeginTOTP(ctx context.Context, token string, given Credentials, address netip.Addr) (offer TOTPOffer, fresh string, s Session, err error) {
	secret := newTOTPSecret()
	offer.Ticket, fresh, s, err = svc.begin(ctx, token, given, address, ChallengeTOTP, func(record Record) ([]byte, error) {
		offer.Enrolment = enrolment(secret, record.Account.Username)
		sealed, err := svc.vault.SealTOTP(secret, record.Account.ID)
		if err != nil {
			return nil, fmt.Errorf("seal the second factor of login %d: %w", record.Account.ID, err)
		}
		return sealed, nil
	})
	if err != nil {
		return TOTPOffer{}, "", s, err
	}
	return offer, fresh, s, nil
}

// ConfirmTOTP sets up the offered app, given the ticket and a code. It returns recovery
// codes, to be shown once.
func (svc *Service) ConfirmTOTP(ctx context.Context, token, ticket, code string, address netip.Addr) (codes []string, fresh string, s Session, err error) {
	now := svc.config.Now()
	record, challenge, err := svc.finish(ctx, token, ticket, ChallengeTOTP)
	if err != nil {
		return nil, "", s, err
	}
	secret, err := svc.vault.OpenTOTP(challenge.State, record.Account.ID)
	if err != nil {
		return nil, "", s, fmt.Errorf("read the offered second factor of login %d: %w", record.Account.ID, err)
	}
	// Guesses are not counted: the secret was just shown to this session.
	step, found := stepOfCode(secret, plain(code), now, 0)
	if !found {
		err = refuse(WrongCode, wrongCodeText)
		svc.observeProof(ctx, record, address, "", TOTPConfirmFailed, factorTOTP, err)
		return nil, "", s, err
	}
	codes, stored, err := newRecoveryCodes(ctx)
	if err != nil {
		return nil, "", s, busy(err)
	}
	notice := FactorNotice{What: TOTPSet}
	if record.Account.TOTP {
		notice.What = TOTPReplaced
	}
	fresh, s, err = svc.change(ctx, token, record, actionTOTP, FactorChange{
		Challenge: &challenge.ChallengeRef, At: now, SetTOTP: &NewTOTP{Sealed: challenge.State, Step: step}, RecoveryCodes: &stored,
	}, notice)
	if err != nil {
		return nil, "", s, err
	}
	return codes, fresh, s, nil
}

// RemoveTOTP removes the authenticator app, unless a second factor is required. The
// recovery codes are removed with the last second factor.
func (svc *Service) RemoveTOTP(ctx context.Context, token string, given Credentials, address netip.Addr) (fresh string, s Session, err error) {
	return svc.changeAtOnce(ctx, token, given, address, actionNoTOTP, func(record Record) (FactorChange, FactorNotice, error) {
		p := record.Account.Person
		c := FactorChange{DropTOTP: true}
		switch {
		case !p.TOTP:
			return c, FactorNotice{}, refuse(WrongStage, noFactorText)
		case p.Passkeys == 0 && svc.RequiresSecondFactor(p):
			return c, FactorNotice{}, refuse(Required, requiredText)
		case p.Passkeys == 0:
			c.RecoveryCodes = &RecoveryCodes{}
		}
		return c, FactorNotice{What: TOTPRemoved}, nil
	})
}

// ReplaceRecoveryCodes generates new recovery codes, to be shown once. The old ones become
// invalid.
func (svc *Service) ReplaceRecoveryCodes(ctx context.Context, token string, given Credentials, address netip.Addr) (codes []string, fresh string, s Session, err error) {
	fresh, s, err = svc.changeAtOnce(ctx, token, given, address, actionRecoveryCodes, func(record Record) (FactorChange, FactorNotice, error) {
		if !record.Account.SecondFactor() {
			return FactorChange{}, FactorNotice{}, refuse(WrongStage, noFactorText)
		}
		made, stored, err := newRecoveryCodes(ctx)
		codes = made
		return FactorChange{RecoveryCodes: &stored}, FactorNotice{What: RecoveryCodesChanged}, busy(err)
	})
	if err != nil {
		return nil, "", s, err
	}
	return codes, fresh, s, nil
}
